"""Where windows lie in a clip, and which ticks they hold.

A window of `size` ticks has its centre at index size // 2. Edge rule "clamp": beyond the clip's ends the first or last tick is
repeated, never the other end: size 4 centred on tick 0 of 3 holds ticks [0, 0, 0, 1].
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np

from .pipeline import Window
from .records import I64, Bool, Hotspot


def allowed(n_ticks: int, size: int, max_clamped: float) -> tuple[int, int]:
    """First and last centre (both inclusive) whose window repeats at most max_clamped x size ticks; a clip shorter than `size`
    keeps the size - n_ticks repeats that it needs. The centres between them are allowed too; there is always at least one.

    >>> allowed(100, 16, 0.25), allowed(100, 16, 0), allowed(3, 8, 0)
    ((4, 96), (8, 92), (0, 2))
    """
    _check(n_ticks, size)
    repeats = max(_repeats(size, max_clamped), size - n_ticks)
    before, after = size // 2, size - 1 - size // 2
    return max(0, before - repeats), min(n_ticks - 1, n_ticks - 1 - after + repeats)


@cache
def _repeats(size: int, max_clamped: float) -> int:
    """The shortest decimal of the key, exactly: 0.29 x 100 is 28.999... in float64."""
    return int(Fraction(repr(float(max_clamped))) * size)


def place(n_ticks: int, hotspot: int, *, size: int, count: int, stride: int, max_clamped: float, width: int = 0) -> I64:
    """Centres around a hotspot: int64 (min(count, number of allowed centres),), all different.

    The hotspot (moved to the nearest allowed centre) comes first, then the centres at whole strides from it, nearest first and
    the later one first of two at one distance; where these run out on both sides, the nearest centres not used yet.
    stride 0 is automatic, see `automatic`; width: ticks of the hot region around the hotspot, 0 where it is not known.

    >>> place(100, 50, size=16, count=5, stride=4, max_clamped=0.25).tolist()
    [50, 54, 46, 58, 42]
    """
    low, high = allowed(n_ticks, size, max_clamped)
    first = min(max(hotspot, low), high)
    step = stride or automatic(n_ticks, size, count, width)
    centers = np.arange(low, high + 1, dtype=np.int64)
    away = np.abs(centers - first)
    order = np.lexsort((centers < first, away, away % step != 0))
    return centers[order[: max(0, count)]]


def automatic(n_ticks: int, size: int, count: int, width: int = 0) -> int:
    """The stride that is chosen where none is given: max(1, min(size // 4, (n_ticks - size) // (count - 1), max(size, width) // count)).

    A quarter of a window; shorter where the clip is, so that clips of any length give the same number; and so that all windows
    still show the action: up to max(size, width) / 2 from its middle a window holds at least half of it, or is half filled by it.
    width 0, where it is not known, sets no such bound.

    >>> automatic(100, 16, 8), automatic(100, 16, 8, width=5), automatic(100, 16, 8, width=60), automatic(30, 16, 8, width=60)
    (4, 2, 4, 2)
    """
    if count < 2:
        return 1
    reach = max(size, width) // count if width else size
    return max(1, min(size // 4, (n_ticks - size) // (count - 1), reach))


def cover(n_ticks: int, size: int, stride: int) -> I64:
    """Centres of windows that tile the clip: starts 0, stride, 2 x stride, ... and always n_ticks - size; int64 (n,) in time order.

    stride 0 is automatic, half a window. A clip shorter than a window gives one that holds all of it.

    >>> (cover(20, 8, 5) - 4).tolist(), cover(3, 8, 5).tolist()
    ([0, 5, 10, 12], [1])
    """
    _check(n_ticks, size)
    if n_ticks < size:
        return np.array([n_ticks // 2], dtype=np.int64)
    last = n_ticks - size
    starts = np.arange(0, last + 1, stride or max(1, size // 2), dtype=np.int64)
    if starts[-1] != last:
        starts = np.append(starts, last)
    return starts + size // 2


def quartiles(n_ticks: int, size: int, max_clamped: float) -> I64:
    """Centres at 1/4, 1/2 and 3/4 of the clip, moved to allowed ones; int64 (1 to 3,), different, in time order.

    >>> quartiles(100, 16, 0.25).tolist(), quartiles(1, 16, 0.25).tolist()
    ([25, 50, 75], [0])
    """
    low, high = allowed(n_ticks, size, max_clamped)
    wanted = np.array([n_ticks // 4, n_ticks // 2, 3 * n_ticks // 4], dtype=np.int64)
    return np.unique(np.clip(wanted, low, high))


def clamp(centers: I64, size: int, n_ticks: int | I64, margin: int = 0) -> tuple[I64, Bool]:
    """Ticks of each window by the edge rule "clamp": index int64 (N,L) within 0 ... n_ticks - 1, and clamped bool (N,L), True
    where a tick is repeated because the window runs past the clip; L = size + 2 x margin. n_ticks: of the clip, or int64 (N,) of
    each window's clip.

    >>> clamp(np.array([0]), 4, 3)[0].tolist()
    [[0, 0, 0, 1]]
    """
    each = np.asarray(n_ticks, dtype=np.int64)
    _check(int(each.min(initial=1)), size)
    offsets = np.arange(-(size // 2) - margin, size - size // 2 + margin, dtype=np.int64)
    wanted = np.asarray(centers, dtype=np.int64)[:, None] + offsets
    index = np.clip(wanted, 0, each[..., None] - 1)
    return index, index != wanted


def capacity(n_ticks: int, window: Window, split: str) -> int:
    """The most windows with different centres that a clip of n_ticks can give in a split; 0 for a clip without ticks."""
    if n_ticks <= 0:
        return 0
    rule = _rule(window, split)
    if rule == "hotspot":
        low, high = allowed(n_ticks, window.size, window.max_clamped)
        return high - low + 1
    return _cover_count(n_ticks, window) if rule == "cover" else len(quartiles(n_ticks, window.size, window.max_clamped))


def base_count(n_ticks: int, window: Window, split: str) -> int:
    """Windows that a clip gives before classes are balanced."""
    most = capacity(n_ticks, window, split)
    return min(window.per_clip, most) if _rule(window, split) == "hotspot" else most


def needs_hotspot(window: Window, split: str) -> bool:
    """Whether the centres in this split depend on where the action is."""
    return _rule(window, split) == "hotspot"


def centers(n_ticks: int, hotspot: Hotspot | None, window: Window, split: str, count: int) -> I64:
    """The clip's window centres in row order, at most `count`, by the split's rule.

    Raises ValueError where that rule needs a hotspot and none is given.
    """
    rule = _rule(window, split)
    if rule == "cover":
        return cover(n_ticks, window.size, window.stride)[:count]
    if rule == "quartiles":
        return quartiles(n_ticks, window.size, window.max_clamped)[:count]
    if hotspot is None:
        raise ValueError(f"windows of split {split!r} are placed around a hotspot, and none is given")
    return place(
        n_ticks,
        hotspot.tick,
        size=window.size,
        count=count,
        stride=window.stride,
        max_clamped=window.max_clamped,
        width=hotspot.width,
    )


def _rule(window: Window, split: str) -> str:
    return window.placement if split == "train" else window.eval


def _cover_count(n_ticks: int, window: Window) -> int:
    """len(cover(...)) without making it."""
    stride = window.stride or max(1, window.size // 2)
    return 1 if n_ticks <= window.size else -(-(n_ticks - window.size) // stride) + 1


def _check(n_ticks: int, size: int) -> None:
    if n_ticks < 1 or size < 1:
        raise ValueError(f"a window of {size} ticks in a clip of {n_ticks}: both must be at least 1")
