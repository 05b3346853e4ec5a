"""Sensor files: read with exact times, aligned to frames by linear interpolation, never extrapolated."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from . import imu_files, imu_table, telemetry
from .errors import ClipError, UsageError
from .imu_clock import DIGITS, exact_ns, float_ns, in_order
from .imu_columns import Axis, Choice, choose
from .imu_table import MISSING, Column, SensorTable, bad, is_number
from .pipeline import Imu, ImuFormat, imu_format
from .records import F32, I64, Aligned, Clip, Sensor

PLAIN = ImuFormat()
READ_AS = "read as "  # begins the note that says what was recognised


def of_clip(clip: Clip, how: Imu) -> Sensor:
    """The sensor rows of a manifest row: its file or files, laid out as its layout file says, else as the recipe does."""
    try:
        return read(clip.imu, imu_format(clip.imu_layout) if clip.imu_layout else how)
    except UsageError as fault:
        raise ClipError(fault.what, where=fault.where, remedy=fault.remedy, kind="imu_layout") from None


def read(path: str, how: ImuFormat = PLAIN) -> Sensor:
    """Read a sensor file, or several with "|" between them, as rows of exact whole nanoseconds; missing values are NaN.

    Text tables, NPY, Parquet, MATLAB (UTD-MHAD), and videos with GoPro's metadata stream. Rows out of order are sorted, repeated times
    merged; that and what was recognised is said in `notes`. Raises ClipError: imu_missing, or imu_bad naming line and value.
    """
    sensors = [sensor for part in path.split("|") for sensor in _file(part.strip(), how)]
    return side_by_side(sensors, path) if len(sensors) > 1 else sensors[0]


def _file(path: str, how: ImuFormat) -> list[Sensor]:
    if path.lower().endswith(telemetry.SUFFIXES):
        return telemetry.read(path)
    if path.lower().endswith(imu_files.SUFFIXES):
        table, given = imu_files.read(path, bool(how.time or how.rate_hz))
        chosen = {k: v for k, v in given.items() if not getattr(how, k) and not how.time}
        return [_sensor(table, path, how.model_copy(update=chosen))]
    return [_sensor(imu_table.read(path), path, how)]


def side_by_side(sensors: Sequence[Sensor], where: str) -> Sensor:
    """One sensor of several that run at their own rates: the rows of all, NaN in the axes that a row does not have.

    Raises ClipError (imu_bad) where two have an axis of one name.
    """
    axes = tuple(name for s in sensors for name in s.axes)
    if len(set(axes)) < len(axes):
        twice = next(name for name in axes if axes.count(name) > 1)
        raise bad(where, f"axis {twice!r} is in two of the files", "name the columns in the recipe: [imu] columns")
    time_ns = np.unique(np.concatenate([s.time_ns for s in sensors]))
    values = np.full((len(time_ns), len(axes)), np.nan, np.float32)
    column = 0
    for s in sensors:
        values[np.searchsorted(time_ns, s.time_ns), column : column + len(s.axes)] = s.values
        column += len(s.axes)
    units = tuple(unit for s in sensors for unit in (s.units or ("",) * len(s.axes)))
    return Sensor(time_ns, values, axes, units, tuple(dict.fromkeys(note for s in sensors for note in s.notes)))


def _sensor(table: SensorTable, path: str, how: ImuFormat) -> Sensor:
    what = choose(table, path, how)
    line = np.array(table.lines, np.int64)
    time_ns, known, notes = _times(table, what, path, how)
    values = np.column_stack([_values(table.columns[axis.column], table, axis, path) for axis in what.axes])
    if not known.all():
        notes.append(f"{int((~known).sum())} rows without a time left out")
        time_ns, values, line = time_ns[known], values[known], line[known]
    if len(time_ns) < 2:
        raise bad(path, f"{len(time_ns)} rows with a time: nothing to interpolate")
    tick_ns = 10 ** DIGITS[what.times[0][1]] if len(what.times) == 1 and what.times[0][1] in DIGITS else 1
    time_ns, values, repaired = in_order(time_ns, values, where=path, line=line, tick_ns=tick_ns)
    if how.origin == "start":
        time_ns = time_ns - time_ns[0]
    empty = [axis.name for i, axis in enumerate(what.axes) if not np.isfinite(values[:, i]).any()]
    if len(empty) == len(what.axes):
        raise bad(path, f"no value in any row of {', '.join(empty)}")
    told = (READ_AS + what.told,) if what.told else ()
    return Sensor(time_ns, values, tuple(a.name for a in what.axes), tuple(a.unit for a in what.axes), (*told, *notes, *repaired))


def _times(table: SensorTable, what: Choice, path: str, how: ImuFormat) -> tuple[I64, np.ndarray, list[str]]:
    """Nanoseconds of each row and which rows have a time; raises ClipError naming the line whose time is no number."""
    n = len(table.lines)
    if not what.times:
        step = Fraction(10**9) / Fraction(str(how.rate_hz))
        return np.array([int(i * step) for i in range(n)], np.int64), np.ones(n, bool), []
    time_ns, known = np.zeros(n, np.int64), np.ones(n, bool)
    notes = []
    for column, unit in what.times:
        some, good = _column_times(table.columns[column], unit)
        cells = table.columns[column]
        wrong = next((i for i in np.flatnonzero(~good).tolist() if str(cells[i]).lower() not in MISSING), None)
        if wrong is not None:
            raise bad(
                path, f"line {table.lines[wrong]}: time {str(cells[wrong])[:40]!r} is not a {'date' if unit == 'datetime' else 'number'}"
            )
        time_ns, known = time_ns + some, known & good
        if table.names[column].casefold() == "t" and unit != "s":
            first = next((str(c) for c in cells if is_number(str(c))), "")
            notes.append(f"times are taken as {unit} since 1970, as {first} is too large for seconds")
    return time_ns, known, notes


def _column_times(column: Column, unit: str) -> tuple[I64, np.ndarray]:
    if isinstance(column, np.ndarray):
        return float_ns(column, DIGITS[unit])
    return imu_table.date_ns(column) if unit == "datetime" else exact_ns(column, DIGITS[unit])


def _values(column: Column, table: SensorTable, axis: Axis, path: str) -> F32:
    """An axis in the store's unit; raises ClipError naming line, column and value of a cell that is no number."""
    if isinstance(column, np.ndarray):
        return (column.astype(np.float64) * axis.factor).astype(np.float32)
    try:
        number = np.array(["nan" if c.lower() in MISSING else c for c in column], dtype=np.str_).astype(np.float64)
    except ValueError:
        i = next(i for i, c in enumerate(column) if c.lower() not in MISSING and not is_number(c))
        name = table.names[axis.column] or str(axis.column + 1)
        raise bad(path, f"line {table.lines[i]}, column {name!r}: {column[i][:40]!r} is not a number") from None
    return (number * axis.factor).astype(np.float32)


