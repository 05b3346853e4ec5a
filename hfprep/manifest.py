"""Manifest files: one row a clip. Whole-file faults raise; a bad row is a Fault and the others are kept."""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote

from . import labels, tables
from . import manifest_header as header
from .errors import ManifestError
from .manifest_values import BadCell, milliseconds_ns, parts_per_million, seconds_ns, split_name
from .records import Clip, Fault, Manifest

MAX_CLASSES = 32_767  # a store holds the label as int16
_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def read(path: str | Path, separator: str = "|") -> Manifest:
    """Read a manifest: columns `video,label` and optionally `start`, `end`, `split`, `group`, `id`, `imu`, `imu_offset_ms`,
    `imu_drift_ppm`, `imu_layout`; others go to `extra`.

    separator stands between the labels of a row that has several; "" = every label is one name (the recipe's `label.separator`).
    Times are seconds or clock times (h:mm:ss.xx) and become exact whole nanoseconds. Paths count from the manifest's folder.
    Whether the files exist is not looked at here. Raises ManifestError for faults of the whole file (missing_file, not_a_file,
    permission, unreadable, not_text, bad_columns, no_rows, too_many_classes); bad rows and warnings are in `faults`.
    """
    where = str(path)
    data = tables.read_bytes(where, ManifestError)
    try:
        text, encoding = tables.decode(data)
    except tables.NotText as fault:
        what, remedy = fault.args
        raise ManifestError(f"this looks like {what}, not like a text table", where=where, remedy=remedy, kind="not_text") from None
    lines = tables.lines_of(text)
    head = header.find(lines, where)
    rows = _Rows(head, os.path.dirname(os.path.abspath(where)), separator)  # noqa: PTH100, PTH120 - text, as it is, links not resolved
    if encoding:
        rows.note(f"read as {encoding}, which is a guess: save it as UTF-8 if names look wrong", "encoding")
    for message in head.warnings:
        rows.note(message, "columns")
    for line, cells in tables.records(lines, head.separator, skip=head.line, width=head.min_width):
        rows.add(line, cells)
    return rows.finish(where)


