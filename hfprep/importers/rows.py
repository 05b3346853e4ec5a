"""What an importer gives: rows as a published annotation has them, before any file is looked for."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from .. import tables
from ..errors import ManifestError, UsageError

_SPLIT_WORDS = (("train", "train"), ("val", "val"), ("test", "test"))
BAR = "|"  # between the labels of a row, as manifests are read by default


@dataclass(frozen=True, slots=True)
class Row:
    """One annotated stretch.

    video    name or path as the annotation has it, with or without a suffix
    labels   the classes of the stretch
    start, end   seconds as text, "" = the file's own
    cut      name of a file that holds just this stretch, taken before `video` where it is there
    imu      name of a sensor file
    caption  words of the annotation that are no class
    """

    video: str
    labels: tuple[str, ...]
    start: str = ""
    end: str = ""
    split: str = ""
    group: str = ""
    cut: str = ""
    imu: str = ""
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows of an annotation, and what was done or left out, in words."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What an annotation does not say itself.

    labels   file with the names of numbered classes, "" = one beside the annotation, else the numbers themselves
    fps      frames a second of folders of pictures, and of annotations that count in frames
    split    split of the rows where neither file nor rows say it
    form     layout of a list, where it cannot be told from the file (mmaction: offset, rawvideo)
    target   with EPIC-KITCHENS and Ego4D what the class is: verb, noun or action (both)
    fold     which of several official splits
    """

    labels: str = ""
    fps: str = ""
    split: str = ""
    form: str = ""
    target: str = "verb"
    fold: int = 1


class Collected:
    """Rows being collected: what cannot be a row is counted by its reason."""

    def __init__(self) -> None:
        self.rows: dict[Row, None] = {}
        self.left: Counter[str] = Counter()
        self.notes: list[str] = []

    def add(self, row: Row) -> None:
        """Take a row, or count why not: no label, a bar in a label, no span, said before."""
        labels = tuple(dict.fromkeys(clean for label in row.labels if (clean := " ".join(label.split()))))
        if not labels:
            self.left["rows without a label: left out"] += 1
        elif any(BAR in label for label in labels):
            self.left[f"rows whose label holds {BAR}, which a manifest reads as several: left out"] += 1
        elif row.end and Decimal(row.end) <= Decimal(row.start or "0"):
            self.left["rows that end before they begin: left out"] += 1
        elif (taken := _with_labels(row, labels)) in self.rows:
            self.left["rows that say the same as another: left out"] += 1
        else:
            self.rows[taken] = None

    def done(self) -> Listing:
        return Listing(tuple(self.rows), (*self.notes, *(f"{count} {what}" for what, count in self.left.items())))


def _with_labels(row: Row, labels: tuple[str, ...]) -> Row:
    return Row(row.video, labels, row.start, row.end, row.split, row.group, row.cut, row.imu, row.caption)


def text_of(path: Path) -> str:
    """Text of an annotation file; raises ManifestError (missing_file, not_text, ...)."""
    try:
        return tables.decode(tables.read_bytes(str(path), ManifestError))[0]
    except tables.NotText as fault:
        raise ManifestError(f"this looks like {fault.args[0]}", where=str(path), remedy=fault.args[1], kind="not_text") from None


def lines_of(path: Path) -> list[str]:
    """Its lines without ends and outer spaces; empty ones left out."""
    return [line.strip(tables.AROUND) for line in text_of(path).splitlines() if line.strip(tables.AROUND)]


def table_of(path: Path, *needed: str) -> Iterator[dict[str, str]]:
    """Rows of a CSV file with a header, by column; raises ManifestError (bad_columns) where a needed column is not there."""
    lines = tables.lines_of(text_of(path))
    reader = csv.DictReader(lines, delimiter=";" if lines and lines[0].count(";") > lines[0].count(",") else ",")
    missing = [name for name in needed if name not in (reader.fieldnames or ())]
    if missing:
        found = ", ".join(reader.fieldnames or ())[:200]
        what = f"no column {' and no column '.join(missing)}; found: {found}"
        raise ManifestError(what, where=str(path), remedy="is it the right kind of annotation?", kind="bad_columns")
    for row in reader:
        yield {name: (value or "").strip() for name, value in row.items() if isinstance(name, str) and not isinstance(value, list)}


def json_of(path: Path) -> Any:
    """A JSON file, numbers with a point as exact decimals; raises ManifestError (bad_json)."""
    try:
        return json.loads(text_of(path), parse_float=Decimal)
    except json.JSONDecodeError as fault:
        raise ManifestError(f"is no JSON: {fault}", where=str(path), remedy="fetch the file again", kind="bad_json") from None


