"""Timelines of drawn files: exact times, honest facts, distinct faults."""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from drawn import number_in, remux, steady, write

from hfprep import decode, intact, probe, video
from hfprep.errors import ClipError
from hfprep.records import Timeline

WHOLE = decode.Geometry(64, 80, "stretch")
B_FRAMES = {"x264-params": "bframes=2:b-adapt=0:scenecut=0"}


def ms(timeline: Timeline) -> list[float]:
    return [t / 10**6 for t in timeline.pts_ns.tolist()]


def numbers(timeline: Timeline) -> list[int]:
    return [number_in(p) for p in decode.frames(timeline, timeline.pts_ns, WHOLE).frames]


def fault_of(path: Path | str) -> ClipError:
    with pytest.raises(ClipError) as caught:
        probe.probe(str(path))
    assert caught.value.where == str(path) and caught.value.remedy and "\n" not in str(caught.value)
    return caught.value


# ------------------------------------------------------------------ times


@pytest.mark.parametrize("name", ["v.mp4", "v.mov", "v.mkv"])
def test_stamps_of_the_container_are_the_times(name: str, tmp_path: Path) -> None:
    times = [0, 40, 100, 101, 300, 340, 500]
    timeline = probe.probe(str(write(tmp_path / name, times, b_frames=2, options=B_FRAMES)))
    assert timeline.trusted and timeline.reordered and timeline.clock == "pts" and timeline.vfr
    assert ms(timeline) == times
    assert numbers(timeline) == list(range(7))
    assert (timeline.missing, timeline.lead, timeline.notes) == (0, 0, ())


