"""The right pictures, the right way up, the same by every way of decoding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from drawn import number_in, picture, remux, steady, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hfprep import decode, probe, video
from hfprep.errors import ClipError
from hfprep.records import I64, Timeline

WHOLE = decode.Geometry(64, 80, "stretch")
N = 40


def _vfr(folder: Path) -> Path:
    times = np.cumsum([0, *([20, 20, 70, 33] * 10)])[:N]
    return write(folder / "vfr.mkv", times.tolist(), b_frames=2, options={"x264-params": "bframes=2:b-adapt=0:scenecut=0"})


def _edit_list(folder: Path) -> Path:
    source = write(folder / "whole.mp4", steady(N + 8, 40), b_frames=2, gop=20, first=0, options={"x264-params": "bframes=2:b-adapt=0"})
    return remux(source, folder / "trimmed.mp4", shift=-8 * 40 * 16)


def _x264(name: str, params: str) -> Callable[[Path], Path]:
    return lambda folder: write(folder / name, steady(N, 40), b_frames=3, options={"x264-params": params})


def _x265(folder: Path) -> Path:
    params = {"preset": "ultrafast", "x265-params": "bframes=3:b-adapt=0:keyint=12:open-gop=1:pools=none:frame-threads=1:log-level=none"}
    return write(folder / "hevc.mp4", steady(N, 40), codec="libx265", options=params)


def _other(name: str, codec: str, options: dict[str, str], b_frames: int = 0) -> Callable[[Path], Path]:
    return lambda folder: write(
        folder / name, steady(N, 1), size=(160, 128), time_base=Fraction(1, 25), codec=codec, options=options, b_frames=b_frames
    )


# name -> (how to draw it, number in the first picture shown)
FILES: dict[str, tuple[Callable[[Path], Path], int]] = {
    "h264": (_x264("h264.mp4", "bframes=3:b-adapt=0:b-pyramid=0:scenecut=0"), 0),
    "h264-pyramid": (_x264("pyramid.mp4", "bframes=3:b-adapt=0:b-pyramid=normal:scenecut=0"), 0),
    "h264-open-gop": (_x264("open.mkv", "bframes=3:b-adapt=0:open-gop=1:scenecut=0:keyint=10"), 0),
    "h264-rolling-refresh": (_x264("refresh.mp4", "bframes=0:intra-refresh=1:keyint=10:scenecut=0"), 0),
    "h264-vfr": (_vfr, 0),
    "h264-edit-list": (_edit_list, 8),
    "hevc-open-gop": (_x265, 0),
    "mpeg4": (_other("m4.mp4", "mpeg4", {"qscale": "1"}, 2), 0),
    "mpeg2": (_other("m2.mkv", "mpeg2video", {"qscale": "3"}, 2), 0),
    "vp8": (_other("v8.webm", "libvpx", {"deadline": "realtime", "cpu-used": "8", "auto-alt-ref": "0"}), 0),
    "vp9": (_other("v9.webm", "libvpx-vp9", {"deadline": "realtime", "cpu-used": "8"}), 0),
}


class Drawings(dict[str, tuple[Timeline, np.ndarray]]):
    """Timeline and all pictures, decoded plainly, of every drawn file."""

    def __repr__(self) -> str:
        return f"Drawings({list(self)})"


@pytest.fixture(scope="module")
def drawings(tmp_path_factory: pytest.TempPathFactory) -> Drawings:
    folder = tmp_path_factory.mktemp("drawn")
    out = Drawings()
    for name, (draw, _) in FILES.items():
        timeline = probe.probe(str(draw(folder)))
        plain = replace(timeline, trusted=False)
        everything = np.arange(len(timeline.pts_ns))
        pictures = [p for _, p, whole in decode.shown(plain, everything, WHOLE) if whole]
        out[name] = (timeline, np.stack(pictures))
    return out


def sets_of_frames() -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, N - 1), min_size=1, max_size=N, unique=True).map(sorted)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wanted=sets_of_frames())
@pytest.mark.parametrize("name", FILES)
def test_all_ways_give_the_same_pixels(name: str, wanted: list[int], drawings: Drawings) -> None:
    timeline, everything = drawings[name]
    seen = list(decode.shown(timeline, np.array(wanted), WHOLE))
    assert [index for index, _, _ in seen] == wanted
    assert all(whole for _, _, whole in seen)
    np.testing.assert_array_equal(np.stack([p for _, p, _ in seen]), everything[wanted])


@pytest.mark.parametrize("name", FILES)
def test_the_planned_way_needs_no_second_look(name: str, drawings: Drawings) -> None:
    timeline, everything = drawings[name]
    assert timeline.trusted and len(everything) == N
    assert [number_in(p) for p in everything] == list(range(FILES[name][1], FILES[name][1] + N))
    wanted = np.array([1, 6, 7, 18, 33, N - 1])
    with video.Video(timeline.path) as opened:
        assert [index for index, _ in decode._planned(opened, timeline, wanted)] == wanted.tolist()
        assert not opened.faults


def test_few_packets_reach_the_decoder(drawings: Drawings, monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[int] = []
    inner = video.Video.decode

    def count(self: video.Video, packet: object) -> object:
        fed.append(1)
        return inner(self, packet)  # type: ignore[arg-type]

    monkeypatch.setattr(video.Video, "decode", count)
    timeline, _ = drawings["h264"]
    assert [index for index, _, _ in decode.shown(timeline, np.array([26]), WHOLE)] == [26]
    assert len(fed) <= 5  # of 40: the key frame (24), two for the group of pictures, the drain


def test_key_frames_that_are_none_cost_time_not_pixels(drawings: Drawings) -> None:
    timeline, everything = drawings["h264"]
    lying = replace(timeline, keyframes=np.arange(N))
    for wanted in ([5], [3, 17, 30], [39]):
        pictures = [p for _, p, _ in decode.shown(lying, np.array(wanted), WHOLE)]
        np.testing.assert_array_equal(np.stack(pictures), everything[wanted])


def test_frames_fills_every_tick_with_what_is_on_the_screen(tmp_path: Path) -> None:
    timeline = probe.probe(str(write(tmp_path / "v.mkv", [0, 100, 350, 400])))
    ticks = np.arange(0, 401, 50) * 10**6
    out = decode.frames(timeline, ticks, WHOLE)
    assert [number_in(p) for p in out.frames] == [0, 0, 1, 1, 1, 1, 1, 2, 3]
    assert out.ok.all()
    assert (out.source_ns // 10**6).tolist() == [0, 0, 100, 100, 100, 100, 100, 350, 400]
    assert decode.frames(timeline, ticks[:0], WHOLE).frames.shape == (0, 64, 80, 3)


def test_pictures_come_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timeline = replace(probe.probe(str(write(tmp_path / "v.mkv", steady(30, 40)))), trusted=False)
    read: list[int] = []
    inner = video.Video.decode
    monkeypatch.setattr(video.Video, "decode", lambda self, packet: read.append(1) or inner(self, packet))
    walk = decode.shown(timeline, np.arange(30), WHOLE)
    assert next(walk)[0] == 0
    assert len(read) < 10
    walk.close()


# ------------------------------------------------------------------ which way up, which part

SQUARE = decode.Geometry(64, 64, "stretch")


def _quarters() -> np.ndarray:
    """Four corners of four colours: every one of the eight orientations looks different."""
    out = np.zeros((64, 64, 3), np.uint8)
    out[:32, :32], out[:32, 32:], out[32:, :32] = (230, 230, 230), (200, 30, 30), (30, 60, 200)
    return out


ONE = 1 << 16
MATRICES = {
    "as stored": ((ONE, 0, 0, ONE), lambda a: a),
    "mirrored": ((-ONE, 0, 0, ONE), lambda a: a[:, ::-1]),
    "upside down": ((ONE, 0, 0, -ONE), lambda a: a[::-1]),
    "half turn": ((-ONE, 0, 0, -ONE), lambda a: a[::-1, ::-1]),
    "quarter turn clockwise": ((0, ONE, -ONE, 0), lambda a: np.rot90(a, -1)),
    "quarter turn counter-clockwise": ((0, -ONE, ONE, 0), lambda a: np.rot90(a, 1)),
    "transposed": ((0, ONE, ONE, 0), lambda a: a.transpose(1, 0, 2)),
    "transposed the other way": ((0, -ONE, -ONE, 0), lambda a: np.rot90(a, 2).transpose(1, 0, 2)),
}


@pytest.mark.parametrize("name", MATRICES)
def test_every_display_matrix_makes_the_picture_upright(name: str, tmp_path: Path) -> None:
    (a, b, c, d), turned = MATRICES[name]
    drawn = _quarters()
    path = write(tmp_path / "v.mov", [0, 40], size=(64, 64), pictures=[drawn, drawn], matrix=(a, b, 0, c, d, 0, 0, 0, 1 << 30))
    timeline = probe.probe(str(path))
    out = decode.frames(timeline, np.zeros(1, np.int64), SQUARE).frames[0]
    assert np.abs(out.astype(int) - turned(drawn).astype(int)).mean() < 6


def test_angles_between_are_rounded_and_said(tmp_path: Path) -> None:
    timeline = probe.probe(str(write(tmp_path / "v.mov", [0, 40], rotation=80.0)))
    assert timeline.rotation == 90
    assert any("odd angle" in note for note in timeline.notes)


def test_a_turned_picture_is_cropped_and_padded_as_it_is_shown(tmp_path: Path) -> None:
    tall = picture(5, (60, 120))  # lies on its side in the file
    path = write(tmp_path / "v.mov", [0, 40], size=(120, 60), pictures=[np.rot90(tall, -1)] * 2, rotation=90.0)
    timeline = probe.probe(str(path))
    assert (timeline.width, timeline.height, timeline.rotation) == (120, 60, 90)
    padded = decode.frames(timeline, np.zeros(1, np.int64), decode.Geometry(120, 120, "pad")).frames[0]
    assert number_in(padded[:, 30:90]) == 5 and padded[:, :30].max() == padded[:, 90:].max() == 0
    cropped = decode.frames(timeline, np.zeros(1, np.int64), decode.Geometry(60, 60)).frames[0]
    assert np.abs(cropped.astype(int) - tall[30:90].astype(int)).mean() < 8


@pytest.mark.parametrize("fit", ["crop", "pad"])
def test_wide_pixels_keep_the_shown_proportions(fit: str, tmp_path: Path) -> None:
    still = [picture(77, (160, 80))] * 2
    plain = probe.probe(str(write(tmp_path / "plain.mp4", [0, 40], size=(160, 80), pictures=still)))
    narrow = [np.ascontiguousarray(p[:, ::2]) for p in still]
    wide = probe.probe(str(write(tmp_path / "wide.mp4", [0, 40], size=(80, 80), pictures=narrow, sar=Fraction(2))))
    geometry = decode.Geometry(64, 64, fit)
    a, b = (decode.frames(t, np.zeros(1, np.int64), geometry).frames[0].astype(int) for t in (plain, wide))
    assert np.abs(a - b).mean() < 12
    if fit == "pad":
        assert b[:15].max() == b[49:].max() == 0 and b[20:44].max() > 200


# ------------------------------------------------------------------ pixels of any kind

PIXELS = [
    ("ffv1", "yuv420p", {}), ("ffv1", "yuv422p10le", {}), ("ffv1", "yuv444p", {}), ("ffv1", "yuv410p", {}), ("ffv1", "yuva420p", {}),
    ("ffv1", "bgr0", {}), ("ffv1", "gbrp10le", {}), ("ffv1", "yuv420p16le", {}), ("ffv1", "rgb48le", {}), ("rawvideo", "nv12", {}),
    ("ffv1", "yuv444p", {"colorspace": 1}), ("ffv1", "yuv444p", {"colorspace": 5}), ("ffv1", "yuv444p", {"colorspace": 9}),
    ("mjpeg", "yuvj420p", {"color_range": 2}), ("ffv1", "yuv444p", {"color_range": 2}), ("libx264", "yuv420p", {"color_range": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("codec", "pix_fmt", "colour"), PIXELS, ids=lambda value: str(value))
def test_any_pixel_format_range_and_matrix_gives_the_drawn_colours(
    codec: str, pix_fmt: str, colour: dict[str, int], tmp_path: Path
) -> None:
    path = write(
        tmp_path / "v.mkv", steady(3, 40), codec=codec, pix_fmt=pix_fmt, colour=colour, options={"qscale": "2"} if codec == "mjpeg" else {}
    )
    out = decode.frames(probe.probe(str(path)), np.array([80 * 10**6]), WHOLE).frames[0]
    drawn = picture(2)
    assert number_in(out) == 2
    assert np.abs(out.astype(int) - drawn.astype(int)).mean() < 7
    inside = slice(34 + 10, 34 + 16), slice(10, 16)  # in the red square
    assert np.abs(out[inside].reshape(-1, 3).mean(0) - (200, 40, 40)).max() < 14
    assert out.min() < 8 and out.max() > 247


def test_grey_gives_three_equal_channels(tmp_path: Path) -> None:
    out = decode.frames(
        probe.probe(str(write(tmp_path / "v.mkv", [0, 40], codec="ffv1", pix_fmt="gray"))), np.zeros(1, np.int64), WHOLE
    ).frames[0]
    assert (out[..., 0] == out[..., 1]).all() and (out[..., 1] == out[..., 2]).all() and number_in(out) == 0


def test_odd_sizes_have_no_garbage_at_the_edges(tmp_path: Path) -> None:
    still = [np.full((53, 71, 3), 90, np.uint8)] * 2
    timeline = probe.probe(str(write(tmp_path / "v.mkv", [0, 40], codec="ffv1", size=(71, 53), pictures=still)))
    for fit in ("stretch", "crop"):
        out = decode.frames(timeline, np.zeros(1, np.int64), decode.Geometry(47, 31, fit)).frames[0]
        assert np.abs(out.astype(int) - 90).max() <= 3


def test_a_size_that_changes_in_mid_stream_fills_the_output_all_the_same(tmp_path: Path) -> None:
    one = write(tmp_path / "1.ts", [1000 + t for t in steady(10, 40)])
    two = write(tmp_path / "2.ts", [1400 + t for t in steady(10, 40)], size=(160, 96), first=10)
    joined = tmp_path / "v.ts"
    joined.write_bytes(one.read_bytes() + two.read_bytes())
    timeline = probe.probe(str(joined))
    assert any("size changes" in note for note in timeline.notes)
    out = decode.frames(timeline, timeline.pts_ns, WHOLE)
    assert [number_in(p) for p in out.frames] == list(range(20))


# ------------------------------------------------------------------ damage


def _spoil(path: Path, number: int) -> None:
    """Overwrite the middle of one packet with noise."""
    import av

    with av.open(str(path)) as container:
        packet = next(p for k, p in enumerate(container.demux(video=0)) if k == number)
        at, size = packet.pos, packet.size
    data = bytearray(path.read_bytes())
    assert at is not None
    data[at + 5 : at + size] = np.random.default_rng(1).integers(0, 256, size - 5, np.uint8).tobytes()
    path.write_bytes(bytes(data))


def test_a_damaged_packet_spoils_its_own_group_only(tmp_path: Path) -> None:
    path = write(tmp_path / "v.mp4", steady(N, 40), gop=10, options={"x264-params": "scenecut=0:keyint=10:bframes=0"})
    good = decode.frames(probe.probe(str(path)), steps(N), WHOLE)
    _spoil(path, 12)
    timeline = probe.probe(str(path))
    out = decode.frames(timeline, steps(N), WHOLE)
    assert not out.ok[12:20].any()  # frames behind the lost one refer to it, though the decoder does not say so
    assert out.ok[:10].all() and out.ok[20:].all()
    np.testing.assert_array_equal(out.frames[:10], good.frames[:10])
    np.testing.assert_array_equal(out.frames[20:], good.frames[20:])


def steps(count: int) -> I64:
    return np.arange(count, dtype=np.int64) * 40 * 10**6


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1), cut=st.booleans())
def test_whatever_happens_to_the_bytes_there_is_an_end(seed: int, cut: bool, drawings: Drawings, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    source = Path(drawings[sorted(drawings)[seed % len(drawings)]][0].path)
    data = bytearray(source.read_bytes())
    if cut:
        del data[int(rng.integers(1, len(data))) :]
    else:
        for at in rng.integers(0, len(data), 12):
            data[at] = int(rng.integers(0, 256))
    path = tmp_path / f"spoiled{source.suffix}"
    path.write_bytes(bytes(data))
    try:
        timeline = probe.probe(str(path))
        out = decode.frames(timeline, timeline.pts_ns, decode.Geometry(16, 16))
        assert len(out.ok) == len(timeline.pts_ns) <= N + 8
    except ClipError as fault:
        assert "\n" not in str(fault) and fault.where == str(path)