def rate_hz(sensor: Sensor) -> float:
    """Rows a second of the axis with most rows: of the usual distance between its neighbours."""
    known = max((np.flatnonzero(np.isfinite(sensor.values[:, i])) for i in range(len(sensor.axes))), key=len)
    steps = np.diff(sensor.time_ns[known])
    return float(1e9 / np.median(steps)) if len(steps) else 0.0


def align(
    sensor: Sensor,
    at_ns: I64,
    *,
    axes: Sequence[str],
    max_gap_ns: int,
    offset_ns: int = 0,
    drift_ppm: float = 0.0,
    mean_ns: int = 0,
    where: str = "",
) -> Aligned:
    """Values of `axes` (T,M) at the video times `at_ns` (T,): linear between the neighbouring rows that have the axis.

    Video time = sensor time + offset_ns, and drift_ppm more for each time since the sensor's first row (its clock is slow where the
    drift is above 0). mean_ns above 0: the mean over so long a stretch around the time, in place of the value there. NaN before the
    axis' first and after its last measured row, and between neighbours more
    than max_gap_ns apart; an axis that the sensor lacks is NaN. ok (T,): every axis is known.
    Raises ClipError (imu_no_overlap) where no time of `at_ns` lies inside the sensor's.

    >>> s = Sensor(np.array([0, 10]), np.array([[1.0], [3.0]], np.float32), ("ax",))
    >>> align(s, np.array([0, 5, 11]), axes=("ax",), max_gap_ns=10).values.ravel().tolist()
    [1.0, 2.0, nan]
    """
    asked = _sensor_times(sensor, np.asarray(at_ns, np.int64) - offset_ns, drift_ppm)
    if len(asked) and (asked.max() < sensor.time_ns[0] or asked.min() > sensor.time_ns[-1]):
        raise _no_overlap(sensor, asked, offset_ns, where)
    values = np.full((len(asked), len(axes)), np.nan, np.float32)
    for column, name in enumerate(axes):
        if name in sensor.axes:
            of = _averaged if mean_ns else _interpolated
            values[:, column] = of(sensor.time_ns, sensor.values[:, sensor.axes.index(name)], asked, max_gap_ns, mean_ns)
    return Aligned(values, np.isfinite(values).all(axis=1).reshape(len(asked)))


