"""Sensor rows at frame times: exact on straight lines, unknown where nothing was measured, clocks put in order or refused."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hfprep import imu
from hfprep.errors import ClipError
from hfprep.imu_clock import exact_ns, float_ns, in_order
from hfprep.records import I64, Aligned, Sensor

MS = 1_000_000


def write(folder: Path, text: str | bytes, name: str = "imu.csv") -> str:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(file)


def sensor(times_ms: list[float], *columns: list[float]) -> Sensor:
    values = np.array(columns, np.float32).T
    return Sensor((np.array(times_ms) * MS).astype(np.int64), values, ("ax", "ay", "az")[: len(columns)])


def at(s: Sensor, times_ms: list[float], *, max_gap_ms: float = 200, axes: tuple[str, ...] = ("ax",), offset_ms: float = 0) -> Aligned:
    asked = (np.array(times_ms) * MS).astype(np.int64)
    return imu.align(s, asked, axes=axes, offset_ns=int(offset_ms * MS), max_gap_ns=int(max_gap_ms * MS))


# --- exact times -----------------------------------------------------------------------------------------------------------------


@given(st.lists(st.decimals(min_value=-(10**9), max_value=10**9, allow_nan=False, places=None), min_size=1, max_size=20))
@settings(max_examples=100, deadline=None)
def test_times_are_the_floor_of_the_decimal_text(values: list[Decimal]) -> None:
    cells = [format(v, "f")[:30] for v in values] + [f"{v:E}" for v in values]
    ns, good = exact_ns(cells, 9)
    for cell, value, ok in zip(cells, ns.tolist(), good.tolist(), strict=True):
        exponent = abs(int(cell.partition("E")[2] or 0))
        assert ok == (exponent < 100 and len(cell) <= 64)
        if ok:
            whole = Fraction(cell) * 10**9  # Decimal would round to 28 digits
            assert value <= whole < value + 1


def test_seconds_since_1970_keep_their_nanoseconds() -> None:
    ns, good = exact_ns(["1548685904.964781323", "-1548685904.9647813231", "1548685904964781323", "9223372036.854775807"], 9)
    assert ns.tolist() == [1548685904964781323, -1548685904964781324, 0, 9223372036854775807]
    assert good.tolist() == [True, True, False, True]  # the third would need 19 more bits
    assert exact_ns(["1548685904964781323"], 0)[0].tolist() == [1548685904964781323]


@pytest.mark.parametrize("cell", ["", ".", "-", "+.", "1.2.3", "1e", "e5", "--1", "1-2", "1 2", "nan", "١", "0x1", "1e400", "9" * 60])
def test_what_is_no_number(cell: str) -> None:
    assert exact_ns([cell, "2"], 9)[1].tolist() == [False, True]


@given(st.lists(st.integers(-(10**15), 10**15), min_size=1, max_size=20))
@settings(max_examples=50, deadline=None)
def test_binary_seconds_are_good_to_the_nearest_nanosecond_that_they_can_hold(us: list[int]) -> None:
    ns, good = float_ns(np.array([u / 1e6 for u in us]), 9)
    assert good.all()
    assert (np.abs(ns - np.array(us) * 1000) <= np.maximum(1, np.abs(us) / 1e6 * 2**-52 * 1e9)).all()
    assert float_ns(np.array(us), 3)[0].tolist() == [u * 1000 for u in us]


# --- alignment -------------------------------------------------------------------------------------------------------------------


@given(st.integers(2, 60), st.integers(-1000, 1000), st.integers(-500, 500), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_exact_on_straight_lines(rows: int, slope: int, offset: int, random: object) -> None:
    steps = [random.randint(1, 100) for _ in range(rows)]  # type: ignore[attr-defined]
    times = np.cumsum(steps)
    s = sensor(times.tolist(), (times * slope / 1000).tolist())
    asked = np.linspace(times[0], times[-1], 37)
    found = at(s, (asked + offset).tolist(), offset_ms=offset)
    assert found.ok.all()
    np.testing.assert_allclose(found.values[:, 0], asked * slope / 1000, atol=1e-3 * max(1, abs(slope)) / 100, rtol=1e-5)


@given(st.integers(3, 40), st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_nothing_outside_and_nothing_in_long_gaps(rows: int, gap: int) -> None:
    times = [10 * i for i in range(rows)] + [10 * (rows - 1) + gap * 10, 10 * (rows - 1) + gap * 10 + 10]
    s = sensor(times, [1.0] * len(times))
    asked = np.arange(-30, times[-1] + 30, 5)
    found = at(s, asked.tolist(), max_gap_ms=200)
    inside = (asked >= 0) & (asked <= times[-1])
    if gap > 20:
        inside &= (asked <= times[rows - 1]) | (asked >= times[rows])
    assert (found.ok == inside).all()
    assert (np.isnan(found.values[:, 0]) == ~inside).all()


def test_a_sine_of_1_hz_at_100_hz_is_reproduced() -> None:
    t = np.arange(0, 2001, 10)
    s = sensor(t.tolist(), np.sin(2 * np.pi * t / 1000).tolist())
    for asked in (np.arange(0, 2000, 100), np.floor(np.arange(60) * 1001 / 30e3 * 1e9) / MS, np.cumsum(np.tile([16.7, 33.3, 50.1], 19))):
        found = at(s, asked.tolist())
        assert found.ok.all()
        assert np.abs(found.values[:, 0] - np.sin(2 * np.pi * asked / 1000)).max() < 1e-3


def test_a_missing_value_is_bridged_from_its_own_axis_up_to_the_gap() -> None:
    nan = float("nan")
    s = sensor([0, 100, 200, 300, 400, 500], [0, nan, 2, nan, nan, 5], [0, 1, 2, 3, 4, 5])
    found = at(s, [50, 100, 250, 350, 500], axes=("ax", "ay"))
    assert found.ok.tolist() == [True, True, False, False, True]
    assert found.values[:2].tolist() == [[0.5, 0.5], [1.0, 1.0]]
    assert np.isnan(found.values[2:4, 0]).all()
    assert found.values[2:4, 1].tolist() == [2.5, 3.5]


def test_an_axis_that_is_not_there_is_unknown() -> None:
    found = at(sensor([0, 10], [1, 1]), [0, 5], axes=("ax", "gz"))
    assert not found.ok.any()
    assert found.values[:, 0].tolist() == [1.0, 1.0]


def test_no_overlap_is_an_error_that_names_both_spans() -> None:
    s = sensor([1000, 2000], [1, 1])
    for asked in ([0, 999], [2001, 3000]):
        with pytest.raises(ClipError, match=r"1\.000 to 2\.000 s") as fault:
            at(s, asked)
        assert fault.value.kind == "imu_no_overlap"
    assert at(s, [0, 500], offset_ms=-900, max_gap_ms=1000).ok.tolist() == [False, True]
    assert at(s, [], max_gap_ms=1000).values.shape == (0, 1)


# --- clocks ----------------------------------------------------------------------------------------------------------------------


def ordered(times: list[int] | I64, tick_ns: int = 1) -> tuple[list[int], list[float], str]:
    values = np.arange(len(times), dtype=np.float32)[:, None]
    ns, v, notes = in_order(np.array(times, np.int64), values, where="imu.csv", line=np.arange(2, len(times) + 2), tick_ns=tick_ns)
    return ns.tolist(), v[:, 0].tolist(), " ".join(notes)


def test_rows_out_of_order_are_sorted_and_said() -> None:
    times, values, said = ordered([0, 1, 3, 2, 4])
    assert (times, values) == ([0, 1, 2, 3, 4], [0, 1, 3, 2, 4])
    assert "line 5" in said


@given(st.permutations(list(range(40))))
@settings(max_examples=50, deadline=None)
def test_any_shuffling_is_sorted(order: list[int]) -> None:
    try:
        times, values, _ = ordered([10 * i for i in order])
    except ClipError:  # a shuffling that looks like two recordings: long runs that interleave
        runs = np.split(order, np.flatnonzero(np.diff(order) < 0) + 1)
        assert max(len(r) for r in runs) >= 8
        return
    assert times == [10 * i for i in range(40)]
    assert [order[int(v)] for v in values] == list(range(40))


def test_repeated_times_are_merged() -> None:
    times, values, said = ordered([0, 5, 5, 5, 9])
    assert (times, values) == ([0, 5, 9], [0, 2, 4])
    assert "2 repeated times" in said
    assert "averaging" in said
    same, _, notes = in_order(np.array([0, 5, 5]), np.ones((3, 1), np.float32), where="", line=[1, 2, 3])
    assert same.tolist() == [0, 5]
    assert "averaging" not in notes[0]


@pytest.mark.parametrize(("modulus", "step"), [(2**16, 10), (2**32, 1000), (86_400_000, 20)])
def test_a_clock_that_wraps_is_unrolled(modulus: int, step: int) -> None:
    true = np.arange(100, dtype=np.int64) * step + modulus - 50 * step - 3
    times, values, said = ordered(true % modulus * MS, tick_ns=MS)
    assert times == (true * MS).tolist()
    assert values == list(range(100))
    assert "wraps" in said


def test_a_clock_that_starts_again_is_refused() -> None:
    with pytest.raises(ClipError, match="line 102") as fault:
        ordered(np.concatenate([np.arange(100), np.arange(60)]) * 10 * MS)
    assert fault.value.kind == "imu_bad"


def test_blocks_in_the_wrong_order_are_sorted() -> None:
    times, _, _ = ordered(np.concatenate([np.arange(50, 100), np.arange(50)]))
    assert times == list(range(100))


# --- files -----------------------------------------------------------------------------------------------------------------------


def test_a_plain_file(tmp_path: Path) -> None:
    path = write(tmp_path, "t,ax,ay\n0.1,1,2\n0.2,1.5,\n1.548685904964781323e9,nan,-3e-1\n")
    s = imu.read(path)
    assert s.axes == ("ax", "ay")
    assert s.time_ns.tolist() == [100_000_000, 200_000_000, 1548685904964781323]
    np.testing.assert_array_equal(s.values, np.array([[1, 2], [1.5, np.nan], [np.nan, -0.3]], np.float32))


def test_as_a_spreadsheet_writes_it(tmp_path: Path) -> None:
    s = imu.read(write(tmp_path, b"\xef\xbb\xbft, ax, gx\r\n0.0, 1.0, 2.0,\r\n\r\n0.5, 3.0, 4.0,\r\n"))
    assert s.axes == ("ax", "gx")
    assert s.time_ns.tolist() == [0, 500 * MS]
    assert s.values.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("t,ax\n", ["nothing to interpolate"]),
        ("t,ax\n0.5,1\n", ["nothing to interpolate"]),
        ("t,ax\n0,1\n1,two\n2,3\n", ["line 3", "'ax'", "'two'"]),
        ("t,ax\n0,1\nSTART,2\n2,3\n", ["line 3", "'START'"]),
        ("t,ax\n0,1\n1,2,3\n", ["line 3", "3 cells"]),
        ("t\n0\n1\n", ["no columns of values"]),
        ("", ["no columns"]),
        (b"PK\x03\x04" + bytes(60), ["spreadsheet"]),
    ],
)
def test_files_that_cannot_be_read_name_line_and_value(tmp_path: Path, text: str | bytes, words: list[str]) -> None:
    with pytest.raises(ClipError) as fault:
        imu.read(write(tmp_path, text))
    assert fault.value.kind == "imu_bad"
    for word in [*words, "imu.csv"]:
        assert word in str(fault.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ClipError) as fault:
        imu.read(str(tmp_path / "gone.csv"))
    assert fault.value.kind == "imu_missing"


def test_nanoseconds_since_1970_in_t(tmp_path: Path) -> None:
    s = imu.read(write(tmp_path, "t,ax\n1700000000000000001,1\n1700000000040000000,2\n"))
    assert s.time_ns.tolist() == [1700000000000000001, 1700000000040000000]
    with pytest.raises(ClipError, match="imu_offset_ms") as fault:
        imu.align(s, np.array([0, 1]), axes=("ax",), max_gap_ns=MS, where="imu.csv")
    assert fault.value.kind == "imu_no_overlap"
