"""Sensor tables as apps and loggers write them: separator, comment lines, header lines, rows with their line numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from . import tables
from .errors import ClipError

Column = list[str] | NDArray[np.generic]  # text as written, or numbers of a binary file

MISSING = {"", "nan", "na", "n/a", "null", "none", "-", "#n/a", "inf", "-inf", "+inf", "infinity", "-infinity"}
DATETIME = re.compile(
    r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})[T _]+(\d{1,2})[:.-](\d{2})(?:[:.-](\d{2})(?:[.,:_](\d+))?)?\s*(Z|UTC|[+-]\d{2}:?\d{2})?", re.ASCII
)

_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d{1,3})?\Z", re.ASCII)
_COMMENT = ("#", "%", "//")
_LOOK = 50  # lines that decide the separator


@dataclass(frozen=True, slots=True, eq=False)
class SensorTable:
    """A table of R rows: names ("" where there is none), one column each, the line (or row) number of each row, comment lines."""

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    lines: Sequence[int]
    comments: tuple[str, ...] = ()


def bad(path: str, what: str, remedy: str = "correct the sensor file") -> ClipError:
    """The error of a sensor file that cannot be used."""
    return ClipError(what, where=path, remedy=remedy, kind="imu_bad")


def is_number(cell: str) -> bool:
    """Whether a cell holds a decimal number, with a point or a comma."""
    return bool(_NUMBER.match(cell))


def read(path: str, limit: int | None = None) -> SensorTable:
    """Read a text table, or its first `limit` rows; raises ClipError: imu_missing, imu_bad naming line and value.

    The last line of text before the numbers names the columns, also where it begins with a comment mark; lines of other text
    before it count as comments.
    """
    try:
        text, _ = tables.decode(tables.read_bytes(path, ClipError, "imu_missing"))
    except tables.NotText as fault:
        raise bad(path, f"this looks like {fault.args[0]}", fault.args[1]) from None
    written = tables.lines_of(text)
    separator = _separator([line for line in written[: 4 * _LOOK] if line.strip() and not line.startswith(_COMMENT)][:_LOOK])
    header, comments, rows, lines = _split(path, written, separator, limit)
    width = max([len(header), *(len(row) for row in rows)], default=0)
    if not header and not rows:
        raise bad(path, "no columns of values")
    names = (*header, *[""] * (width - len(header)))
    cells = [[row[i] if i < len(row) else "" for row in rows] for i in range(width)]
    if separator != ",":
        cells = [[c.replace(",", ".") if is_number(c) else c for c in column] for column in cells]
    return SensorTable(names, tuple(cells), lines, tuple(comments))


def _split(path: str, written: list[str], separator: str, limit: int | None) -> tuple[list[str], list[str], list[list[str]], list[int]]:
    header: list[str] = []
    comments: list[str] = []
    rows: list[list[str]] = []
    lines: list[int] = []
    for line, cells in _records(written, separator):
        if isinstance(cells, str):
            raise bad(path, f"line {line}: {cells}", "correct its quotes")
        if not any(cells):
            continue
        if cells[0].startswith(_COMMENT):
            mark = next(m for m in _COMMENT if cells[0].startswith(m))
            named = [cells[0][len(mark) :].strip(), *cells[1:]]
            comments.append(" ".join(c for c in named if c))
            if not rows:
                header = [c for c in named if c] if len(named) > 2 else header
        elif not rows and not _is_data(cells):
            comments += [" ".join(header)] if header else []
            header = cells
        else:
            if header and len(cells) > len(header) and any(cells[len(header) :]):
                if rows or not _from_comment(header, comments):
                    raise bad(path, f"line {line} has {len(cells)} cells for {len(header)} columns")
                header = []
            rows.append(cells)
            lines.append(line)
            if limit is not None and len(rows) >= limit:
                break
    if rows and _from_comment(header, comments) and len(header) != len(rows[0]):
        header = []  # a remark that has nothing to do with the columns
    return header, comments, rows, lines


def _from_comment(header: list[str], comments: list[str]) -> bool:
    return bool(comments) and " ".join(c for c in header if c) == comments[-1]


def _is_data(cells: Sequence[str]) -> bool:
    """Rows hold a number or a date somewhere, or nothing but marks of missing values."""
    told = [c for c in cells if c.lower() not in MISSING]
    return not told or (any(is_number(c) for c in told) and sum(is_number(c) or bool(DATETIME.match(c)) for c in told) * 3 >= len(told))


def _records(written: list[str], separator: str) -> Iterator[tuple[int, list[str] | str]]:
    if separator:
        for line, record in tables.records(written, separator):
            yield line, tables.clean(record) if isinstance(record, list) else record
    else:
        for line, text in enumerate(written, 1):
            yield line, text.strip(tables.AROUND).split()


def _separator(lines: Sequence[str]) -> str:
    """What stands between the cells of most lines ("" = spaces): a comma last, as it may be a decimal point."""
    for separator in ("\t", ";", "|", ","):
        widths = Counter(line.count(separator) for line in lines)
        if sum(n for count, n in widths.items() if count) * 5 >= 4 * max(1, len(lines)):
            return separator
    return "" if lines and sum(len(line.split()) > 1 for line in lines) * 5 >= 4 * len(lines) else ","


def date_ns(cells: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Nanoseconds since 1970 of dates with clock times (R,), taken as UTC where they name no zone, and which are dates (R,)."""
    found = [DATETIME.match(c) for c in cells]
    return np.array([_date_ns(m) for m in found], np.int64), np.array([m is not None and _date_ns(m) != _NO_DATE for m in found], bool)


_NO_DATE = -(2**63)


def _date_ns(match: re.Match[str] | None) -> int:
    if match is None:
        return _NO_DATE
    year, month, day, hour, minute, second, part, zone = match.groups()
    try:
        whole = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second or 0), tzinfo=UTC)
    except ValueError:
        return _NO_DATE
    seconds = (whole - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    if zone and zone[0] in "+-":
        ahead = int(zone[1:3]) * 3600 + int(zone[-2:]) * 60
        seconds -= ahead if zone[0] == "+" else -ahead
    return seconds * 10**9 + int((part or "0")[:9].ljust(9, "0"))
