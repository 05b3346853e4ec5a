"""The time grid, against exact fractions."""

from __future__ import annotations

import doctest
from fractions import Fraction
from itertools import pairwise
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hfprep import resample

MS = 1_000_000
INTERVALS = st.one_of(
    st.sampled_from([Fraction(100 * MS), Fraction(1001 * MS, 30), Fraction(40 * MS), Fraction(1)]),
    st.fractions(min_value=1, max_value=10**10),
    st.fractions(min_value=1, max_value=10**10, max_denominator=10**18),
)


def test_examples() -> None:
    assert doctest.testmod(resample).failed == 0


@settings(max_examples=30, deadline=None)
@given(start=st.integers(0, 10**15), n=st.integers(1, 60), interval=INTERVALS, extra=st.fractions(min_value=0, max_value=1))
def test_grid_is_exact_and_stops_before_stop(start: int, n: int, interval: Fraction, extra: Fraction) -> None:
    stop = start + floor((n - 1 + extra) * interval) + 1
    got = resample.grid(start, stop, interval).tolist()
    wanted = []
    while (tick := start + floor(len(wanted) * interval)) < stop:
        wanted.append(tick)
    assert got == wanted
    assert got[0] == start and got[-1] < stop and all(a < b for a, b in pairwise(got))


def test_whole_interval_gives_equal_steps() -> None:
    assert set(np.diff(resample.grid(7, 10**12, Fraction(100 * MS))).tolist()) == {100 * MS}


def test_a_denominator_that_int64_cannot_multiply() -> None:
    interval = Fraction("33.366700033366700033366700033") * MS
    k = 100_000
    got = resample.grid(0, 10**13, interval)
    assert int(got[k]) == floor(k * interval)
    assert interval.denominator * k > 2**63  # else this test would not reach the slow way


def test_interval_far_longer_than_the_clip() -> None:
    assert resample.grid(5, 6, Fraction(10**25, 3)).tolist() == [5]


def test_empty_and_below_a_nanosecond() -> None:
    assert resample.grid(10, 10, Fraction(5)).tolist() == []
    assert resample.grid(10, 3, Fraction(5)).tolist() == []
    with pytest.raises(ValueError, match="below one nanosecond"):
        resample.grid(0, 10, Fraction(1, 2))


@settings(max_examples=30, deadline=None)
@given(
    last=st.integers(0, 5000),
    start=st.integers(0, 6000),
    end=st.none() | st.integers(0, 7000),
    interval=st.fractions(min_value=Fraction(100), max_value=Fraction(900)),
)
def test_row_rule(last: int, start: int, end: int | None, interval: Fraction) -> None:
    got = resample.ticks(last, start, end, interval).tolist()
    candidates = [start + floor(k * interval) for k in range(80)]
    assert got == [t for t in candidates if t <= last and (end is None or t < end)]
    assert resample.tick_count(last, start, end, interval) == len(got)


def test_tick_on_the_last_frame_is_kept_and_on_end_is_not() -> None:
    at = 100 * MS
    assert resample.ticks(200 * MS, 0, None, Fraction(at)).tolist() == [0, at, 2 * at]
    assert resample.ticks(200 * MS - 1, 0, None, Fraction(at)).tolist() == [0, at]
    assert resample.ticks(900 * MS, 0, 200 * MS, Fraction(at)).tolist() == [0, at]
    assert resample.ticks(100, 101, None, Fraction(at)).tolist() == []


@settings(max_examples=30, deadline=None)
@given(
    rate=st.fractions(min_value=Fraction(1), max_value=Fraction(1000), max_denominator=1001),
    interval=st.fractions(min_value=Fraction(1, 1000), max_value=Fraction(1), max_denominator=3000),
)
def test_shown_frame_of_a_steady_source_equals_the_exact_answer(rate: Fraction, interval: Fraction) -> None:
    """Frame n lies at n / rate; on the screen at k x interval is frame floor(k x interval x rate).

    Both times are floored to a nanosecond, which can only make a frame that comes less than 1 ns after the tick count as shown.
    """
    frames = np.array([floor(n / rate * 10**9) for n in range(100)], dtype=np.int64)
    grid = resample.grid(0, int(frames[-1]) + 1, interval * 10**9)[:100]
    for k, shown in enumerate(resample.shown_at(frames, grid).tolist()):
        exact = min(floor(k * interval * rate), 99)
        early = (exact + 1) / rate - k * interval
        assert shown == exact or (shown == exact + 1 and early < Fraction(1, 10**9))


@settings(max_examples=30, deadline=None)
@given(steps=st.lists(st.integers(0, 50), max_size=40), ticks=st.lists(st.integers(0, 2500), max_size=40))
def test_shown_frame_of_any_source(steps: list[int], ticks: list[int]) -> None:
    pts = np.cumsum([0, *steps])
    grid = np.array(sorted(ticks), dtype=np.int64)
    wanted = [max(i for i in range(len(pts)) if pts[i] <= t) for t in grid]
    assert resample.shown_at(pts, grid).tolist() == wanted


def test_tick_before_the_first_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="before the first frame"):
        resample.shown_at(np.array([10, 20]), np.array([9, 15]))


@settings(max_examples=30, deadline=None)
@given(
    rate=st.one_of(
        st.sampled_from([Fraction(30_000, 1001), Fraction(24_000, 1001), Fraction(25), Fraction(30), Fraction(60_000, 1001)]),
        st.fractions(min_value=Fraction(1), max_value=Fraction(240)),
    )
)
def test_resampling_at_the_source_rate_is_the_identity(rate: Fraction) -> None:
    frames = np.array([floor(n / rate * 10**9) for n in range(600)], dtype=np.int64)
    ticks = resample.ticks(int(frames[-1]), 0, None, 10**9 / rate)
    assert resample.shown_at(frames, ticks).tolist() == list(range(600))


@pytest.mark.parametrize("interval", [Fraction(1, 25), Fraction(1, 10), Fraction(1001, 30_000)])
def test_why_not_float_seconds(interval: Fraction) -> None:
    """The same identity in float64 seconds shows the frame before at some ticks: k x 0.1 and a frame's own time in units of its
    time base are the same instant, but not the same float."""
    time_base = interval / 512  # as in an MP4: 512 units a frame
    n = 5000
    frames = np.arange(n) * 512 * float(time_base)
    wrong = np.searchsorted(frames, np.arange(n) * float(interval), side="right") - 1 != np.arange(n)
    stepped = np.searchsorted(frames, np.cumsum(np.full(n, float(interval))) - float(interval), side="right") - 1 != np.arange(n)
    assert wrong.any() or stepped.any()

    exact = np.array([floor(i * 512 * time_base * 10**9) for i in range(n)], dtype=np.int64)
    grid = resample.grid(0, int(exact[-1]) + 1, interval * 10**9)
    assert resample.shown_at(exact, grid).tolist() == list(range(n))