def test_times_are_exact_fractions_floored_to_a_nanosecond(tmp_path: Path) -> None:
    path = write(tmp_path / "v.mp4", steady(10, 1001), time_base=Fraction(1, 30000), mux={"video_track_timescale": "30000"})
    assert probe.probe(str(path)).pts_ns.tolist() == [k * 1001 * 10**9 // 30000 for k in range(10)]


@pytest.mark.parametrize("name", ["v.ts", "v.mkv", "v.mp4"])
def test_time_zero_is_the_first_frame(name: str, tmp_path: Path) -> None:
    timeline = probe.probe(str(write(tmp_path / name, [10_000 + t for t in steady(9, 40)])))
    assert ms(timeline) == steady(9, 40)
    assert numbers(timeline) == list(range(9))


def test_frames_hidden_by_an_edit_list_are_not_counted(tmp_path: Path) -> None:
    source = write(tmp_path / "whole.mp4", steady(30, 40), gop=100)
    timeline = probe.probe(str(remux(source, tmp_path / "v.mp4", shift=-12 * 640)))
    assert timeline.trusted and ms(timeline) == steady(18, 40)
    assert numbers(timeline) == list(range(12, 30))


def test_avi_with_b_frames_keeps_the_order_of_the_decoder(tmp_path: Path) -> None:
    path = write(tmp_path / "v.avi", range(20), time_base=Fraction(1, 25), codec="mpeg4", b_frames=2, options={"qscale": "3"})
    timeline = probe.probe(str(path))
    assert timeline.clock in ("dts", "rate") and not timeline.trusted and timeline.notes
    assert ms(timeline) == steady(len(timeline.pts_ns), 40)
    assert numbers(timeline) == list(range(len(timeline.pts_ns))) and len(timeline.pts_ns) >= 19


def test_avi_without_b_frames_has_good_stamps(tmp_path: Path) -> None:
    path = write(tmp_path / "v.avi", range(20), time_base=Fraction(1, 25), codec="mpeg4", options={"qscale": "3"})
    timeline = probe.probe(str(path))
    assert (timeline.clock, len(timeline.pts)) == ("pts", 20)
    assert ms(timeline) == steady(20, 40) and numbers(timeline) == list(range(20))


def test_a_bare_stream_gets_a_rate_and_says_so(tmp_path: Path) -> None:
    timeline = probe.probe(str(write(tmp_path / "v.h264", range(10), time_base=Fraction(1, 20), container="h264")))
    assert timeline.clock == "rate" and "rate" in timeline.notes[0]
    assert numbers(timeline) == list(range(10))


def test_recordings_joined_end_to_end_go_on_at_the_join(tmp_path: Path) -> None:
    one = write(tmp_path / "1.ts", [5000 + t for t in steady(20, 40)])
    two = write(tmp_path / "2.ts", [1000 + t for t in steady(20, 40)], first=20)
    (tmp_path / "v.ts").write_bytes(one.read_bytes() + two.read_bytes())
    timeline = probe.probe(str(tmp_path / "v.ts"))
    assert ms(timeline) == steady(40, 40) and "joined" in timeline.notes[0]
    assert numbers(timeline) == list(range(40))


def test_a_stream_that_begins_between_key_frames_starts_at_the_first_whole_picture(tmp_path: Path) -> None:
    source = write(tmp_path / "whole.mp4", steady(30, 40), gop=10, options={"x264-params": "keyint=10:scenecut=0"})
    timeline = probe.probe(str(remux(source, tmp_path / "v.ts", skip=4)))
    assert ms(timeline) == steady(20, 40) and numbers(timeline) == list(range(10, 30))


def test_equal_time_stamps_are_kept_in_order(tmp_path: Path) -> None:
    path = write(tmp_path / "v.mkv", range(40), time_base=Fraction(1, 2000))
    timeline = probe.probe(str(path))
    assert len(timeline.pts_ns) == 40 and len(timeline.pts) == 0
    with video.Video(str(path)) as opened:
        assert len(list(opened.pictures())) == 40


def test_fragments_and_pipes_without_counts_are_used_whole(tmp_path: Path) -> None:
    fragments = {"movflags": "frag_keyframe+empty_moov+default_base_moof"}
    for path in (write(tmp_path / "v.mp4", steady(25, 40), mux=fragments), write(tmp_path / "v.mkv", steady(25, 40), mux={"live": "1"})):
        timeline = probe.probe(str(path))
        assert ms(timeline) == steady(25, 40) and not timeline.missing and numbers(timeline) == list(range(25))


def test_gif_delays_are_the_times(tmp_path: Path) -> None:
    times = [0, 10, 40, 45, 80]
    path = write(tmp_path / "v.gif", times, time_base=Fraction(1, 100), codec="gif", pix_fmt="rgb8")
    assert ms(probe.probe(str(path))) == [10 * t for t in times]


def test_demuxing_and_decoding_agree(tmp_path: Path) -> None:
    source = write(tmp_path / "whole.mp4", steady(30, 40), b_frames=2, gop=10, options=B_FRAMES)
    files = [source, remux(source, tmp_path / "v.mkv"), remux(source, tmp_path / "cut.mp4", shift=-7 * 640)]
    for path in files:
        by_packets = probe.probe(str(path))
        with video.Video(str(path)) as opened:
            by_decoding = probe._by_decoding(opened, cut=False)
        assert by_packets.trusted and not by_decoding.trusted
        np.testing.assert_array_equal(by_packets.pts, by_decoding.pts)
        np.testing.assert_array_equal(by_packets.pts_ns, by_decoding.pts_ns)


# ------------------------------------------------------------------ streams, names, metadata


def test_the_default_stream_is_taken_and_covers_are_no_video(tmp_path: Path) -> None:
    path = tmp_path / "v.mkv"
    out = av.open(str(path), "w")
    streams = []
    for size, disposition in (((160, 128), 0), ((80, 64), av.stream.Disposition.default)):
        stream = out.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt, stream.disposition = *size, "yuv420p", disposition
        streams.append(stream)
    for k in range(3):
        for stream in streams:
            frame = av.VideoFrame(stream.width, stream.height, "yuv420p")
            frame.pts, frame.time_base = k, Fraction(1, 25)
            out.mux(stream.encode(frame))
    for stream in streams:
        out.mux(stream.encode(None))
    out.close()
    timeline = probe.probe(str(path))
    assert (timeline.stream, timeline.width, timeline.height) == (1, 80, 64)
    with_cover = probe.probe(str(write(tmp_path / "v.mp4", steady(5, 40), cover=True)))
    assert len(with_cover.pts_ns) == 5


@pytest.mark.parametrize(
    "name", ["take:1.mp4", "http:x.mp4", "a b'c%20%d.mp4", "naïve 映像.mp4", "-v.mp4", "no_extension", b"latin\xe9.mp4"]
)
def test_any_file_name_will_do(name: str | bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(tmp_path / "source.mp4", steady(4, 40))
    monkeypatch.chdir(tmp_path)
    text = os.fsdecode(name)
    Path(text).write_bytes(source.read_bytes())
    timeline = probe.probe(text)
    assert timeline.path == text and numbers(timeline) == [0, 1, 2, 3]
    cache = probe.Cache("cache")
    assert cache.get(text).path == cache.get(text).path == text
    assert len(list(Path("cache").rglob("*.timeline"))) == 1


def test_metadata_in_another_encoding_is_no_fault(tmp_path: Path) -> None:
    path = write(tmp_path / "v.avi", range(5), time_base=Fraction(1, 25), codec="mpeg4", metadata={"title": "QQQQ"})
    path.write_bytes(path.read_bytes().replace(b"QQQQ", b"\xff\xfe\xe9\xe8"))
    assert len(probe.probe(str(path)).pts_ns) == 5


# ------------------------------------------------------------------ faults


def _page(path: Path) -> None:
    path.write_text("<!doctype html><html><body>Not found</body></html>\n")


def _sound(path: Path) -> None:
    with av.open(str(path), "w") as out:
        stream = out.add_stream("pcm_s16le", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), format="s16", layout="mono")
        frame.sample_rate = 8000
        out.mux([*stream.encode(frame), *stream.encode(None)])


def _zeros(path: Path) -> None:
    write(path, steady(9, 40), mux={"movflags": "+faststart"})
    data = path.read_bytes()
    start = data.index(b"mdat") + 4
    path.write_bytes(data[:start] + bytes(len(data) - start))


def _no_index(path: Path) -> None:
    write(path, steady(9, 40))
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"moov") - 4])


