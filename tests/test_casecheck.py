"""The harness of the cases can fail: each field of an expectation, made wrong against a right row, is noticed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import casecheck
import numpy as np
import pytest
import zarr
from caserun import Case, Got, Ran, Row, Window, hfprep, options, read_codes
from casevalues import check_imu, check_pictures

CODES = [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20]
AXES = ["ax", "gz"]


def strip(code: int, height: int = 96, width: int = 128) -> np.ndarray:
    """A grey picture with a frame number along its top quarter."""
    ones = bin(code).count("1") % 4
    cells = [1, 0, *((code >> i) & 1 for i in range(11, -1, -1)), ones >> 1, ones & 1]
    picture = np.full((height, width, 3), 120, np.uint8)
    picture[: height // 4] = np.repeat(np.array(cells, np.uint8) * 255, -(-width // 16))[:width, None]
    return picture


class Built(Got):
    """A store that was never written: one row, its windows tile its grid at stride 1."""

    def __init__(self, codes: list[int], size: int = 8, text: str = "", code: int = 0) -> None:
        self.ran, self.axes, self.classes, self.rows = Ran(code, text, 1.0), AXES, ["jump"], {}
        self.row(1).label, n = "jump", len(codes)
        for start in range(max(1, n - size + 1)) if n >= size else [n // 2 - size // 2]:
            places = [min(max(start + k, 0), n - 1) for k in range(size)]
            values = np.array([[2.0 * p, 0.5] for p in places], np.float32)
            ok = np.array([p < n - 2 for p in places])
            values[~ok] = np.nan
            clamped = [start + k != p for k, p in enumerate(places)]
            self.row(1).windows.append(Window("train", start, True, "jump", [codes[p] for p in places], places, clamped, values, ok))

    def picture(self, row: Row, tick: int) -> np.ndarray:
        return strip(row.grid()[tick])


def problems(expect: dict[str, Any], got: Got | None = None, **case: Any) -> list[str]:
    got = got or Built(CODES, text="row 1 (line 2) v.mp4: the frame rate is assumed")
    whole: Case = {"window": 8, "rows": [{"row": 1, "status": "ok", **expect}], **case}
    return [p for p in casecheck.check_case(whole, got) if "measured" not in p]  # the sensor is looked at on its own


RIGHT: list[dict[str, Any]] = [
    {"label": "jump", "codes": CODES, "n": 11},
    {"codes_any": [[c, c + 1] for c in CODES], "n": 11},
    {"codes": [*CODES, 22], "n": 12, "end_open_ok": True},
    {"codes": [c + 1 for c in CODES], "offset_frames_max": 1},
    {"inside": [0, 20], "codes_between": [0, 20], "codes_prefix_of": [*CODES, 22, 24], "max_repeat": 1, "monotone": True},
    {"order": "all codes below 7 come before all codes from 7", "forbid_interleave": True, "warn": "rate"},
    {"windows": {"length": 8, "count_min": 4, "consecutive": True, "monotone": True, "uses": [0, 20], "starts_in": [0, 2, 4, 6]}},
    {"windows": {"some_contains": [16, 18, 20], "last_max": 20, "distinct": [CODES[i : i + 8] for i in range(4)]}},
    {"twin_row": 1, "twin_tol": 0.0, "levels": {"black_max": 12, "white_min": 243}, "channels_equal_tol": 0.0},
    {"right_edge": {"expect": [120, 120, 120], "columns": 0.04, "tol": 1}},
]
WRONG: list[dict[str, Any]] = [
    {"label": "jum"},
    {"codes": [c + 1 for c in CODES]},
    {"codes": CODES[:-1]},
    {"n": 12},
    {"codes_any": [[c + 1] for c in CODES], "n": 11},
    {"codes": [*CODES, 22]},
    {"codes": [c + 2 for c in CODES], "offset_frames_max": 1},
    {"inside": [0, 19]},
    {"codes_between": [1, 20]},
    {"codes_prefix_of": [0, 2, 5]},
    {"max_repeat": 0},
    {"order": "all codes below 7 come before all codes from 9"},
    {"warn": "end"},
    {"windows": {"length": 7}},
    {"windows": {"count_min": 5}},
    {"windows": {"uses": [1]}},
    {"windows": {"starts_in": [0, 2, 4]}},
    {"windows": {"some_contains": [0, 20]}},
    {"windows": {"last_max": 18}},
    {"windows": {"distinct": [CODES[:8]]}},
    {"windows": {"no_such_rule": 1}},
    {"no_such_field": 1},
    {"levels": {"black_max": 12, "white_min": 256}},
    {"right_edge": {"expect": [150, 150, 150], "columns": 0.04, "tol": 12}},
    {"status": "failed", "error": "not_a_video", "mention": "v.mp4"},
]  # fmt: skip


@pytest.mark.parametrize("expect", RIGHT, ids=lambda e: "-".join(e))
def test_a_right_row_passes(expect: dict[str, Any]) -> None:
    assert problems(expect) == []


@pytest.mark.parametrize("expect", WRONG, ids=str)
def test_a_wrong_expectation_is_noticed(expect: dict[str, Any]) -> None:
    assert problems(expect) != []


@pytest.mark.parametrize(
    ("codes", "expect"),
    [
        ([0, 2, 6, 4, 8, 10, 12, 14], {"monotone": True}),
        ([0, 2, 2, 4, 6, 8, 10, 12], {"max_repeat": 1}),
        ([0, 2, 100, 4, 102, 104, 106, 108], {"order": "all codes below 100 come before all codes from 100"}),
        ([0, 4, 2, 6, 100, 102, 104, 106], {"order": "all codes below 100 come before all codes from 100", "forbid_interleave": True}),
        ([0, 2, -1, 6, 8, 10, 12, 14], {}),
        ([0, 2, 1, 6, 8, 10, 12, 14], {"windows": {"monotone": True}}),
    ],
)
def test_wrong_frames_are_noticed(codes: list[int], expect: dict[str, Any]) -> None:
    assert problems(expect, Built(codes)) != []


def test_windows_that_are_no_runs_of_neighbours_are_noticed() -> None:
    def spoilt(change: Any, codes: list[int] = CODES) -> list[str]:
        got = Built(codes)
        change(got.row(1).windows)
        return problems({"codes": codes}, got)

    assert spoilt(lambda w: None) == [] and spoilt(lambda w: None, CODES[:3]) == []
    assert spoilt(lambda w: w.pop())  # the last place is in no window
    assert spoilt(lambda w: w.append(w[0]))  # twice
    assert spoilt(lambda w: setattr(w[1], "ok", False))
    assert spoilt(lambda w: setattr(w[1], "codes", w[2].codes))  # another frame at the same time
    assert spoilt(lambda w: setattr(w[0], "ticks", [*w[0].ticks[:-1], 0]))  # wraps around
    assert spoilt(lambda w: setattr(w[0], "clamped", [True] * 8))
    assert spoilt(lambda w: setattr(w[0], "clamped", [False] * 8), CODES[:3])


def test_failed_rows_need_kind_mention_and_exit_code() -> None:
    expect = {"status": "failed", "error": "not_a_video", "mention": "v.mp4", "lost_class": "jump"}

    def failed(kind: str, text: str, code: int = 3) -> list[str]:
        got = Built(CODES, text=text, code=code)
        got.row(1).windows, got.row(1).kind = [], kind
        return problems(expect, got)

    assert failed("not_a_video", "row 1 (line 2) v.mp4 jump: no video") == []
    assert failed("no_frames", "row 1 (line 2) v.mp4 jump: no video")
    assert failed("not_a_video", "row 1 (line 2) w.mp4 jump: no video")
    assert failed("not_a_video", "row 2 (line 3) v.mp4 jump: no video")
    assert failed("not_a_video", "row 1 (line 2) v.mp4: no video")
    assert failed("not_a_video", "row 1 (line 2) v.mp4 jump: no video", code=0)


def test_rows_kept_in_part_need_a_word() -> None:
    expect = {"status": "partial_or_failed", "error": "truncated", "mention": "v.mp4", "codes_prefix_of": [*CODES, 22]}
    assert problems(expect, Built(CODES, text="row 1 (line 2) v.mp4: kept in part")) == []
    assert problems(expect, Built(CODES))


def test_wrong_sensor_values_are_noticed() -> None:
    got = Built(CODES)
    ax = [2.0 * k for k in range(11)]
    valid = [k < 9 for k in range(11)]
    base: dict[str, Any] = {"imu": {"ax": ax, "gz": [0.5] * 11}, "imu_tol": 1e-4, "imu_valid": valid}

    def wrong(**change: Any) -> list[str]:
        return [*check_imu({**base, **change}, got.row(1), got)]

    assert wrong() == [] and wrong(imu_valid=[True] * 11, or_marked=True) == []
    assert wrong(imu_valid=[True] * 11)
    assert wrong(imu_valid=[k < 8 for k in range(11)])
    assert wrong(imu={"ax": [v + 0.01 for v in ax]})
    assert wrong(imu={"ay": ax})
    assert wrong(imu={"ax": ax[:-1]})
    assert wrong(imu_all_marked_except=[5])
    assert [*check_imu({}, got.row(1), got)]  # values in a row without a sensor file
    got.row(1).windows[0].imu_ok[:] = False
    got.row(1).windows[-1].imu_ok[:] = True
    assert wrong()  # marks that contradict the values


def test_unlike_pictures_are_noticed() -> None:
    got = Built(CODES)
    got.row(2).windows = Built([c + 1 for c in CODES]).row(1).windows
    assert [*check_pictures({"twin_row": 2, "twin_tol": 4.0}, got.row(1), got)]
    got.picture = lambda row, tick: strip(0) // np.array([1, 2, 1], np.uint8)  # type: ignore[method-assign]
    assert [*check_pictures({"channels_equal_tol": 2.0}, got.row(1), got)]


@pytest.mark.parametrize("size", [(96, 128), (48, 64), (24, 32), (360, 480)])
def test_numbers_are_read_and_broken_strips_are_not(size: tuple[int, int]) -> None:
    codes = [0, 1, 7, 1365, 2730, 4095]
    pictures = np.stack([strip(c, *size) for c in codes])
    assert read_codes(pictures).tolist() == codes
    assert (read_codes(pictures[:, :, ::-1]) != codes).all()  # mirrored (1 reads as 2048: the check bits allow it)
    assert (read_codes(pictures[:, ::-1]) == -1).all()  # upside down
    assert (read_codes(pictures[:, size[0] // 2 :]) == -1).all()  # cropped


def test_the_reader_agrees_with_the_folders_own(cases: Path) -> None:
    if not (cases / "casekit.py").is_file():
        pytest.skip(f"{cases} holds no casekit.py")
    sys.path.insert(0, str(cases))
    try:
        sys.dont_write_bytecode, kept = True, sys.dont_write_bytecode
        import casekit
    finally:
        sys.path.remove(str(cases))
        sys.dont_write_bytecode = kept
    drawn = np.stack([casekit.draw(code, (128, 96), 0.3) for code in range(0, 4096, 31)])
    assert read_codes(drawn).tolist() == [casekit.read_code(picture) for picture in drawn] == list(range(0, 4096, 31))


def test_one_wrong_picture_in_a_built_store_is_noticed(tmp_path: Path) -> None:
    video = tmp_path / "v.mp4"
    write_numbered(video, 21)
    (tmp_path / "m.csv").write_text("video,label,split\nv.mp4,jump,train\n")
    case: Case = {"step_ms": 100, "window": 8, "rows": [{"row": 1, "status": "ok", "label": "jump", "codes": CODES}]}
    ran = hfprep("build", tmp_path / "m.csv", "-o", tmp_path / "out.zarr", *options(case))
    assert casecheck.check_case(case, Got(tmp_path / "out.zarr", ran, 100)) == []
    frames = zarr.open_group(str(tmp_path / "out.zarr"), mode="r+")["train"]["frames"]
    frames[1] = frames[2]
    assert casecheck.check_case(case, Got(tmp_path / "out.zarr", ran, 100)) != []


def test_a_build_in_which_no_row_could_be_prepared_ends_with_1(tmp_path: Path) -> None:
    (tmp_path / "v.mp4").write_text("no video")
    (tmp_path / "m.csv").write_text("video,label\nv.mp4,jump\ngone.mp4,sit\n")
    ran = hfprep("build", tmp_path / "m.csv", "-o", tmp_path / "out.zarr")
    assert ran.code == 1 and "v.mp4" in ran.text and "gone.mp4" in ran.text


def write_numbered(path: Path, count: int) -> None:
    """Frames 0 ... count-1 with their numbers, 20 a second."""
    import av

    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=20, options={"crf": "16", "preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = 128, 96, "yuv420p"
        for code in range(count):
            out.mux(stream.encode(av.VideoFrame.from_ndarray(strip(code), format="rgb24")))
        out.mux(stream.encode(None))
