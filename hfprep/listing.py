"""Manifests being made: how a path is written, which files are videos, the table as text, the file whole or not at all."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import re
from collections.abc import Sequence
from pathlib import Path

from . import tables
from .errors import ManifestError

MEDIA = {
    "mp4", "m4v", "mov", "avi", "mkv", "webm", "mpg", "mpeg", "ts", "mts", "m2ts", "wmv", "flv", "3gp", "ogv", "gif", "asf", "vob",
    "mxf", "y4m",
}  # fmt: skip
# UCF101: v_<class>_g<group>_c<clip>; the clips of a group are cut from one recording.
_UCF = re.compile(r"v_(?P<label>.+)_(?P<group>g\d{2,3})_c\d{2,3}\Z", re.IGNORECASE)


def ucf_group(stem: str) -> str:
    """The recording that a clip named as in UCF101 is cut from, or "".

    >>> ucf_group("v_Jump_g07_c02"), ucf_group("jump")
    ('Jump_g07', '')
    """
    ucf = _UCF.match(stem)
    return f"{ucf['label']}_{ucf['group']}" if ucf else ""


def as_written(file: str | os.PathLike[str], base: str) -> str:
    """A file's path as a manifest in folder `base` gives it, so that its reader finds the same file."""
    written = os.path.relpath(file, base)
    if written[0] in "~" + tables.AROUND:  # "~/" would be the home folder, a space would be lost
        written = f"./{written}"
    return f"{written}/." if written[-1] in tables.AROUND else written


def text(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A manifest as CSV; columns after the first two that hold nothing are left out."""
    used = [i for i in range(len(names)) if i < 2 or any(row[i] for row in rows)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([names[i] for i in used])
    writer.writerows([[row[i] for i in used] for row in rows])
    return out.getvalue()


def write(path: Path, content: str) -> None:
    """Write a manifest, whole or not at all; raises ManifestError (io_error)."""
    path = path.resolve()  # a link stays a link
    aside = path.with_name(f".{path.name}.new-{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(content, encoding="utf-8")
        aside.replace(path)
    except OSError as fault:
        with contextlib.suppress(OSError):
            aside.unlink()
        what = f"cannot be written: {fault.strerror}"
        raise ManifestError(what, where=str(path), remedy="give another place with -o", kind="io_error") from fault
