"""Manifests of folders: a folder a class, as most published sets lie, with recordings kept together."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import listing, pictures, tables
from .errors import ManifestError
from .pipeline import Label
from .records import SPLITS

_SPLIT_FOLDERS = {**{s: s for s in SPLITS}, "training": "train", "valid": "val", "validation": "val", "testing": "test"}
_SEPARATOR = Label().separator
_NUMBERED = re.compile(r".*?(\d+)\Z")


@dataclass(frozen=True, slots=True)
class FolderManifest:
    """Rows of a manifest made from a folder: (video relative to the manifest, label, split, group, fps); notes say what was done."""

    rows: tuple[tuple[str, str, str, str, str], ...]
    notes: tuple[str, ...]

    def text(self) -> str:
        """The manifest as CSV; columns that hold nothing are left out."""
        return listing.text(("video", "label", "split", "group", "fps"), self.rows)

    def write(self, path: Path) -> None:
        """Write the manifest, whole or not at all; raises ManifestError (io_error)."""
        listing.write(path, self.text())


def from_folder(folder: str | Path, manifest: str | Path, *, fps: str = "") -> FolderManifest:
    """Rows for every video below `folder`, for a manifest that will lie at `manifest` (paths are relative to its folder).

    The label is the folder that holds the video; above it a folder train, val or test gives the split. Names as in UCF101
    (`v_Label_g07_c02.avi`) give label_gNN as group, so that clips of one recording stay in one split. A folder of numbered pictures
    is one video where `fps` says their rate. Links to folders are not followed.
    Raises ManifestError (missing_file, no_rows), ClipError (bad_fps).
    """
    if fps:
        pictures.rate(fps, str(folder))
    root = Path(os.path.abspath(folder))  # noqa: PTH100 - links stay as they are written
    if not root.is_dir():
        raise ManifestError(
            "no such folder", where=str(folder), remedy="give the folder that holds a folder for each class", kind="missing_file"
        )
    base = os.path.dirname(os.path.abspath(manifest))  # noqa: PTH100, PTH120
    rows: list[tuple[str, str, str, str, str]] = []
    seen: Counter[str] = Counter()
    for video, numbered in _videos(root, seen):
        parts = video.relative_to(root).parts
        odd = _odd("/".join(parts))
        if odd:
            seen[f"names with {odd}, which no manifest can hold: left out"] += 1
            continue
        if len(parts) < 2:
            seen["videos directly in the folder, without a class folder: left out"] += 1
            continue
        if numbered and not fps:
            seen["folders of numbered pictures left out: give their rate (fps)"] += 1
            continue
        label, split = _label(parts[:-1])
        label = label.strip(tables.AROUND)  # as the manifest's reader does
        if _SEPARATOR in label:
            seen[f"names of classes with {_SEPARATOR}, which a manifest reads as several classes: left out, rename the folder"] += 1
            continue
        if label.casefold() in _SPLIT_FOLDERS:
            seen[f"videos directly in a folder {label}: taken as a class of that name"] += 1
        rows.append((listing.as_written(video, base), label, split, listing.ucf_group(video.stem), fps if numbered else ""))
    if not rows:
        remedy = "; ".join(seen) or f"put each class' videos ({', '.join(sorted(listing.MEDIA)[:6])}, ...) in a folder of its name"
        raise ManifestError("no videos in folders of classes", where=str(folder), remedy=remedy, kind="no_rows")
    return FolderManifest(tuple(rows), _notes(rows, seen))


def _videos(root: Path, seen: Counter[str]) -> Iterator[tuple[Path, bool]]:
    """(path, is a folder of pictures), sorted by path, hidden ones left out."""
    for where, folders, files in os.walk(root, onerror=None):
        links = [f for f in folders if Path(where, f).is_symlink()]
        if links:
            seen["links to folders: not followed"] += len(links)
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        names = sorted(f for f in files if not f.startswith("."))
        kinds = [name.rpartition(".")[2].casefold() if "." in name else "" for name in names]
        shots = [n for n, k in zip(names, kinds) if k in pictures.SUFFIXES]
        numbered = [n for n in shots if _NUMBERED.match(n.rpartition(".")[0])]
        if len(numbered) > 1 and len(numbered) == len(shots) and not any(k in listing.MEDIA for k in kinds) and Path(where) != root:
            yield Path(where), True
        elif len(numbered) > 1 and Path(where) != root:
            seen["folders whose numbered pictures lie beside other pictures or videos: these pictures left out"] += 1
        for name, kind in zip(names, kinds):
            if kind in listing.MEDIA and not Path(where, name).is_file():
                seen["links that lead nowhere, pipes and devices: left out"] += 1
            elif kind in listing.MEDIA:
                yield Path(where, name), False
            elif kind not in pictures.SUFFIXES:
                seen["files that are no videos: left out"] += 1


def _odd(name: str) -> str:
    """What in a path a text table cannot give back, or ""."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return "bytes that are no UTF-8"
    if any(ord(c) < 32 or c in "\x7f\x85\u2028\u2029\ufeff" for c in name):
        return "line breaks or control characters"
    return "no visible letter" if not all(part.strip(tables.AROUND) for part in name.split("/")) else ""


def _label(folders: tuple[str, ...]) -> tuple[str, str]:
    """Class and split of a video's folders: train/jump -> (jump, train); jump/train -> (jump, train); a/jump -> (jump, "")."""
    splits = [_SPLIT_FOLDERS[f.casefold()] for f in folders if f.casefold() in _SPLIT_FOLDERS]
    names = [f for f in folders if f.casefold() not in _SPLIT_FOLDERS]
    return (names or list(folders))[-1], splits[0] if splits and names else ""


def _notes(rows: list[tuple[str, str, str, str, str]], seen: Counter[str]) -> tuple[str, ...]:
    labels, splits = Counter(r[1] for r in rows), Counter(r[2] for r in rows if r[2])
    groups = {r[3] for r in rows if r[3]}
    notes = [f"{len(rows)} videos in {len(labels)} classes (the name of the folder that holds them)"]
    if splits:
        notes.append(f"splits from folders: {', '.join(f'{name} {splits[name]}' for name in SPLITS if splits[name])}")
    if groups:
        grouped = sum(bool(r[3]) for r in rows)
        notes.append(f"{grouped} names as in UCF101: {len(groups)} groups (gNN) that stay in one split each")
    rated = [r[4] for r in rows if r[4]]
    if rated:
        notes.append(f"{len(rated)} folders of numbered pictures taken as videos of {rated[0]} frames/s")
    notes += [f"{count} {what}" for what, count in seen.items()]
    return tuple(notes)