def aligned(clip: Clip, sensor: Sensor, source_ns: I64, axes: Sequence[str], how: Imu, interval_ns: Fraction) -> Aligned:
    """Values of a manifest row at its frames' times, as the row (offset, drift) and the recipe (gap, filter) say."""
    return align(
        sensor,
        source_ns,
        axes=axes,
        max_gap_ns=round(how.max_gap_ms * 1e6),
        offset_ns=clip.imu_offset_ns,
        drift_ppm=clip.imu_drift_ppm,
        mean_ns=round(interval_ns) if how.filter == "mean" else 0,
        where=clip.imu,
    )


def _sensor_times(sensor: Sensor, asked: I64, drift_ppm: float) -> I64:
    """Times on the sensor's own clock of times on a clock that runs (1 + drift) as fast and agrees with it at the first row."""
    if not drift_ppm:
        return asked
    since = asked - sensor.time_ns[0]
    ahead = np.rint(since * (drift_ppm * 1e-6 / (1 + drift_ppm * 1e-6))).astype(np.int64)
    return np.asarray(asked - ahead, np.int64)


def _averaged(time_ns: I64, value: F32, asked: I64, max_gap_ns: int, mean_ns: int) -> F32:
    """Mean of the line through the rows over [t - mean/2, t + mean/2], shortened on both sides alike where the rows or a gap end."""
    known = np.isfinite(value)
    time_ns, value = time_ns[known], value[known]
    out = _interpolated(time_ns, value, asked, max_gap_ns)
    inside = np.flatnonzero(np.isfinite(out))
    if not len(inside):
        return out
    begins = np.concatenate([[True], np.diff(time_ns) > max_gap_ns])  # rows that begin a stretch without gaps
    stretch = np.cumsum(begins) - 1
    first, last = time_ns[begins], time_ns[np.concatenate([begins[1:], [True]])]
    t = asked[inside]
    of = stretch[np.clip(np.searchsorted(time_ns, t, side="right") - 1, 0, len(time_ns) - 1)]
    half = np.minimum(np.minimum(mean_ns // 2, t - first[of]), last[of] - t)
    wide = half > 0
    area = np.concatenate([[0.0], np.cumsum((value[1:].astype(np.float64) + value[:-1]) / 2 * np.diff(time_ns))])
    low, high = (_area_until(time_ns, value, area, at[wide]) for at in (t - half, t + half))
    out[inside[wide]] = ((high - low) / (2 * half[wide])).astype(np.float32)
    return out


def _area_until(time_ns: I64, value: F32, area: np.ndarray, at: I64) -> np.ndarray:
    """Integral of the line through the rows from the first row until each time, which lies between the first and the last."""
    left = np.clip(np.searchsorted(time_ns, at, side="right") - 1, 0, len(time_ns) - 2)
    past = (at - time_ns[left]).astype(np.float64)
    slope = (value[left + 1].astype(np.float64) - value[left]) / (time_ns[left + 1] - time_ns[left])
    return np.asarray(area[left] + past * (value[left] + slope * past / 2))


def _interpolated(time_ns: I64, value: F32, asked: I64, max_gap_ns: int, _: int = 0) -> F32:
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