def _cut_before_frames(path: Path) -> None:
    write(path, steady(9, 40), mux={"movflags": "+faststart"})
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"mdat") + 8])


def _picture(path: Path) -> None:
    with av.open(str(path), "w", format="image2") as out:
        stream = out.add_stream("png", rate=1)
        stream.width, stream.height, stream.pix_fmt = 16, 16, "rgb24"
        out.mux([*stream.encode(av.VideoFrame(16, 16, "rgb24")), *stream.encode(None)])


FAULTS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "missing.mp4": ("missing_file", lambda path: None),
    "zero\0byte.mp4": ("missing_file", lambda path: None),
    "folder.mp4": ("not_a_file", lambda path: path.mkdir()),
    "pipe.mp4": ("not_a_file", os.mkfifo),
    "empty.mp4": ("empty_file", lambda path: path.write_bytes(b"")),
    "page.mp4": ("not_a_video", _page),
    "notes.txt": ("not_a_video", lambda path: path.write_text("not a video\n" * 50)),
    "still.png": ("not_a_video", _picture),
    "no_index.mp4": ("not_a_video", _no_index),
    "sound.wav": ("no_video_stream", _sound),
    "zeros.mp4": ("no_frames", _zeros),
    "cut.mp4": ("truncated", _cut_before_frames),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_told_apart(name: str, tmp_path: Path) -> None:
    kind, make = FAULTS[name]
    make(tmp_path / name)
    assert fault_of(tmp_path / name).kind == kind


def test_addresses_are_named_with_their_scheme() -> None:
    fault = fault_of("s3://bucket/v.mp4")
    assert fault.kind == "unsupported_path" and "s3" in fault.what
    assert fault_of("https://example.invalid/v.mp4").kind == "unsupported_path"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = write(tmp_path / "v.mp4", steady(3, 40))
    path.chmod(0)
    assert fault_of(path).kind == "permission"


def test_a_playlist_reads_no_other_file(tmp_path: Path) -> None:
    write(tmp_path / "v.ts", steady(9, 40))
    (tmp_path / "v.m3u8").write_text("#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:0.36,\nv.ts\n#EXT-X-ENDLIST\n")
    assert fault_of(tmp_path / "v.m3u8").kind == "not_a_video"


# ------------------------------------------------------------------ files that are shorter than they say


@pytest.mark.parametrize("name", ["v.mp4", "v.mkv", "v.avi"])
def test_cut_files_say_how_much_is_missing(name: str, tmp_path: Path) -> None:
    count = 60
    codec = {"codec": "mpeg4", "options": {"qscale": "3"}} if name.endswith("avi") else {}
    path = write(
        tmp_path / name, range(count), time_base=Fraction(1, 25), gop=10, mux={"movflags": "+faststart"} if name == "v.mp4" else {}, **codec
    )
    assert not intact.is_cut(str(path)) and probe.probe(str(path)).missing == 0
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])
    assert intact.is_cut(str(path))
    timeline = probe.probe(str(path))
    kept = len(timeline.pts_ns)
    assert 5 < kept < count - 5 and numbers(timeline)[: kept - 1] == list(range(kept - 1))
    assert abs(timeline.missing - (count - kept)) <= 1
    assert any("cut" in note for note in timeline.notes)


