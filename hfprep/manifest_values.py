"""What cells of a manifest mean: exact times and split names."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

_PLAIN = re.compile(r"([+-]?)(\d{0,12})(?:\.(\d*))?\Z", re.ASCII)
_SCIENTIFIC = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)[eE][+-]?\d{1,2}\Z", re.ASCII)
_CLOCK = re.compile(r"([+-]?)(?:(\d+):)?(\d+):(\d{1,2})(?:[.,](\d*))?\Z", re.ASCII)
_LIMIT_NS = 2**62  # 146 years: what does not fit int64 after an addition is no time of a video

_SPLITS = {"train": "train", "val": "val", "test": "test"}
_SPELLINGS = {
    "training": "train", "trn": "train", "tr": "train",
    "valid": "val", "validation": "val", "validate": "val", "dev": "val", "development": "val",
    "testing": "test", "tst": "test",
}  # fmt: skip


class BadCell(Exception):  # noqa: N818 - carries a Fault's kind and words, never leaves the reader
    """A row that cannot be kept: a Fault's kind and words."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


@lru_cache(65_536)  # the same few times stand in many rows
def seconds_ns(text: str, column: str, decimal_comma: bool = False) -> int:
    """Whole nanoseconds (floored, exact) of seconds ("1.5", "15e-1") or of a clock time ("0:00:01.5", "00:01,5").

    `decimal_comma`: "1,5" is 1.5 (where cells are not separated by commas). Raises BadCell (bad_row) naming the value.

    >>> seconds_ns("0.1", "start"), seconds_ns("1:02:03.25", "start")
    (100000000, 3723250000000)
    """
    clock = _CLOCK.match(text) if ":" in text else None
    if clock is None:
        return _within(_number_ns(text, 9, column, decimal_comma), text, column)
    sign, hours, minutes, seconds, digits = clock.groups()
    if int(seconds) > 59 or (hours is not None and int(minutes) > 59) or len(hours or minutes) > 9:
        raise BadCell("bad_row", f"{column} {text!r} is no clock time: write h:mm:ss.xx or seconds")
    value = (int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds)) * 10**9 + _padded(digits or "", 9)
    if sign == "-":
        value = -value - (1 if (digits or "")[9:].strip("0") else 0)
    return _within(value, text, column)


def milliseconds_ns(text: str, decimal_comma: bool = False) -> int:
    """Whole nanoseconds of milliseconds, 0 for an empty cell; raises BadCell (bad_row) naming the value."""
    return _within(_number_ns(text, 6, "imu_offset_ms", decimal_comma), text, "imu_offset_ms") if text else 0


def parts_per_million(text: str, decimal_comma: bool = False) -> float:
    """A clock's drift; raises BadCell (bad_row) for what is no number or beyond 10 %, which no clock is."""
    plain = text.replace(",", ".") if decimal_comma else text
    if not (_PLAIN.match(plain) or _SCIENTIFIC.match(plain)) or not any(map(str.isdecimal, plain)):
        raise BadCell("bad_row", f"imu_drift_ppm {text[:80]!r} is not a number: write parts per million")
    if abs(float(plain)) > 100_000:
        raise BadCell("bad_row", f"imu_drift_ppm {text!r} is too large: write parts per million")
    return float(plain)


def split_name(text: str) -> tuple[str, bool]:
    """train, val or test of any usual spelling, and whether the spelling is worth a note; raises BadCell (bad_row)."""
    name = text.casefold()
    if name in _SPLITS:
        return name, False
    if name in _SPELLINGS:
        return _SPELLINGS[name], True
    raise BadCell("bad_row", f"split {text!r} is not known: write train, val or test, or leave it empty")


def _number_ns(text: str, digits: int, column: str, decimal_comma: bool) -> int:
    """A decimal number times 10**digits, floored; by whole numbers only, as float64 cannot hold 0.1."""
    plain = text.replace(",", ".") if decimal_comma and text.count(",") == 1 and "." not in text else text
    match = _PLAIN.match(plain)
    if match and any(match.group(2, 3)):
        sign, whole, part = match.groups()
        value: int = int(whole or 0) * 10**digits + _padded(part or "", digits)
        if sign == "-":
            value = -value - (1 if (part or "")[digits:].strip("0") else 0)
        return value
    if len(plain) <= 64 and _SCIENTIFIC.match(plain):
        scaled = Fraction(plain) * Fraction(10**digits)
        return scaled.numerator // scaled.denominator
    unit = "seconds or h:mm:ss.xx" if digits == 9 else "milliseconds"
    raise BadCell("bad_row", f"{column} {text[:80]!r} is not a number: write {unit}")


def _padded(part: str, digits: int) -> int:
    return int(part[:digits].ljust(digits, "0"))


def _within(value: int, text: str, column: str) -> int:
    if abs(value) >= _LIMIT_NS:
        raise BadCell("bad_row", f"{column} {text!r} is too large: is it in the right unit?")
    return value
