"""Where windows lie and what they hold, against the definitions spelled out tick by tick."""

from __future__ import annotations

import doctest
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hfprep import windows
from hfprep.pipeline import Window
from hfprep.records import Hotspot

LENGTHS = st.integers(1, 70)
SIZES = st.integers(1, 40)
SHARES = st.sampled_from([0.0, 0.1, 0.25, 0.29, 0.5, 1.0])


def repeats(center: int, n_ticks: int, size: int) -> int:
    first = center - size // 2
    return sum(not 0 <= tick < n_ticks for tick in range(first, first + size))


def test_examples() -> None:
    assert doctest.testmod(windows).failed == 0


@settings(max_examples=60, deadline=None)
@given(n=LENGTHS, size=SIZES, percent=st.integers(0, 100))
def test_allowed_centres_are_those_with_few_repeats(n: int, size: int, percent: int) -> None:
    limit = max(percent * size // 100, size - n)
    low, high = windows.allowed(n, size, percent / 100)
    assert list(range(low, high + 1)) == [c for c in range(n) if repeats(c, n, size) <= limit]
    assert low <= high


def test_share_is_read_as_the_decimal_it_was_written_as() -> None:
    """0.29 of 100 are 29 repeats; in float64 the product is 28.999999999999996."""
    assert windows.allowed(1000, 100, 0.29)[0] == 50 - 29


@settings(max_examples=60, deadline=None)
@given(n=LENGTHS, size=SIZES, where=st.floats(0, 1), count=st.integers(1, 90), stride=st.integers(0, 9), share=SHARES)
def test_placed_centres(n: int, size: int, where: float, count: int, stride: int, share: float) -> None:
    hotspot = min(n - 1, int(where * n))
    window = Window(size=size, max_clamped=share)
    low, high = windows.allowed(n, size, share)
    got = windows.place(n, hotspot, size=size, count=count, stride=stride, max_clamped=share).tolist()
    assert len(got) == len(set(got)) == min(count, windows.capacity(n, window, "train"))
    assert all(low <= c <= high for c in got)
    assert got[0] == min(range(low, high + 1), key=lambda c: abs(c - hotspot))
    away = [abs(c - got[0]) for c in got]
    step = stride or max(1, min(size // 4, (n - size) // (count - 1) if count > 1 else 1))
    whole = [d for d in away if d % step == 0]
    assert away[: len(whole)] == sorted(whole), "whole strides first, nearest first"
    assert away[len(whole) :] == sorted(away[len(whole) :])
    if len(whole) < len(away):  # others only where the strides are used up
        assert len(whole) == sum((c - got[0]) % step == 0 for c in range(low, high + 1))


def test_placement_goes_on_where_one_side_has_ended() -> None:
    assert windows.place(100, 8, size=16, count=5, stride=8, max_clamped=0).tolist() == [8, 16, 24, 32, 40]
    assert windows.place(100, 91, size=16, count=4, stride=8, max_clamped=0).tolist() == [91, 83, 75, 67]


def test_automatic_stride() -> None:
    """At most a quarter of the window, and short enough that all windows fit into the clip."""
    args = {"size": 16, "count": 8, "stride": 0, "max_clamped": 0.25}
    assert sorted(windows.place(400, 200, **args).tolist()) == list(range(200 - 3 * 4, 200 + 4 * 4 + 1, 4))
    assert sorted(windows.place(30, 15, **args).tolist()) == list(range(15 - 3 * 2, 15 + 4 * 2 + 1, 2))  # (30 - 16) // 7 = 2
    assert sorted(windows.place(18, 9, **args).tolist()) == list(range(6, 14))  # 2 // 7 = 0: at least one tick
    assert len(windows.place(9, 4, **args)) == 8  # shorter than a window
    assert windows.place(50, 20, size=16, count=1, stride=0, max_clamped=0.25).tolist() == [20]


def test_automatic_stride_keeps_windows_on_the_action() -> None:
    """An action of 12 ticks at 44 to 55: each of 8 windows of 16 shows at least half of it; at a quarter of a window some miss it."""
    args = {"size": 16, "count": 8, "stride": 0, "max_clamped": 0.25}

    def shown(center: int) -> int:
        return max(0, min(56, center + 8) - max(44, center - 8))

    assert min(shown(c) for c in windows.place(400, 50, width=12, **args).tolist()) >= 6
    assert min(shown(c) for c in windows.place(400, 50, **args).tolist()) < 6


@settings(max_examples=100, deadline=None)
@given(n=LENGTHS, size=SIZES, count=st.integers(1, 90), width=st.integers(1, 400))
def test_the_width_of_the_action_only_shortens_the_stride(n: int, size: int, count: int, width: int) -> None:
    narrow, wide, unknown = (windows.automatic(n, size, count, w) for w in (width, width + count, 0))
    assert 1 <= narrow <= wide <= unknown
    assert narrow == 1 or narrow * count <= max(size, width), "all centres lie within the longer of window and action"
    assert windows.automatic(n, size, count, max(size, width) * size) == unknown or count > size


@settings(max_examples=60, deadline=None)
@given(n=LENGTHS, size=SIZES, stride=st.integers(0, 12))
def test_cover_tiles_the_clip(n: int, size: int, stride: int) -> None:
    got = windows.cover(n, size, stride)
    index, clamped = windows.clamp(got, size, n)
    if n <= size:
        assert len(got) == 1 and set(index[0].tolist()) == set(range(n))
        return
    assert not clamped.any()
    starts = index[:, 0].tolist()
    step = stride or max(1, size // 2)
    assert starts[0] == 0 and starts[-1] == n - size
    assert all(s % step == 0 for s in starts[:-1]) and all(0 < b - a <= step for a, b in pairwise(starts))
    if step <= size:
        assert set(index.ravel().tolist()) == set(range(n))


def test_short_clips_in_cover() -> None:
    def ticks(n: int) -> list[list[int]]:
        return windows.clamp(windows.cover(n, 8, 1), 8, n)[0].tolist()

    assert ticks(1) == [[0] * 8]
    (three,) = ticks(3)
    assert three == sorted(three) and set(three) == {0, 1, 2}
    assert ticks(8) == [list(range(8))]
    assert ticks(9) == [list(range(8)), list(range(1, 9))]


@settings(max_examples=60, deadline=None)
@given(n=LENGTHS, size=SIZES, share=SHARES)
def test_quartiles(n: int, size: int, share: float) -> None:
    low, high = windows.allowed(n, size, share)
    moved = {min(max(c, low), high) for c in (n // 4, n // 2, 3 * n // 4)}
    assert windows.quartiles(n, size, share).tolist() == sorted(moved)


@settings(max_examples=60, deadline=None)
@given(n=LENGTHS, size=SIZES, margin=st.integers(0, 5), where=st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_clamp_repeats_ends_and_never_wraps(n: int, size: int, margin: int, where: list[float]) -> None:
    centers = np.array([min(n - 1, int(w * n)) for w in where], dtype=np.int64)
    index, clamped = windows.clamp(centers, size, n, margin)
    assert index.shape == clamped.shape == (len(centers), size + 2 * margin)
    assert index.min() >= 0 and index.max() < n and np.all(np.diff(index, axis=1) >= 0)
    wanted = centers[:, None] + np.arange(size + 2 * margin) - size // 2 - margin
    inside = (wanted >= 0) & (wanted < n)
    assert np.array_equal(index[inside], wanted[inside]) and np.array_equal(clamped, ~inside)
    assert np.array_equal(index[:, size // 2 + margin], centers)
    if n == 1:
        assert not index.any()


def test_four_numbers() -> None:
    index, clamped = windows.clamp(np.array([0]), 4, 3)
    assert index.tolist() == [[0, 0, 0, 1]] and clamped.tolist() == [[True, True, False, False]]


@settings(max_examples=60, deadline=None)
@given(
    n=LENGTHS,
    size=SIZES,
    placement=st.sampled_from(["hotspot", "cover"]),
    evaluation=st.sampled_from(["quartiles", "cover", "hotspot"]),
    split=st.sampled_from(["train", "val", "test"]),
    stride=st.integers(0, 5),
    per_clip=st.integers(1, 12),
)
def test_planned_numbers_are_what_centers_gives(
    n: int, size: int, placement: str, evaluation: str, split: str, stride: int, per_clip: int
) -> None:
    window = Window(size=size, placement=placement, eval=evaluation, stride=stride, per_clip=per_clip)
    most, base = windows.capacity(n, window, split), windows.base_count(n, window, split)
    assert 1 <= base <= most
    assert len(set(windows.centers(n, Hotspot(n // 2, 0.5, 3), window, split, most).tolist())) == most
    assert len(windows.centers(n, Hotspot(n // 2, 0.5, 3), window, split, most + 5)) == most
    got = windows.centers(n, Hotspot(n // 2, 0.5, 3), window, split, base)
    assert len(got) == base
    rule = placement if split == "train" else evaluation
    assert windows.needs_hotspot(window, split) == (rule == "hotspot")
    if rule == "hotspot":
        assert base == min(per_clip, most)
        with pytest.raises(ValueError, match="hotspot"):
            windows.centers(n, None, window, split, base)
    else:
        assert np.array_equal(windows.centers(n, None, window, split, base), got)


def test_no_ticks() -> None:
    window = Window()
    assert windows.capacity(0, window, "train") == windows.base_count(0, window, "val") == 0
    for make in (lambda: windows.allowed(0, 8, 0.25), lambda: windows.cover(0, 8, 1), lambda: windows.clamp(np.array([0]), 8, 0)):
        with pytest.raises(ValueError, match="at least 1"):
            make()


def test_an_hour_is_placed_at_once() -> None:
    began = time.perf_counter()
    n = 36_000
    index, clamped = windows.clamp(windows.cover(n, 16, 1), 16, n, margin=2)
    assert index.shape == (n - 15, 20) and int(clamped.sum()) == 2 * (2 + 1)
    assert len(windows.place(n, 17, size=16, count=n, stride=4, max_clamped=0.25)) == n - 7
    assert time.perf_counter() - began < 5, "a loop over ticks in Python"