def test_a_header_that_counts_too_many_is_not_believed(tmp_path: Path) -> None:
    path = write(tmp_path / "v.avi", range(12), time_base=Fraction(1, 25), codec="mpeg4")
    data = bytearray(path.read_bytes())
    for place in (data.index(b"avih") + 24, data.index(b"strh") + 40):
        data[place : place + 4] = (431).to_bytes(4, "little")
    path.write_bytes(bytes(data))
    timeline = probe.probe(str(path))
    assert len(timeline.pts_ns) == 12 and timeline.missing == 0


# ------------------------------------------------------------------ the cache


def same(a: Timeline, b: Timeline) -> bool:
    pairs = [(getattr(a, name), getattr(b, name)) for name in Timeline.__dataclass_fields__]
    return all(np.array_equal(x, y) if isinstance(x, np.ndarray) else x == y for x, y in pairs)


def test_the_cache_gives_the_same_without_looking_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(write(tmp_path / "v.mp4", [0, 40, 90, 200], b_frames=2, options=B_FRAMES, rotation=90.0))
    cache = probe.Cache(str(tmp_path / "cache"))
    fresh = cache.get(path)
    monkeypatch.setattr(probe, "probe", lambda path: pytest.fail("looked again"))
    assert same(probe.Cache(str(tmp_path / "cache")).get(path), fresh)
    assert fresh.rotation == 90


def test_the_cache_forgets_a_file_that_changed(tmp_path: Path) -> None:
    path = write(tmp_path / "v.mp4", steady(5, 40))
    cache = probe.Cache(str(tmp_path / "cache"))
    assert len(cache.get(str(path)).pts_ns) == 5
    before = path.stat()
    write(path, steady(8, 40))
    assert len(cache.get(str(path)).pts_ns) == 8
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 10**9))
    assert len(cache.get(str(path)).pts_ns) == 8
    path.unlink()
    with pytest.raises(ClipError, match="no such file"):
        cache.get(str(path))


def test_a_damaged_or_unwritable_cache_is_no_fault(tmp_path: Path) -> None:
    path = str(write(tmp_path / "v.mp4", steady(5, 40)))
    folder = tmp_path / "cache"
    cache = probe.Cache(str(folder))
    fresh = cache.get(path)
    (entry,) = folder.rglob("*.timeline")
    whole = entry.read_bytes()
    for spoiled in (b"", b"\x80\x04pickle", whole[:-3], whole.replace(b"h264", b"h265"), whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:]):
        entry.write_bytes(spoiled)
        assert same(cache.get(path), fresh)
        assert entry.read_bytes() == whole  # mended
    (tmp_path / "file").write_text("in the way")
    for unusable in (str(tmp_path / "file"), "/proc/no/such/folder", ""):
        assert same(probe.Cache(unusable).get(path), fresh)
    assert not list(folder.rglob("*.part"))


def test_the_cache_remembers_faults_that_lie_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _zeros(tmp_path / "v.mp4")
    cache = probe.Cache(str(tmp_path / "cache"))
    with pytest.raises(ClipError) as first:
        cache.get(str(tmp_path / "v.mp4"))
    monkeypatch.setattr(probe, "probe", lambda path: pytest.fail("looked again"))
    with pytest.raises(ClipError) as second:
        cache.get(str(tmp_path / "v.mp4"))
    assert str(first.value) == str(second.value) and second.value.kind == "no_frames"


def test_versions_name_the_libraries_that_decide_the_pixels() -> None:
    assert {"av", "libavcodec", "libavformat", "libswscale"} <= set(probe.versions())


def test_a_matroska_element_longer_than_any_file_is_a_cut_file(tmp_path: Path) -> None:
    (tmp_path / "m.mkv").write_bytes(bytes.fromhex("1a45dfa3") + b"\x01" + b"\xff" * 6 + b"\xfe" + b"x" * 40)
    assert intact.is_cut(str(tmp_path / "m.mkv"))
    for data in (bytes.fromhex("1a45dfa3") + b"\x01" + b"\x7f" * 7, bytes.fromhex("1a45dfa3ec") + b"\x01\x80" + b"\x00" * 6):
        (tmp_path / "n.mkv").write_bytes(data)
        intact.is_cut(str(tmp_path / "n.mkv"))  # any answer, no fault
