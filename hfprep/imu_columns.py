"""Which columns of a sensor table are the time and the axes, in which units: as the recipe says, else from names and numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .imu_clock import unit_by_size
from .imu_table import DATETIME, MISSING, Column, SensorTable, bad, is_number
from .pipeline import ImuFormat

Number = Callable[[str], bool]

_LOOK = 200  # rows looked at to tell what a column holds
_NS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
_TIME_UNITS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("ms", "msec", "millis", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("us", "µs", "μs", "usec", "micros", "microsecond", "microseconds"), "us"),
    **dict.fromkeys(("ns", "nsec", "nanos", "nanosecond", "nanoseconds"), "ns"),
}
_TIME_WORDS = {"t", "ts", "time", "times", "timestamp", "timestamps", "epoch", "epoc", "elapsed", "clock", "datetime", "yyyy"}
# To the units in which stores hold them: m/s^2, rad/s, microtesla.
_DEGREE = math.pi / 180
_FACTORS = {
    "a": {"m/s2": 1.0, "ms-2": 1.0, "g": 9.80665, "gs": 9.80665, "mg": 9.80665e-3},
    "g": {"rad/s": 1.0, "rads-1": 1.0, "deg/s": _DEGREE, "dps": _DEGREE, "°/s": _DEGREE, "mdps": _DEGREE / 1000, "degs-1": _DEGREE},
    "m": {"ut": 1.0, "µt": 1.0, "μt": 1.0, "mt": 1000.0, "nt": 1e-3, "t": 1e6, "g": 100.0, "gauss": 100.0, "mgauss": 0.1},
}
SI = {"a": "m/s2", "g": "rad/s", "m": "uT"}
_KINDS = (  # the first that is found in a name tells the sensor
    ("lin_a", re.compile(r"lin(ear)?[ _]*acc|user[ _]*acc")),
    ("grav_", re.compile(r"gravity")),
    ("a", re.compile(r"acc(el|l)?(?![a-z])|acc(elero|elera|el[ _x-z]|el$)|(?<![a-z])a rs s")),
    ("g", re.compile(r"gyr|ang(ular)?[ _]*(vel|rate|speed)|rotation[ _]*rate|(?<![a-z])w rs s")),
    ("m", re.compile(r"magnet|(?<![a-z])mag(?![a-z]{2})")),
)
_SHORT = re.compile(r"(acc|accel|a|gyr|gyro|g|w|mag|m)[ .]*([xyz])\Z")
_SHORT_KIND = {"acc": "a", "accel": "a", "a": "a", "gyr": "g", "gyro": "g", "g": "g", "w": "g", "mag": "m", "m": "m"}
_LETTER = re.compile(r"(?:(?<![a-z])([xyz])(?![a-z])|([xyz])\Z)")


@dataclass(frozen=True, slots=True)
class Axis:
    """A column of values: its index, name in the store, unit after `factor` ("" = unknown, as in the file)."""

    column: int
    name: str
    unit: str = ""
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Choice:
    """What a table's columns are: times (index, unit) that add up, empty where `rate_hz` counts rows; axes; words for a person."""

    times: tuple[tuple[int, str], ...]
    axes: tuple[Axis, ...]
    told: str = ""


def choose(table: SensorTable, path: str, how: ImuFormat) -> Choice:
    """What the columns are; raises ClipError (imu_bad) with the columns found where they cannot be told.

    A file with a column `t` is in our own plain form: t in seconds, every other column an axis by its own name.
    """
    times = _times(table, path, how)
    taken = {column for column, _ in times}
    ours = any(table.names[column].casefold() == "t" for column in taken) and not _bare(table.names)
    plain = ours and not how.columns and not _nameless(table, taken)
    axes = _axes(table, path, how, taken, plain)
    if not axes:
        raise bad(path, "no columns of values", _how_to(table))
    if len({axis.name for axis in axes}) < len(axes):
        twice = next(a.name for a in axes if sum(a.name == b.name for b in axes) > 1)
        raise bad(path, f"two columns mean axis {twice!r}", "name the right ones in the recipe: [imu] columns")
    return Choice(times, axes, "" if plain and not how.time else _told(table, times, axes, how))


def _times(table: SensorTable, path: str, how: ImuFormat) -> tuple[tuple[int, str], ...]:
    if how.rate_hz:
        return ()
    if how.time:
        units = how.unit if isinstance(how.unit, tuple) else (how.unit,) * len(how.time)
        found = [_named(table, name, path, "time") for name in how.time]
        return tuple((c, _unit(table, c) if unit == "auto" else unit) for c, unit in zip(found, units))
    candidates = [c for c, name in enumerate(table.names) if _is_time(name) and _holds_time(table.columns[c])]
    if not candidates and not any(table.names):
        candidates = _running(table)
    if not candidates:
        raise bad(path, f"no time column 't'; found: {_found(table)}", _how_to(table))
    best = min(candidates, key=lambda c: _preference(table, c))
    return ((best, _unit(table, best) if how.unit == "auto" else _one(how.unit)),)


