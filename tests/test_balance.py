"""Window counts of rare and common classes, and the weights that follow."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hfprep import balance
from hfprep.labels import Members

CLIPS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 60)), max_size=40)


def counts(labels: list[int], capacity: list[int], per_clip: int = 8, method: str = "full", max_factor: float = 8.0) -> list[int]:
    got = balance.window_counts(
        Members.single(np.array(labels, dtype=np.int64)),
        np.array(capacity, dtype=np.int64),
        per_clip=per_clip,
        method=method,
        max_factor=max_factor,
    )
    return [int(c) for c in got]


def test_examples() -> None:
    assert doctest.testmod(balance).failed == 0


@settings(max_examples=80, deadline=None)
@given(clips=CLIPS, per_clip=st.integers(1, 20), method=st.sampled_from(["none", "sqrt", "full"]), max_factor=st.floats(1, 20))
def test_bounds_and_fairness(clips: list[tuple[int, int]], per_clip: int, method: str, max_factor: float) -> None:
    labels, capacity = [c for c, _ in clips], [n for _, n in clips]
    got = counts(labels, capacity, per_clip, method, max_factor)
    assert all(min(1, most) <= n <= most for n, most in zip(got, capacity))
    assert all(n >= min(per_clip, most) for n, most in zip(got, capacity)), "balancing never takes windows away"
    assert len({(*clip, n) for clip, n in zip(clips, got)}) == len(set(clips)), "equal label and capacity, equal count"


@pytest.mark.parametrize(("method", "rare"), [("none", 8), ("sqrt", 16), ("full", 32)])
def test_factor(method: str, rare: int) -> None:
    """Four times as many clips: 8 x 4 windows, 8 x 2, or no more than the others."""
    assert counts([0, 0, 0, 0, 1], [1000] * 5, method=method) == [8, 8, 8, 8, rare]


def test_factor_is_limited() -> None:
    labels = [0] * 100 + [1]
    assert counts(labels, [10**6] * 101)[-1] == 64
    assert counts(labels, [10**6] * 101, max_factor=2.5)[-1] == 20
    assert counts(labels, [10**6] * 101, max_factor=2.5, method="sqrt")[-1] == 20


def test_half_is_rounded_up() -> None:
    assert counts([0, 0, 0, 1, 1], [99] * 5, per_clip=1) == [1, 1, 1, 2, 2]  # 1.5
    assert counts([0, 0, 0, 1, 1], [99] * 5, per_clip=3) == [3, 3, 3, 5, 5]  # 4.5, which rounding to even would make 4


def test_clips_that_give_nothing_do_not_count() -> None:
    """Three of the four clips of class 0 cannot be opened: it is as rare as class 1."""
    assert counts([0, 0, 0, 0, 1], [0, 0, 0, 99, 99]) == [0, 0, 0, 8, 8]
    assert counts([0, 1], [0, 0]) == [0, 0]
    assert counts([], []) == []


def test_unknown_method() -> None:
    with pytest.raises(ValueError, match="'half'"):
        counts([0], [5], method="half")


@settings(max_examples=60, deadline=None)
@given(labels=st.lists(st.integers(0, 5), min_size=1, max_size=200))
def test_class_weights(labels: list[int]) -> None:
    windows = np.array(labels, dtype=np.int64)
    weight = balance.class_weight(windows, 7)
    assert weight.shape == (7,) and weight.dtype == np.float32
    assert np.isclose(weight[windows].mean(dtype=np.float64), 1, atol=1e-5)
    total = np.array([weight[c] * labels.count(c) for c in set(labels)])
    assert np.allclose(total, total[0], rtol=1e-5), "each class present weighs the same in all"
    assert not weight[[c for c in range(7) if c not in labels]].any()


def test_no_windows_at_all() -> None:
    assert balance.class_weight(np.zeros(0, dtype=np.int64), 3).tolist() == [0, 0, 0]
