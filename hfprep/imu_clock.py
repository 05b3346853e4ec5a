"""Times of sensor rows: exact nanoseconds of what a file says, and clocks that jump back, repeat or wrap put in order."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from .errors import ClipError
from .records import F32, I64, Bool

DIGITS = {"s": 9, "ms": 6, "us": 3, "ns": 0}  # unit -> decimal digits down to a nanosecond

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,2})?\Z", re.ASCII)
_INT64 = 2**63 - 1
# Counters that wrap: in ticks of the file's unit, and clocks of the hour, day and week in seconds.
_WRAP_TICKS = (2**16, 2**24, 2**31, 2**32)
_WRAP_SECONDS = (3_600, 86_400, 604_800)
_LONG_RUN = 8  # rows: a stretch that a restarted clock writes; shuffled rows and late packets give shorter ones


def exact_ns(cells: Sequence[str], digits: int) -> tuple[I64, Bool]:
    """Whole nanoseconds (R,), floored, of decimal texts in a unit of 10**-`digits`... 10**(digits-9) s, and which are numbers (R,).

    By whole numbers only: float64 seconds since 1970 are good to 240 ns. A number that int64 cannot hold counts as none.

    >>> exact_ns(["1548685904.964781323", "1.5e-3", "x"], 9)[0].tolist()
    [1548685904964781323, 1500000, 0]
    """
    value = np.zeros(len(cells), np.int64)
    good = np.zeros(len(cells), bool)
    if len(cells) == 0:
        return value, good
    grid = _characters(cells)
    sign = grid[:, 0] if grid.shape[1] else grid.sum(1)
    body = grid.copy()
    body[(sign == ord("-")) | (sign == ord("+")), 0] = ord("0")
    digit, dot = (body >= ord("0")) & (body <= ord("9")), body == ord(".")
    after = np.cumsum(dot, axis=1) > 0
    real_digits = (grid >= ord("0")) & (grid <= ord("9"))
    whole = (digit & ~after).sum(1)
    good = (digit | dot | (body == 0)).all(1) & (dot.sum(1) <= 1) & real_digits.any(1) & (whole + digits <= 18)
    fraction = np.zeros(len(cells), np.int64)
    cut = np.zeros(len(cells), bool)
    for c in range(body.shape[1]):
        use = good & digit[:, c] & (~after[:, c] | (fraction < digits))
        value[use] = value[use] * 10 + (body[use, c] - ord("0"))
        fraction[use & after[:, c]] += 1
        cut |= good & digit[:, c] & ~use & (body[:, c] > ord("0"))
    value *= 10 ** (digits - fraction)
    minus = sign == ord("-")
    value[minus] = -value[minus] - cut[minus]
    for i in np.flatnonzero(~good).tolist():
        value[i], good[i] = _slow(cells[i], digits)
    return value, good


def unit_by_size(value: float) -> str:
    """Unit of a time that is given as seconds but too large for that: seconds up to the year 5138, then ms, us, ns since 1970."""
    return next((unit for unit, limit in (("s", 1e11), ("ms", 1e14), ("us", 1e17)) if abs(value) < limit), "ns")


def _characters(cells: Sequence[str]) -> NDArray[np.int64]:
    """Code points (R,W), 0 behind a text's end; texts beyond 40 characters are left to the slow way."""
    text = np.array([c if len(c) <= 40 else "?" for c in cells], dtype=np.str_)
    return text.view(np.uint32).reshape(len(cells), -1).astype(np.int64)


def _slow(cell: str, digits: int) -> tuple[int, bool]:
    if len(cell) > 64 or not _NUMBER.match(cell):
        return 0, False
    scaled = Fraction(cell) * Fraction(10**digits)
    value = scaled.numerator // scaled.denominator
    return (value, True) if abs(value) <= _INT64 else (0, False)


def float_ns(times: NDArray[np.generic], digits: int) -> tuple[I64, Bool]:
    """Nanoseconds (rounded) of binary numbers in the same units, and which are finite and fit: whole and fraction apart."""
    if np.issubdtype(times.dtype, np.integer):
        limit = _INT64 // 10**digits
        good = (times <= limit) & (times >= -limit)
        return np.where(good, times, 0).astype(np.int64) * 10**digits, good
    number = times.astype(np.float64)
    good = np.isfinite(number) & (np.abs(number) < 9.2e18 / 10**digits)
    number = np.where(good, number, 0.0)
    whole = np.floor(number)
    return whole.astype(np.int64) * 10**digits + np.rint((number - whole) * 10.0**digits).astype(np.int64), good