def _one(unit: str | tuple[str, ...]) -> str:
    return unit if isinstance(unit, str) else unit[0]


def _named(table: SensorTable, name: str, path: str, what: str) -> int:
    """A column by its name, or by its number from 1 where no name is like it."""
    names = [n.casefold() for n in table.names]
    if name.casefold() in names:
        return names.index(name.casefold())
    if name.isdecimal() and 1 <= int(name) <= len(names):
        return int(name) - 1
    raise bad(path, f"no column {name!r} for {what}; found: {_found(table)}", "correct [imu] in the recipe or the layout file")


def _is_time(name: str) -> bool:
    words = re.findall(r"[a-zµμ]+", name.casefold())
    return bool(words) and (
        bool(_TIME_WORDS & set(words)) or any(w.startswith(("timestamp", "sampletime")) for w in words) or _only_unit(name)
    )


def _only_unit(name: str) -> bool:
    return name.casefold().strip() in _TIME_UNITS


def _head(column: Column) -> list[str]:
    return [str(cell) for cell in column[:_LOOK]]


def _holds_time(column: Column) -> bool:
    cells = [c for c in _head(column) if c.lower() not in MISSING]
    return not len(column) or any(is_number(c) or DATETIME.match(c) for c in cells)


def _numbers(column: Column) -> list[float]:
    return [float(c) for c in _head(column) if is_number(c)]


def _running(table: SensorTable) -> list[int]:
    """Columns of a table without names that only grow; of several the ones that do not count rows."""
    growing = {}
    for c, column in enumerate(table.columns):
        values = np.array(_numbers(column))
        if len(values) > 2 and len(values) == len(_head(column)) and (np.diff(values) > 0).all():
            growing[c] = bool((np.diff(values) == 1).all())
    return [c for c, counts in growing.items() if not counts]


def _preference(table: SensorTable, column: int) -> tuple[bool, bool, int]:
    """Our own name first, then times since the start, since 1970, dates; then as the columns stand."""
    values = _numbers(table.columns[column])
    first = values[0] * _NS[_unit(table, column)] if values and _unit(table, column) in _NS else math.inf
    return table.names[column].casefold() != "t", first > 1e17, (column if values else len(table.names) + column)


def _unit(table: SensorTable, column: int) -> str:
    """Unit of a time column: as its name says, else by the size of its numbers and of their steps."""
    name = table.names[column].casefold()
    cells = _head(table.columns[column])
    if not any(is_number(c) for c in cells) and any(DATETIME.match(c) for c in cells):
        return "datetime"
    for word in reversed(re.findall(r"[a-zµμ]+", name)):
        if word in _TIME_UNITS and word != "t":
            return _TIME_UNITS[word]
    values = np.array(_numbers(table.columns[column]))
    by_size = unit_by_size(float(values[0])) if len(values) else "s"
    steps = np.abs(np.diff(values))
    steps = steps[steps > 0]
    if name == "t" or not len(steps) or (values != np.rint(values)).any():
        return by_size
    step = float(np.median(steps))
    if 2e4 <= step * _NS[by_size] <= 1e9:
        return by_size
    return next((unit for unit in ("ms", "us", "ns") if 2e4 <= step * _NS[unit] <= 1e9), by_size)


def _axes(table: SensorTable, path: str, how: ImuFormat, taken: set[int], plain: bool) -> tuple[Axis, ...]:
    if how.columns:
        return tuple(_axis(_named(table, str(c), path, name), name, _unit_of(table.names[_named(table, str(c), path, name)]), how)
                     for name, c in how.columns.items())  # fmt: skip
    left = [
        c
        for c in range(len(table.names))
        if c not in taken and (table.names[c] or _nameless(table, taken)) and _may_hold_values(table, c, plain)
    ]
    if plain:
        return tuple(_axis(c, table.names[c], _unit_of(table.names[c]), how) for c in left)
    known = [(c, _recognised(table, c, path)) for c in left]
    named = [_axis(c, name, _unit_of(table.names[c]), how) for c, name in known if name]
    if named:
        return tuple(named)
    if not _nameless(table, taken):
        return tuple(_axis(c, table.names[c], "", how) for c in left)
    return _unnamed(table, path, how, left)


def _nameless(table: SensorTable, taken: set[int]) -> bool:
    return not any(name for c, name in enumerate(table.names) if c not in taken)


def _may_hold_values(table: SensorTable, column: int, plain: bool) -> bool:
    """Columns of text and of nothing are not axes; in our own plain form a word among numbers is an error, not text."""
    cells = _head(table.columns[column])
    numbers = sum(is_number(c) for c in cells)
    return plain or numbers * 2 >= len(cells) or (numbers > 0 and all(is_number(c) or c.lower() in MISSING for c in cells))


