"""The time grid: ticks at an exact interval, and which frame is on the screen at each.

Whole nanoseconds only. Frame times and ticks are both floored to a nanosecond, so a tick that falls exactly on a frame finds
that frame; with float seconds it found the one before at 0.5 % of the grid points tried.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from .records import I64

_INT64_MAX = 2**63 - 1


def grid(start_ns: int, stop_ns: int, interval_ns: Fraction) -> I64:
    """Ticks start + floor(k x interval) for k = 0, 1, ... below stop: int64 (n,), strictly increasing, exact for any fraction.

    Raises ValueError where the interval is below 1 ns, since ticks would then repeat.

    >>> grid(0, 100_100_001, Fraction(100_100_000, 3)).tolist()
    [0, 33366666, 66733333, 100100000]
    """
    n = _count(stop_ns - start_ns, interval_ns)
    whole, part = divmod(interval_ns.numerator, interval_ns.denominator)
    k = np.arange(n, dtype=np.int64)
    if max(whole, n * part) <= _INT64_MAX:
        return start_ns + k * whole + k * part // interval_ns.denominator
    # A decimal like 33.366700033366701 ms has a denominator that leaves int64 no room: Python's integers have no limit.
    return np.array([start_ns + i * interval_ns.numerator // interval_ns.denominator for i in range(n)], dtype=np.int64)


def ticks(last_ns: int, start_ns: int, end_ns: int | None, interval_ns: Fraction) -> I64:
    """Ticks of one manifest row: int64 (n,) from `start`, below `end` (half-open), and never after the last presented frame.

    last_ns is that frame's own time: how long it stays on the screen is not to be trusted. Empty where start lies after it.

    >>> ticks(100, 0, None, Fraction(50)).tolist(), ticks(100, 0, 100, Fraction(50)).tolist(), ticks(99, 0, None, Fraction(50)).tolist()
    ([0, 50, 100], [0, 50], [0, 50])
    """
    return grid(start_ns, _stop(last_ns, end_ns), interval_ns)


def tick_count(last_ns: int, start_ns: int, end_ns: int | None, interval_ns: Fraction) -> int:
    """len(ticks(...)) without making them."""
    return _count(_stop(last_ns, end_ns) - start_ns, interval_ns)


def shown_at(pts_ns: I64, grid_ns: I64) -> I64:
    """Index of the frame on the screen at each tick: int64 (T,), the last frame with pts <= tick.

    pts_ns (N,) never decreases; of frames with one time the last is shown. Raises ValueError for a tick before the first frame.

    >>> shown_at(np.array([0, 40, 80]), np.array([0, 39, 40, 1000])).tolist()
    [0, 0, 1, 2]
    """
    shown = np.searchsorted(pts_ns, grid_ns, side="right").astype(np.int64) - 1
    if len(shown) and shown.min() < 0:
        raise ValueError(f"tick {int(grid_ns.min())} ns lies before the first frame")
    return shown


def _stop(last_ns: int, end_ns: int | None) -> int:
    return last_ns + 1 if end_ns is None else min(end_ns, last_ns + 1)


def _count(span_ns: int, interval_ns: Fraction) -> int:
    """How many k >= 0 have floor(k x interval) < span: with a whole span the same as k < span / interval, so ceil of that."""
    if interval_ns < 1:
        raise ValueError(f"an interval of {interval_ns} ns is below one nanosecond")
    return max(0, -(-span_ns * interval_ns.denominator // interval_ns.numerator))