def wrong(path: Path, what: str, remedy: str) -> ManifestError:
    """The fault of a file that is not what its kind says."""
    return ManifestError(what, where=str(path), remedy=remedy, kind="bad_annotation")


def seconds(value: object, where: Path) -> str:
    """A time of an annotation as plain seconds; raises ManifestError."""
    try:
        number = Decimal(str(value))
        if number.is_finite():
            return format(max(number, Decimal(0)), "f")
    except ArithmeticError:
        pass
    raise wrong(where, f"{value!r} is no time in seconds", "is it the right kind of annotation?")


def frame_seconds(frame: int, rate: Fraction) -> str:
    """Time of a frame number counted from 0, in seconds, floored to the nanosecond as time stamps of frames are.

    >>> frame_seconds(2, Fraction(30)), frame_seconds(30, Fraction(30))
    ('0.066666666', '1')
    """
    ns = max(0, frame) * 1_000_000_000 * rate.denominator // rate.numerator
    return f"{ns // 10**9}.{ns % 10**9:09d}".rstrip("0").rstrip(".")


def rate_of(options: ImportOptions, default: str, where: Path) -> Fraction:
    """Frames a second of an annotation that counts in frames; raises UsageError where nobody says it."""
    try:
        rate = Fraction(options.fps or default)
        if rate > 0:
            return rate
    except (ValueError, ZeroDivisionError):
        pass
    seen = f"--fps {options.fps!r} is no rate" if options.fps else "it counts in frames and does not say their rate"
    raise UsageError(seen, where=str(where), remedy="give frames a second: --fps 30", kind="bad_fps")


def split_of(path: Path, options: ImportOptions) -> str:
    """The split that the options or a file's name say, or "" (then it is drawn by group)."""
    if options.split:
        return options.split
    name = path.name.casefold()
    return next((split for word, split in _SPLIT_WORDS if word in name), "")


def split_word(word: str) -> str:
    """train, val or test of what annotations call them ("training", "validate", "dev"), "" of anything else."""
    name = word.casefold()
    return next((split for start, split in (*_SPLIT_WORDS, ("dev", "val")) if name.startswith(start)), "")


def class_names(source: Path, options: ImportOptions, beside: Sequence[str]) -> dict[str, str]:
    """Names of numbered classes, by the number's text: of --labels, or of the first file of `beside` that lies by the source.

    Lines `1 Name` and `name id: 3` (pbtxt), one name a line counted from 0, CSV with id and name, JSON name -> number.
    """
    folder = source if source.is_dir() else source.parent
    path = Path(options.labels) if options.labels else next((folder / name for name in beside if (folder / name).is_file()), None)
    return {} if path is None else _names(path)


def _names(path: Path) -> dict[str, str]:
    if path.suffix == ".json":
        return _json_names(path)
    if path.suffix == ".pbtxt":
        found = re.findall(r'name:\s*"([^"]*)"\s*(?:label_)?id:\s*(\d+)', text_of(path))
        return {number: name for name, number in found}
    lines = lines_of(path)
    numbered = [re.match(r"([a-z]?\d+)[\s,;]+(.+)", line) for line in lines]
    if path.suffix == ".csv":
        listed = csv.reader(lines)
        head = [name.casefold() for name in next(listed, [])]
        at = next((head.index(name) for name in ("key", "name", "class") if name in head), 1)
        return {cells[0]: cells[at] for cells in listed if len(cells) > at}
    if all(numbered):
        return {m[1]: m[2] for m in numbered if m}
    return {str(number): line for number, line in enumerate(lines)}


def _json_names(path: Path) -> dict[str, str]:
    table = json_of(path)
    if isinstance(table, list):
        return {str(number): str(name) for number, name in enumerate(table)}
    if not isinstance(table, dict):
        raise wrong(path, "names no classes", "give JSON {name: number} or a list of names")
    return {str(number): str(name) for name, number in table.items()}


def named(number: str, names: dict[str, str], path: Path) -> str:
    """The name of a numbered class; the number itself where no names are known, ManifestError where this one is not among them."""
    if names and number not in names:
        raise wrong(path, f"class {number} is not among the {len(names)} names of classes", "give the right file with --labels")
    return names.get(number, number)


def files_of(source: Path, patterns: Iterable[str]) -> list[Path]:
    """The file itself, or the files of a folder that fit; raises ManifestError (missing_file) where there is none."""
    if source.is_file():
        return [source]
    wanted = list(patterns)
    found = sorted({file for pattern in wanted for file in source.glob(pattern)}) if source.is_dir() else []
    if not found:
        what = f"holds no {' or '.join(wanted)}" if source.is_dir() else "no such file or folder"
        raise ManifestError(what, where=str(source), remedy="give the annotation's file, or its folder", kind="missing_file")
    return found
