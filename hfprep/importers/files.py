"""Rows of an annotation and the files that are there: each row's video found by name, missing ones counted, listed, left out."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from .. import listing, pictures
from ..errors import ManifestError, UsageError
from ..records import SPLITS
from .rows import BAR, Listing, Row

COLUMNS = ("video", "label", "start", "end", "split", "group", "imu", "fps", "caption")
_NAMED = 20  # missing videos named; the JSON names all


@dataclass(frozen=True, slots=True)
class Placed:
    """A manifest made of an annotation: rows in the order of COLUMNS; names of videos that are not there; notes in words."""

    rows: tuple[tuple[str, ...], ...]
    missing: tuple[str, ...]
    notes: tuple[str, ...]

    def text(self) -> str:
        """The manifest as CSV; columns that hold nothing are left out."""
        return listing.text(COLUMNS, self.rows)


class Found:
    """The files of a folder, by name and by name without suffix; folders of pictures count as videos."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(os.path.abspath(folder))  # noqa: PTH100 - links stay as they are written
        self.names: dict[str, list[PurePosixPath]] = {}
        self.stems: dict[str, list[PurePosixPath]] = {}
        self.shots: set[PurePosixPath] = set()
        for where, folders, files in os.walk(self.folder):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            here = PurePosixPath(Path(where).relative_to(self.folder))
            for name in sorted(files):
                stem, _, kind = name.rpartition(".")
                self.names.setdefault(name, []).append(here / name)
                if kind.casefold() in listing.MEDIA:
                    self.stems.setdefault(stem, []).append(here / name)
            if here.name and any(name.rpartition(".")[2].casefold() in pictures.SUFFIXES for name in files):
                self.shots.add(here)
                self.stems.setdefault(here.name, []).append(here)

    def file(self, wanted: str) -> PurePosixPath | None:
        """The file that an annotation names: the one whose path ends most like the name; without its suffix where need be."""
        name = PurePosixPath(wanted)
        at = self.names.get(name.name) or self.stems.get(name.name) or self.stems.get(f"v_{name.name}")
        if not at and name.suffix[1:].casefold() in listing.MEDIA:
            at = self.stems.get(name.stem)
        return max(at, key=lambda path: _alike(path, name)) if at else None


def _alike(path: PurePosixPath, wanted: PurePosixPath) -> int:
    """Folders from the end on that are the same."""
    pairs = zip(reversed(path.parts[:-1]), reversed(wanted.parts[:-1]))
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(path.parts), len(wanted.parts)) - 1)


def place(made: Listing, videos: Path, manifest: Path, fps: str = "", *, keep_missing: bool = False) -> Placed:
    """A manifest that will lie at `manifest` of the rows whose videos lie below folder `videos`.

    fps of folders of pictures; keep_missing: rows of videos that are not there are kept, as if they lay in `videos`.
    Raises ManifestError (no_rows) where no row is left, UsageError (missing_file) where there is no such folder.
    """
    if fps:
        pictures.rate(fps, str(videos))
    if not videos.is_dir():
        raise UsageError("no such folder", where=str(videos), remedy="give the folder of the videos with --videos", kind="missing_file")
    found, base = Found(videos), os.path.dirname(os.path.abspath(manifest))  # noqa: PTH100, PTH120
    rows: list[tuple[str, ...]] = []
    missing: dict[str, None] = {}
    seen: Counter[str] = Counter()
    for row in made.rows:
        at, whole = _video(found, row)
        if at is None and not keep_missing:
            missing[row.cut or row.video] = None
            seen["rows whose video is not there: left out"] += 1
            continue
        if at is None:
            missing[row.cut or row.video] = None
            at = PurePosixPath(row.cut or row.video)
        shots = at in found.shots
        if shots and not fps:
            seen["rows of folders of pictures: left out, give their rate with --fps"] += 1
            continue
        rows.append(_cells(row, at, found, base, seen, cut=whole, fps=fps if shots else ""))
    if not rows:
        raise ManifestError(_nothing(made, missing, seen), where=str(videos), remedy=_remedy(missing), kind="no_rows")
    return Placed(tuple(rows), tuple(missing), _notes(made, rows, missing, seen, keep_missing))


def _video(found: Found, row: Row) -> tuple[PurePosixPath | None, bool]:
    """A row's video, and whether it is cut to the row's span already."""
    if row.cut and (at := found.file(row.cut)):
        return at, True
    at = found.file(row.video)
    return at, bool(row.cut) and at is None


def _cells(row: Row, at: PurePosixPath, found: Found, base: str, seen: Counter[str], *, cut: bool, fps: str) -> tuple[str, ...]:
    imu = ""
    if row.imu:
        sensor = found.file(row.imu)
        imu = listing.as_written(found.folder / sensor, base) if sensor else ""
        seen["rows without their sensor file"] += sensor is None
    start, end = ("", "") if cut else (row.start, row.end)
    group = row.group or listing.ucf_group(at.stem)
    video = listing.as_written(found.folder / at, base)
    return video, BAR.join(row.labels), start, end, row.split, group, imu, fps, row.caption


def _nothing(made: Listing, missing: dict[str, None], seen: Counter[str]) -> str:
    if not made.rows:
        return f"the annotation gives no rows ({'; '.join(made.notes) or 'it is empty'})"
    if missing and not any(count for what, count in seen.items() if "--fps" in what):
        return f"none of the {len(missing)} videos of {len(made.rows)} rows is there (the first is {next(iter(missing))})"
    return "; ".join(f"{count} {what}" for what, count in seen.items() if count)


def _remedy(missing: dict[str, None]) -> str:
    return "give the folder they lie in with --videos, or --keep-missing" if missing else "see `hfprep manifest from --help`"


def _notes(made: Listing, rows: list[tuple[str, ...]], missing: dict[str, None], seen: Counter[str], kept: bool) -> tuple[str, ...]:
    labels = {label for row in rows for label in row[1].split(BAR)}
    splits = Counter(row[4] for row in rows)
    notes = [f"{len(rows)} rows of {len({row[0] for row in rows})} videos in {len(labels)} classes"]
    named = [f"{name} {splits[name]}" for name in SPLITS if splits[name]]
    if named:
        notes.append(f"splits: {', '.join(named)}" + (f"; {splits['']} rows without" if splits[""] else ""))
    groups = {row[5] for row in rows if row[5]}
    if groups:
        notes.append(f"{len(groups)} groups that stay in one split each")
    notes += [f"{count} {what}" for what, count in seen.items() if count]
    if missing:
        first = ", ".join(list(missing)[:_NAMED])
        more = f" and {len(missing) - _NAMED} more (--json names all)" if len(missing) > _NAMED else ""
        notes.append(f"{len(missing)} videos are not there{', their rows are kept' if kept else ''}: {first}{more}")
    return (*notes, *made.notes)