def in_order(time_ns: I64, values: F32, *, where: str, line: Sequence[int] | I64, tick_ns: int = 1) -> tuple[I64, F32, list[str]]:
    """Rows with strictly increasing times, and what was repaired.

    time_ns (R,) as in the file, values (R,M), line (R,) line or row numbers for messages, tick_ns one unit of the file's clock.
    A counter that wraps (2**16, 2**32 ticks, midnight, ...) is unrolled; rows out of order are sorted; rows of one time are merged,
    different values averaged. Raises ClipError (imu_bad) where the clock restarts, as no one knows what the gap was.
    """
    notes: list[str] = []
    time_ns = _unwrapped(time_ns, tick_ns, line, notes)
    back = np.flatnonzero(np.diff(time_ns) < 0)
    if len(back):
        _refuse_restart(time_ns, back, where, line)
        order = np.argsort(time_ns, kind="stable")
        time_ns, values = time_ns[order], values[order]
        at = int(line[int(back[0]) + 1])
        notes.append(f"{len(back)} times step back (first in line {at}): rows sorted by time")
    first = np.concatenate([[True], np.diff(time_ns) > 0])
    if not first.all():
        time_ns, values = _merged(time_ns, values, first, notes)
    return time_ns, values, notes


def _unwrapped(time_ns: I64, tick_ns: int, line: Sequence[int] | I64, notes: list[str]) -> I64:
    step = np.diff(time_ns)
    back = np.flatnonzero(step < 0)
    if len(back) == 0 or len(back) * _LONG_RUN > len(time_ns):
        return time_ns
    usual = int(np.median(step[step > 0])) if (step > 0).any() else 0
    add = np.zeros(len(time_ns), np.int64)
    for i in back:
        moduli = [ticks * tick_ns for ticks in _WRAP_TICKS] + [s * 10**9 for s in _WRAP_SECONDS]
        over = [m for m in moduli if 0 < int(step[i]) + m <= 3 * usual and int(time_ns[i]) < m]
        if not over:
            continue
        add[i + 1 :] += over[0]
        notes.append(f"the clock wraps in line {int(line[int(i) + 1])} after {over[0] / 1e9:g} s: unrolled")
    return time_ns + add


def _refuse_restart(time_ns: I64, back: I64, where: str, line: Sequence[int] | I64) -> None:
    """A long stretch that begins again inside an earlier long one is a second recording, not rows out of order."""
    starts = np.concatenate([[0], back + 1])
    ends = np.concatenate([back + 1, [len(time_ns)]])
    long = [(int(a), int(b)) for a, b in zip(starts, ends) if b - a >= _LONG_RUN]
    for (a, b), (c, d) in itertools.pairwise(long):
        inside = int(np.searchsorted(time_ns[a:b], time_ns[d - 1], side="right") - np.searchsorted(time_ns[a:b], time_ns[c]))
        if inside >= _LONG_RUN // 2:
            gone = (int(time_ns[b - 1]) - int(time_ns[c])) / 1e9
            what = f"the clock starts again in line {int(line[c])} ({gone:.3f} s back): two recordings in one file"
            raise ClipError(what, where=where, remedy="cut the file in two there", kind="imu_bad")


def _merged(time_ns: I64, values: F32, first: Bool, notes: list[str]) -> tuple[I64, F32]:
    """One row a time: the mean of each axis' values, missing ones not counted."""
    group = np.cumsum(first) - 1
    n = int(group[-1]) + 1
    known = np.isfinite(values)
    total = np.zeros((n, values.shape[1]))
    count = np.zeros((n, values.shape[1]))
    np.add.at(total, group, np.where(known, values, 0.0).astype(np.float64))
    np.add.at(count, group, known)
    with np.errstate(invalid="ignore"):
        mean = (total / count).astype(np.float32)
    differ = int((np.isfinite(values) & (values != mean[group])).any(axis=1).sum())
    repeated = len(time_ns) - n
    notes.append(f"{repeated} repeated times merged" + (f", averaging values that differ ({differ} rows)" if differ else ""))
    return time_ns[first], mean