def _unnamed(table: SensorTable, path: str, how: ImuFormat, left: Sequence[int]) -> tuple[Axis, ...]:
    """Three columns without names, where the file's name or a word in its rows says of which sensor."""
    words = " ".join({c.casefold() for column in table.columns for c in _head(column)[:1] if not is_number(c)})
    kind = _kind(re.sub(r"[_\W]+", " ", words)) or _kind(_stem(path))
    left = [c for c in left if not _counts(table.columns[c])]
    if not left:
        return ()
    if len(left) != 3 or not kind:
        what = f"line {table.lines[0]}: {len(table.names)} columns without names: which axes they are cannot be told"
        raise bad(path, what, _how_to(table))
    return tuple(_axis(c, f"{kind}{letter}", "", how) for c, letter in zip(left, "xyz"))


def _counts(column: Column) -> bool:
    values = np.array(_numbers(column))
    return len(values) > 2 and bool((np.diff(values) == 1).all())


def _recognised(table: SensorTable, column: int, path: str) -> str:
    """The axis' name in the store (ax, gy, lin_az ...) of a column's name, or ""."""
    name = table.names[column].casefold()
    bare = re.sub(r"[\(\[].*", "", name)
    words = re.sub(r"[\W_]+", " ", bare).strip()
    if name.endswith("y") and f"{name[:-1]}p" in (n.casefold() for n in table.names):  # roll, pitch, yaw
        return ""
    short = _SHORT.match(words)
    if short:
        return _SHORT_KIND[short.group(1)] + short.group(2)
    letter = _LETTER.search(words)
    if letter is None:
        return ""
    kind = _kind(words)
    if not kind and words in ("x", "y", "z", "x axis", "y axis", "z axis"):
        unit = _unit_of(name)
        kind = _kind(_stem(path)) or next((k for k in "agm" if unit in _FACTORS[k]), "")
    return f"{kind}{letter.group(1) or letter.group(2)}" if kind else ""


def _bare(names: Sequence[str]) -> bool:
    """Whether the axes are called x, y, z, so that something else must say of which sensor."""
    return {"x", "y", "z"} <= {n.casefold() for n in names}


def _kind(words: str) -> str:
    return next((kind for kind, pattern in _KINDS if pattern.search(words)), "")


def _stem(path: str) -> str:
    return re.sub(r"[\W_]+", " ", Path(path).stem.casefold())


def _unit_of(name: str) -> str:
    """The unit in brackets behind a column's name, as the tables of factors spell it."""
    found = re.search(r"[\(\[]([^\)\]]*)[\)\]]\s*\Z", name.casefold())
    return re.sub(r"[\s^]|\*\*", "", found.group(1)).replace("²", "2") if found else ""


def _axis(column: int, name: str, unit: str, how: ImuFormat) -> Axis:
    """An axis in the store's unit: m/s2, rad/s or uT where the file's own unit is known."""
    kind = "a" if name.startswith(("lin_a", "grav_")) else name[:1]
    if not re.fullmatch(r"(a|g|m|lin_a|grav_)[xyz]", name):
        return Axis(column, name, how.units.get(name, unit))
    given = how.units.get(name, how.units.get({"a": "acc", "g": "gyro", "m": "mag"}[kind], ""))
    unit = re.sub(r"[\s^]|\*\*", "", given.casefold()).replace("²", "2") or unit
    factor = _FACTORS[kind].get(unit)
    return Axis(column, name, unit) if factor is None else Axis(column, name, SI[kind], factor)


def _told(table: SensorTable, times: Sequence[tuple[int, str]], axes: Sequence[Axis], how: ImuFormat) -> str:
    def name(column: int) -> str:
        return repr(table.names[column]) if table.names[column] else f"column {column + 1}"

    time = " + ".join(f"{name(c)} ({unit})" for c, unit in times) or f"rows at {how.rate_hz:g} Hz"
    by = [f"{a.name} = {name(a.column)}" + (f" ({a.unit}{_scaled(a)})" if a.unit else "") for a in axes]
    left = [n for c, n in enumerate(table.names) if n and c not in {*(t for t, _ in times), *(a.column for a in axes)}]
    return f"time = {time}; {', '.join(by)}" + (f"; not read: {', '.join(map(repr, left))}"[:300] if left else "")


def _scaled(axis: Axis) -> str:
    return "" if axis.factor == 1 else f", file x {axis.factor:.6g}"


def _found(table: SensorTable) -> str:
    return ", ".join(map(repr, table.names))[:200] if any(table.names) else f"{len(table.names)} columns without names"


def _how_to(table: SensorTable) -> str:
    """What to write in the recipe; the rate that a comment names where there are no times."""
    rate = next((m.group(1) for c in table.comments if "rate" in c.casefold() and (m := re.search(r"([\d.]+)\s*Hz", c))), "")
    if rate:
        return (
            f"a comment names {rate} rows a second: if rows are evenly apart from the video's first frame on, give [imu] rate_hz = {rate}"
        )
    first = next((n for n in table.names if n), "1")
    return (
        f'say which columns they are in the recipe: [imu] time = "{first}", columns = {{ ax = "..." }}; or rate_hz where there is no time'
    )