class _Rows:
    """Collects rows in file order, then makes clips of them; what needs all rows (ids, duplicates, leaks) comes at the end."""

    def __init__(self, head: header.Header, folder: str, separator: str) -> None:
        self.head, self.folder, self.separator = head, folder, separator
        self.several: list[Clip] = []
        self.rows: list[tuple[int, int, list[str]]] = []  # row, line, cells
        self.faults: list[Fault] = []
        self.labels: set[str] = set()
        self.row = 0
        self.decimal_comma = head.separator != ","
        self.index = {name: head.columns.get(name, -1) for name in header.KNOWN}
        self.split_notes: set[str] = set()
        self.paths: dict[str, str] = {"": ""}

    def note(self, message: str, kind: str, row: int = 0, line: int = 0, video: str = "", label: str = "") -> None:
        self.faults.append(Fault(row, line, video, kind, message, label, warning=True))

    def add(self, line: int, record: list[str] | str) -> None:
        if isinstance(record, str):
            self.row += 1
            self.faults.append(Fault(self.row, line, "", "bad_row", f"{record}: correct its quotes"))
            return
        cells = tables.clean(record)
        if not any(cells):  # a blank line, or one of separators only
            return
        self.row += 1
        width = self.head.width
        if len(cells) > width:
            over = next((c for c in cells[width:] if c), "")
            if over:
                what = f"{len(cells)} cells for {width} columns (one too many: {over[:80]!r})"
                self.faults.append(
                    Fault(self.row, line, cells[self.index["video"]], "bad_row", f"{what}: quote cells that hold the separator")
                )
                return
            del cells[width:]
        cells += [""] * (width + 1 - len(cells))  # short rows filled up, and at index -1 what an absent column holds
        self.rows.append((self.row, line, cells))

    def clips(self) -> list[Clip]:
        """A clip of each row that makes sense; the others become faults."""
        ids = _unique_ids([(cells[self.index["id"]], cells[self.index["video"]], row) for row, _, cells in self.rows])
        made: list[Clip] = []
        for name, (row, line, cells) in zip(ids, self.rows):
            try:
                made.append(self.clip(row, line, cells, name))
            except BadCell as bad:
                label = cells[self.index["label"]]
                if label and "\0" not in label:  # so that the classes' numbers do not change when the row is corrected
                    self.labels.update(labels.names(label, self.separator))
                self.faults.append(Fault(row, line, cells[self.index["video"]], bad.kind, bad.message, label))
        self.rows.clear()
        return made

    def clip(self, row: int, line: int, cells: list[str], name: str | int) -> Clip:
        at = self.index
        video, label = cells[at["video"]], cells[at["label"]]
        if not video:
            raise BadCell("bad_row", "no video: give the file's path")
        if "\0" in video or "\0" in label:
            raise BadCell("bad_row", "it holds a NUL character: save the manifest again as text")
        names = labels.names(label, self.separator)
        if not names:
            seen = f"label {label!r} names none" if label else "no label"
            raise BadCell("bad_label", f"{seen}: give one or take the row out")
        if isinstance(name, int):
            raise BadCell("bad_row", f"id {cells[at['id']]!r} is that of row {name}, too: give each row its own")
        start, end = self.span(cells[at["start"]], cells[at["end"]])
        split = self.split(row, line, cells[at["split"]]) if cells[at["split"]] else ""
        offset = milliseconds_ns(cells[at["imu_offset_ms"]], self.decimal_comma) if cells[at["imu_offset_ms"]] else 0
        extra = tuple([(column, cells[i]) for column, i in self.head.extra])
        path, imu, group = self.absolute(video), self.sensors(cells[at["imu"]]), cells[at["group"]] or _plain(video)
        drift = parts_per_million(cells[at["imu_drift_ppm"]], self.decimal_comma) if cells[at["imu_drift_ppm"]] else 0.0
        layout = self.absolute(cells[at["imu_layout"]])
        self.labels.update(names)
        if len(names) == 1:
            return Clip(row, line, name, path, names[0], split, group, start, end, imu, offset, extra, (), layout, drift)
        label = self.separator.join(names)
        made = Clip(row, line, name, path, label, split, group, start, end, imu, offset, extra, names, layout, drift)
        self.several.append(made)
        return made

    def span(self, start: str, end: str) -> tuple[int, int | None]:
        first = seconds_ns(start, "start", self.decimal_comma) if start else 0
        last = seconds_ns(end, "end", self.decimal_comma) if end else None
        if first < 0:  # cutting it would move the row's ticks, and shift what is counted from its start
            raise BadCell("bad_time_range", f"start {start} lies before the video begins: write 0 for its first frame")
        if last is not None and last <= first:
            raise BadCell("bad_time_range", f"end {end} is not after start {start or 0}: correct the times")
        return first, last

    def split(self, row: int, line: int, written: str) -> str:
        name, unusual = split_name(written)
        if unusual and written not in self.split_notes:
            self.split_notes.add(written)
            self.note(f"split {written!r} is taken as {name!r}", "split_name", row, line)
        return name

    def absolute(self, written: str) -> str:
        known = self.paths.get(written)
        if known is None:
            known = self.paths[written] = _absolute(written, self.folder)
        return known

    def sensors(self, written: str) -> str:
        """Sensor files of a row: several, of different rates, stand with "|" between them."""
        return "|".join([self.absolute(part.strip()) for part in written.split("|")]) if "|" in written else self.absolute(written)

    def finish(self, where: str) -> Manifest:
        if not self.row:
            raise ManifestError("no rows below the column names", where=where, remedy="add one row a clip", kind="no_rows")
        clips = self._without_duplicates(self.clips())
        if len(self.labels) > MAX_CLASSES:
            what = f"column 'label' holds {len(self.labels)} different names"
            raise ManifestError(
                what, where=where, remedy=f"a store holds at most {MAX_CLASSES} classes: is it the right column?", kind="too_many_classes"
            )
        self._tell_several(len(clips))
        self._leaks(clips)
        for names in _look_alikes(self.labels):
            self.note(f"labels {', '.join(map(repr, names))} differ only in case or spaces: they stay different classes", "similar_labels")
        self.faults.sort(key=lambda f: f.row)
        return Manifest(where, tuple(clips), tuple(sorted(self.labels)), tuple(self.faults))

    def _tell_several(self, clips: int) -> None:
        """A bar in a label means several labels; who has it in a name should learn that here."""
        if self.several:
            first, mark = self.several[0], self.separator
            what = f"{first.label!r} is read as {len(first.names)} labels ({', '.join(first.names)})"
            what += f", {len(self.several)} of {clips} rows have several: windows then carry a set of classes"
            how = f"where {mark!r} belongs to a name, build with --set label.separator="
            self.note(f"{what}; {how}", "several_labels", first.row, first.line, first.video, first.label)

    def _without_duplicates(self, clips: list[Clip]) -> list[Clip]:
        """Rows that say the same twice are at fault; rows of the same stretch that say different things are kept, with a warning."""
        kept: list[Clip] = []
        stretches: dict[tuple[str, int, int | None], list[Clip]] = {}
        real: dict[str, str] = {}
        for c in clips:
            if c.video not in real:  # "a/../b" may pass through a link: only then ask the disk
                real[c.video] = os.path.realpath(c.video) if ".." in c.video else c.video
            same = stretches.setdefault((real[c.video], c.start_ns, c.end_ns), [])
            if same:
                twin = next((s for s in same if _content(s) == _content(c)), None)
                if twin is not None:
                    message = f"{c.video}: says the same as row {twin.row} (line {twin.line}): left out"
                    self.faults.append(Fault(c.row, c.line, c.video, "duplicate_row", message, c.label))
                    continue
                other = next((s for s in same if s.label != c.label), None)
                what = f"with label {other.label!r}, here {c.label!r}" if other else "with other cells"
                self.note(
                    f"same stretch as row {(other or same[0]).row} {what}: both kept", "same_stretch", c.row, c.line, c.video, c.label
                )
            same.append(c)
            kept.append(c)
        return kept

    def _leaks(self, clips: Iterable[Clip]) -> None:
        first: dict[str, Clip] = {}
        told: set[str] = set()
        for c in clips:
            if not c.split:
                continue
            other = first.setdefault(c.group, c)
            if other.split != c.split and c.group not in told:
                told.add(c.group)
                message = f"group {c.group!r} is in {other.split} (row {other.row}) and in {c.split}: scores will be too good"
                self.note(message, "leak", c.row, c.line, c.video, c.label)


