"""Which clock is believed, on lists of stamps alone."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfprep import clock
from hfprep.errors import ClipError

RATE = Fraction(25)
TB = Fraction(1, 25)
STEP = 40_000_000


def read(pts: list[int | None], dts: list[int | None], rate: Fraction | None = RATE) -> clock.Clock:
    return clock.read(pts, dts, TB, rate, "v.avi")


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=50, unique=True).map(sorted), st.integers(1, 90000), st.integers(1, 90000))
def test_times_are_floored_exact_fractions(stamps: list[int], numerator: int, denominator: int) -> None:
    base = Fraction(numerator, denominator * 1000)
    want = [(s - stamps[0]) * base * 10**9 // 1 for s in stamps]
    if max((b - a for a, b in pairwise(want)), default=0) > clock.LONGEST_GAP_NS:
        with pytest.raises(ClipError):
            clock.from_pts(stamps, base, "v")
    else:
        assert clock.from_pts(stamps, base, "v").tolist() == want


def test_stamps_that_never_go_back_are_believed() -> None:
    found = read([3, 4, 9], [None, None, None])
    assert (found.name, found.ns.tolist(), found.distinct, found.notes) == ("pts", [0, STEP, 6 * STEP], True, ())
    assert not read([3, 3, 9], [1, 2, 3]).distinct


def test_stamps_out_of_order_give_way_to_decoding_times() -> None:
    found = read([1, 2, 4, 3, 5, 7, 6], [2, 3, 4, 5, 7, None, None])
    assert found.name == "dts" and not found.distinct
    assert [t // STEP for t in found.ns.tolist()] == [0, 1, 2, 3, 5, 6, 7]  # a dropped frame stays a gap


def test_without_any_order_the_rate_counts() -> None:
    found = read([1, 2, 4, 3], [2, 2, 2, 2])
    assert (found.name, found.ns.tolist()) == ("rate", [0, STEP, 2 * STEP, 3 * STEP])
    assert read([None] * 3, [None] * 3).ns.tolist() == [0, STEP, 2 * STEP]


def test_a_clock_that_starts_again_goes_on_from_the_join() -> None:
    found = read([*range(100, 110), *range(5, 15)], [None] * 20)
    assert (found.name, found.ns.tolist()) == ("pts", [k * STEP for k in range(20)])


def test_what_cannot_be_told_is_a_fault() -> None:
    for pts, kind in (([None, None], "no_timestamps"), ([2, 1], "bad_timestamps"), ([0, 25 * 3600 * 24 * 2], "bad_timestamps")):
        with pytest.raises(ClipError) as caught:
            read(pts, [None, None], None)
        assert caught.value.kind == kind and caught.value.where == "v.avi"
