"""The first line of a manifest: its separator and what its columns are."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from . import tables
from .errors import ManifestError

WANTED = ("video", "label")
KNOWN = ("video", "label", "start", "end", "split", "group", "imu", "imu_offset_ms", "imu_drift_ppm", "imu_layout", "id")
# Names that people give these columns. They are suggested, never taken: "class" may well be something else.
_SYNONYMS = {
    "video": "path file filename file_name filepath file_path video_path video_file video_name videos clip clip_path src source url name",
    "label": "labels class class_name classname category action activity target y tag annotation gesture verb verb_class",
    "start": "start_time starttime begin begin_time start_s start_sec start_seconds start_timestamp t_start t0 from start_ms start_frame",
    "end": "end_time endtime stop stop_time end_s end_sec end_seconds stop_timestamp t_end t1 to end_ms end_frame stop_frame",
    "split": "subset set partition fold usage phase",
    "group": "subject subject_id participant participant_id person person_id performer user actor recording session",
    "imu": "imu_path imu_file sensor sensors sensor_file sensor_path",
    "imu_offset_ms": "imu_offset offset_ms imu_offset_s",
    "imu_drift_ppm": "imu_drift drift drift_ppm",
    "imu_layout": "imu_format sensor_layout",
}
_OF = {word: column for column, words in _SYNONYMS.items() for word in words.split()}
_MEDIA = re.compile(r"\.(mp4|avi|mov|mkv|webm|mpe?g|m4v|ts|wmv|flv|3gp|ogv|gif)\s*\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Header:
    """separator; line: index of the first line after the header; columns: known name -> cell index; extra: (name, cell index) of
    the others; width: number of cells; min_width: cells up to and with the last required column; warnings."""

    separator: str
    line: int
    columns: dict[str, int]
    extra: tuple[tuple[str, int], ...]
    width: int
    min_width: int
    warnings: tuple[str, ...]


def find(lines: Sequence[str], where: str) -> Header:
    """Header of a manifest's lines; raises ManifestError (no_rows where there is nothing, bad_columns naming wanted and found)."""
    at = next((i for i, line in enumerate(lines) if line.strip(" \t\r\n,;|\ufeff")), None)
    if at is None:
        raise ManifestError("the manifest is empty", where=where, remedy="add a line 'video,label' and one row a clip", kind="no_rows")
    separators: tuple[str, ...] = tables.SEPARATORS
    declared = re.match(r"\ufeff?sep=(.)\s*\Z", lines[at])  # how Excel tells itself the separator
    if declared:
        separators, at = (str(declared.group(1)),), at + 1
    separator, cells, after = _best(lines, at, separators)
    names = [c.casefold() for c in cells]
    columns = {name: names.index(name) for name in KNOWN if name in names}
    missing = [name for name in WANTED if name not in columns]
    if missing:
        raise _bad_columns(missing, cells, where)
    twice = [name for name in KNOWN if names.count(name) > 1]
    if twice:
        what = f"more than one column named {', '.join(map(repr, twice))}"
        raise ManifestError(what, where=where, remedy="rename all but one", kind="bad_columns")
    extra, warnings = _extra(cells, columns)
    return Header(separator, after, columns, extra, len(cells), max(columns[w] for w in WANTED) + 1, warnings)


def _best(lines: Sequence[str], at: int, separators: Sequence[str]) -> tuple[str, list[str], int]:
    """The separator that finds most of the known names in the header line, then most columns, then the order of SEPARATORS."""
    best: tuple[tuple[int, int], str, list[str], int] | None = None
    for separator in separators:
        found = tables.records(lines, separator, skip=at)
        _, record = next(found, (0, []))
        cells = tables.clean(record) if isinstance(record, list) else []
        line = next(found, (len(lines) + 1, []))[0] - 1
        names = [c.casefold() for c in cells]
        score = (sum(name in names for name in KNOWN), len(cells))
        if best is None or score > best[0]:
            best = (score, separator, cells, line)
    assert best is not None
    return best[1:]


def _extra(cells: Sequence[str], columns: dict[str, int]) -> tuple[tuple[tuple[str, int], ...], tuple[str, ...]]:
    taken = set(columns.values())
    used = set(columns)
    extra: list[tuple[str, int]] = []
    warnings: list[str] = []
    for i, cell in enumerate(cells):
        if i in taken or not cell:
            continue
        name = cell
        while name.casefold() in used:
            name += "_2"
        used.add(name.casefold())
        if name != cell:
            warnings.append(f"column {cell!r} is there twice: the second one is carried as {name!r}")
        extra.append((name, i))
        meant = _meant(cell)
        if meant and meant not in columns:
            unit = " (in seconds)" if meant in ("start", "end") else ""
            warnings.append(f"column {cell!r} is carried along but not used: did you mean {meant!r}{unit}?")
    return tuple(extra), tuple(warnings)


def _meant(cell: str) -> str:
    """The known column that a name may stand for, or ""."""
    name = re.sub(r"[\s-]+", "_", cell.casefold())
    if name in _OF:
        return _OF[name]
    near = difflib.get_close_matches(name, [k for k in KNOWN if len(k) > 2], n=1, cutoff=0.8)
    return near[0] if near else ""


def _bad_columns(missing: Sequence[str], cells: Sequence[str], where: str) -> ManifestError:
    what = f"no column named {' and none named '.join(map(repr, missing))}; found: {', '.join(map(repr, cells))[:300]}"
    if any(_MEDIA.search(c) for c in cells):
        remedy = "the first line looks like a row: put a line with the columns' names ('video,label') above it"
    else:
        guesses = [f"{cell!r} to {want!r}" for want in missing for cell in cells if _meant(cell) == want]
        remedy = f"did you mean to rename {', '.join(guesses)}?" if guesses else f"the manifest needs the columns {', '.join(WANTED)}"
    return ManifestError(what, where=where, remedy=remedy, kind="bad_columns")
