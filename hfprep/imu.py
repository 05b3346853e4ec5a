"""Sensor files: read with exact times, aligned to frames by linear interpolation, never extrapolated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from . import tables
from .errors import ClipError
from .imu_clock import DIGITS, exact_ns, in_order, unit_by_size
from .records import F32, I64, Aligned, Sensor

_MISSING = {"", "nan", "na", "n/a", "null", "none", "-", "#n/a", "inf", "-inf", "+inf", "infinity", "-infinity"}


def read(path: str) -> Sensor:
    """Read a CSV with a column `t` (seconds) and one column an axis.

    Times become whole nanoseconds, exactly; empty cells NaN. Rows out of order are sorted, repeated times merged; both are said
    in `notes`. Raises ClipError: imu_missing, or imu_bad naming line and value.
    """
    header, rows, lines, at = _rows(path)
    first = next((float(r[at]) for r in rows if _is_float(r[at])), 0.0)
    unit = unit_by_size(first)
    time_ns, good = exact_ns([r[at] for r in rows], DIGITS[unit])
    axes = [i for i, name in enumerate(header) if i != at and name]
    values = np.column_stack([_floats([r[i] for r in rows], header[i], lines, path) for i in axes])
    keep = []
    for i in np.flatnonzero(~good):
        if rows[i][at].lower() not in _MISSING:
            raise _bad(path, f"line {lines[i]}: time {rows[i][at][:40]!r} is not a number")
        keep.append(i)
    time_ns, values, line = (np.delete(a, keep, axis=0) for a in (time_ns, values, np.array(lines)))
    notes = [f"times are taken as {unit} since 1970, as {first:g} is too large for seconds"] if unit != "s" else []
    notes += [f"{len(keep)} rows without a time left out"] if keep else []
    if len(time_ns) < 2:
        raise _bad(path, f"{len(time_ns)} rows with a time: nothing to interpolate")
    time_ns, values, repaired = in_order(time_ns, values, where=path, line=line, tick_ns=10 ** DIGITS[unit])
    return Sensor(time_ns, values, tuple(header[i] for i in axes), notes=tuple(notes + repaired))


def axes(path: str) -> tuple[str, ...]:
    """Names of a sensor file's axes, in its order; raises ClipError as `read` does."""
    header, _, _, at = _rows(path, limit=1)
    return tuple(name for i, name in enumerate(header) if i != at and name)


def align(sensor: Sensor, at_ns: I64, *, axes: Sequence[str], offset_ns: int = 0, max_gap_ns: int, where: str = "") -> Aligned:
    """Values of `axes` (T,M) at the video times `at_ns` (T,): linear between the neighbouring rows that have the axis.

    Video time = sensor time + offset_ns. NaN before the axis' first and after its last measured row, and between neighbours more
    than max_gap_ns apart; an axis that the sensor lacks is NaN. ok (T,): every axis is known.
    Raises ClipError (imu_no_overlap) where no time of `at_ns` lies inside the sensor's.

    >>> s = Sensor(np.array([0, 10]), np.array([[1.0], [3.0]], np.float32), ("ax",))
    >>> align(s, np.array([0, 5, 11]), axes=("ax",), max_gap_ns=10).values.ravel().tolist()
    [1.0, 2.0, nan]
    """
    asked = np.asarray(at_ns, np.int64) - offset_ns
    if len(asked) and (asked.max() < sensor.time_ns[0] or asked.min() > sensor.time_ns[-1]):
        raise _no_overlap(sensor, asked, offset_ns, where)
    values = np.full((len(asked), len(axes)), np.nan, np.float32)
    for column, name in enumerate(axes):
        if name in sensor.axes:
            values[:, column] = _interpolated(sensor.time_ns, sensor.values[:, sensor.axes.index(name)], asked, max_gap_ns)
    return Aligned(values, np.isfinite(values).all(axis=1).reshape(len(asked)))


def _interpolated(time_ns: I64, value: F32, asked: I64, max_gap_ns: int) -> F32:
    known = np.isfinite(value)
    time_ns, value = time_ns[known], value[known]
    out = np.full(len(asked), np.nan, np.float32)
    if len(time_ns) == 0:
        return out
    right = np.searchsorted(time_ns, asked, side="left")  # first row at or after the time
    inside = (right < len(time_ns)) & (asked >= time_ns[0])
    right = np.minimum(right, len(time_ns) - 1)
    exact = time_ns[right] == asked
    left = np.where(exact, right, np.maximum(right - 1, 0))
    gap = time_ns[right] - time_ns[left]
    part = (asked - time_ns[left]) / np.maximum(gap, 1)
    low, high = value[left].astype(np.float64), value[right].astype(np.float64)
    inside &= gap <= max_gap_ns
    out[inside] = (low + (high - low) * part)[inside]
    return out


def _no_overlap(sensor: Sensor, asked: I64, offset_ns: int, where: str) -> ClipError:
    span = f"{sensor.time_ns[0] / 1e9:.3f} to {sensor.time_ns[-1] / 1e9:.3f} s"
    wanted = f"{asked.min() / 1e9:.3f} to {asked.max() / 1e9:.3f} s"
    what = f"sensor rows are from {span}, frames need {wanted} (imu_offset_ms {offset_ns / 1e6:g})"
    remedy = "give imu_offset_ms: video time = sensor time + offset"
    if sensor.time_ns[0] > 10**17:  # nanoseconds since 1970
        remedy += f"; the sensor's clock counts from 1970, so about {-sensor.time_ns[0] / 1e6:.0f} if both began together"
    return ClipError(what, where=where, remedy=remedy, kind="imu_no_overlap")


def _rows(path: str, limit: int | None = None) -> tuple[list[str], list[list[str]], list[int], int]:
    """Header, data cells (as wide as the header), their line numbers, and the time column's index."""
    try:
        text, _ = tables.decode(tables.read_bytes(path, ClipError, "imu_missing"))
    except tables.NotText as fault:
        raise _bad(path, f"this looks like {fault.args[0]}", fault.args[1]) from None
    header: list[str] = []
    rows: list[list[str]] = []
    lines: list[int] = []
    at = -1
    for line, record in tables.records(tables.lines_of(text), ","):
        cells = tables.clean(record) if isinstance(record, list) else [record]
        if not any(cells):
            continue
        if not header:
            header = cells
            if "t" not in [c.casefold() for c in header]:
                raise _bad(path, f"no time column 't'; found: {', '.join(map(repr, header))[:200]}")
            at = [c.casefold() for c in header].index("t")
            continue
        if len(cells) > len(header) and any(cells[len(header) :]):
            raise _bad(path, f"line {line} has {len(cells)} cells for {len(header)} columns")
        rows.append((cells + [""] * (len(header) - len(cells)))[: len(header)])
        lines.append(line)
        if limit is not None and len(rows) >= limit:
            break
    if not header or not (set(range(len(header))) - {at}):
        raise _bad(path, "no columns of values")
    return header, rows, lines, at


def _floats(cells: list[str], column: str, lines: Sequence[int], path: str) -> F32:
    try:
        return np.array(["nan" if c.lower() in _MISSING else c for c in cells], dtype=np.str_).astype(np.float64).astype(np.float32)
    except ValueError:
        i = next(i for i, c in enumerate(cells) if c.lower() not in _MISSING and not _is_float(c))
        raise _bad(path, f"line {lines[i]}, column {column!r}: {cells[i][:40]!r} is not a number") from None


def _is_float(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _bad(path: str, what: str, remedy: str = "correct the sensor file") -> ClipError:
    return ClipError(what, where=path, remedy=remedy, kind="imu_bad")