def _content(c: Clip) -> tuple[object, ...]:
    return c.label, c.split, c.group, c.imu, c.imu_offset_ns, c.imu_drift_ppm, c.imu_layout, c.extra


def _plain(video: str) -> str:
    """A path as written, without "./" and doubled slashes: one group for one spelling of a file, wherever the folder lies."""
    return video if _REMOTE.match(video) else os.path.normpath(video)


def _absolute(written: str, folder: str) -> str:
    if written.lower().startswith("file:///"):
        written = unquote(written[7:])
    elif _REMOTE.match(written):
        return written
    elif written.startswith("~/"):
        written = os.path.expanduser(written)  # noqa: PTH111
    path = os.path.join(folder, written)  # noqa: PTH118 - pathlib takes four times as long
    if "\\" in written and not os.path.lexists(path):
        path = os.path.join(folder, written.replace("\\", "/"))  # noqa: PTH118
    return path if ".." in path else os.path.normpath(path)


def _unique_ids(rows: Sequence[tuple[str, str, int]]) -> list[str | int]:
    """Ids of (given id or "", video, row): as given, else the file's stem, with "-<row>" where several rows have that stem;
    the number of the first row that has it where a given one is repeated. All rows count, so that ids stay when one is corrected."""
    stems = [_stem(video) if not given else "" for given, video, _ in rows]
    count = Counter(stems)
    first: dict[str, int] = {}
    for given, _, row in rows:
        if given:
            first.setdefault(given, row)
    ids: list[str | int] = []
    for (given, _, row), stem in zip(rows, stems):
        if given:
            ids.append(given if first[given] == row else first[given])
            continue
        name = stem if count[stem] == 1 else f"{stem}-{row}"
        while name in first:
            name = f"{name}-{row}"
        first[name] = row
        ids.append(name)
    return ids


def _stem(video: str) -> str:
    name = video.rsplit("/", 1)[-1]
    return name.rpartition(".")[0] or name or "clip"


def _look_alikes(labels: Iterable[str]) -> list[list[str]]:
    same: dict[str, list[str]] = {}
    for label in sorted(labels):
        key = " ".join(re.sub(r"[\s_-]+", " ", unicodedata.normalize("NFKC", label)).casefold().split())
        same.setdefault(key, []).append(label)
    return [names for names in same.values() if len(names) > 1]
