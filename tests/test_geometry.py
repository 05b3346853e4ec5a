"""Placing pictures, on sizes alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfprep.geometry import Geometry, Orientation, Placement, orientation, place

SQUARE = Fraction(1)
UP = Orientation()


def test_known_places() -> None:
    assert place((320, 240), SQUARE, UP, Geometry(160, 160)) == Placement((40, 0, 240, 240), (160, 160), (0, 0))
    assert place((320, 240), SQUARE, UP, Geometry(160, 160, "pad")) == Placement((0, 0, 320, 240), (160, 120), (20, 0))
    assert place((320, 240), SQUARE, UP, Geometry(160, 160, "stretch")) == Placement((0, 0, 320, 240), (160, 160), (0, 0))
    turned = Orientation(swap=True)
    assert place((320, 240), SQUARE, turned, Geometry(100, 50)) == Placement((0, 40, 320, 160), (100, 50), (0, 0))
    assert place((320, 240), SQUARE, turned, Geometry(160, 160, "pad")) == Placement((0, 0, 320, 240), (160, 120), (0, 20))
    assert place((64, 96), Fraction(2), UP, Geometry(96, 96)) == Placement((8, 0, 48, 96), (96, 96), (0, 0))


sizes = st.tuples(st.integers(1, 400), st.integers(1, 400))


@given(sizes, st.fractions(Fraction(1, 4), 4, max_denominator=40), st.booleans(), sizes, st.sampled_from(["crop", "pad", "stretch"]))
def test_a_placement_fits_and_keeps_proportions(
    size: tuple[int, int], pixel: Fraction, swap: bool, goal: tuple[int, int], fit: str
) -> None:
    got = place(size, pixel, Orientation(swap=swap), Geometry(goal[1], goal[0], fit))
    x, y, w, h = got.crop
    assert x >= 0 and y >= 0 and w >= 1 and h >= 1 and x + w <= size[0] and y + h <= size[1]
    shown = got.scaled[::-1] if swap else got.scaled
    top, left = got.at
    assert top >= 0 and left >= 0 and top + shown[1] <= goal[1] and left + shown[0] <= goal[0]
    if fit != "pad":
        assert shown == goal
    if fit == "pad":
        assert shown[0] == goal[0] or shown[1] == goal[1]
    if fit != "stretch" and min(w, h, *got.scaled) >= 40:
        assert w * pixel / h * Fraction(got.scaled[1], got.scaled[0]) == pytest.approx(1, abs=0.08)


def test_matrices_that_say_nothing() -> None:
    assert orientation(None) == UP and orientation(bytes(36)).upright(np.zeros((2, 3, 3), np.uint8)).shape == (2, 3, 3)
    assert orientation(b"\x00\x00\x01\x00") == UP
    turned = orientation(np.array([0, -65536, 0, 65536, 0, 0, 0, 0, 1 << 30], "<i4").tobytes())
    assert turned.degrees == 90 and turned.exact and turned.upright(np.zeros((2, 3, 3), np.uint8)).shape == (3, 2, 3)
