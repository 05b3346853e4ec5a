"""Timelines kept on disk: one small file a video, so that a second run need not look into the videos again.

A file is one line of JSON, then the arrays as little-endian int64, then nothing; a checksum stands in the line. No pickle: a
cache folder that others can write must not be able to run anything.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zlib
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from .errors import ClipError
from .records import Timeline

FORMAT = 1
_ARRAYS = ("pts_ns", "pts", "packets", "keyframes")
_PLAIN = ("stream", "clock", "trusted", "reordered", "width", "height", "rotation", "codec", "container", "fps", "lead", "missing")
# Faults that lie in the bytes of the file; others (permission, ...) may be gone the next time.
_LASTING = frozenset({"not_a_video", "no_video_stream", "no_frames", "no_timestamps", "bad_timestamps", "truncated"})


def to_bytes(found: Timeline | ClipError, key: str) -> bytes:
    """A timeline (or the fault found in its place) under a key, as the bytes of one cache file."""
    if isinstance(found, ClipError):
        facts: dict[str, object] = {"what": found.what, "where": found.where, "remedy": found.remedy, "kind": found.kind}
        body = b""
    else:
        facts = {name: getattr(found, name) for name in _PLAIN}
        facts |= {"path": found.path, "time_base": str(found.time_base), "notes": list(found.notes)}
        arrays = [np.ascontiguousarray(getattr(found, name), "<i8") for name in _ARRAYS]
        facts["lengths"] = [len(array) for array in arrays]
        body = b"".join(array.tobytes() for array in arrays)
    head = json.dumps({"key": key, "check": zlib.crc32(body), "facts": facts})
    return f"{zlib.crc32(head.encode()):08x} {head}\n".encode() + body


def from_bytes(data: bytes, key: str) -> Timeline | ClipError | None:
    """What to_bytes was given, or None where the bytes are damaged or were written under another key."""
    line, _, body = data.partition(b"\n")
    check, _, head = line.partition(b" ")
    try:
        if int(check, 16) != zlib.crc32(head):
            return None
        entry = json.loads(head)
        facts = entry["facts"]
        if entry["key"] != key or entry["check"] != zlib.crc32(body):
            return None
        if "kind" in facts:
            return ClipError(facts["what"], where=facts["where"], remedy=facts["remedy"], kind=facts["kind"])
        ends = np.cumsum(facts["lengths"])[:-1]
        values: dict[str, Any] = {name: facts[name] for name in _PLAIN}
        values |= zip(_ARRAYS, np.split(np.frombuffer(body, "<i8").astype(np.int64), ends))
        return Timeline(path=facts["path"], time_base=Fraction(facts["time_base"]), notes=tuple(facts["notes"]), **values)
    except (ValueError, KeyError, TypeError):
        return None


@dataclass(frozen=True, slots=True)
class Entry:
    """The place of one video's timeline: file name, and the key that must stand in it."""

    file: Path
    key: str

    def read(self) -> Timeline | ClipError | None:
        """What is known, or None."""
        try:
            return from_bytes(self.file.read_bytes(), self.key)
        except OSError:
            return None

    def write(self, found: Timeline | ClipError) -> None:
        """Keep it for the next run. Written beside and renamed, so that readers in other processes never see half a file."""
        if isinstance(found, ClipError) and found.kind not in _LASTING:
            return
        beside = self.file.with_suffix(f".{os.getpid()}.{id(found)}.part")
        with contextlib.suppress(OSError):  # a full or read-only disk: the next run looks into the video again
            try:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                beside.write_bytes(to_bytes(found, self.key))
                beside.replace(self.file)
            except OSError:
                beside.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Folder:
    """A cache folder; versions: of the libraries that found the timelines, part of every key."""

    folder: str
    versions: str

    def entry(self, path: str) -> Entry:
        """The entry of the video at path as it is now; raises OSError where there is no such file."""
        whole = str(Path(path).absolute())
        now = Path(path).stat()
        key = f"{FORMAT};{self.versions};{path};{whole};{now.st_size};{now.st_mtime_ns}"
        name = hashlib.blake2b(os.fsencode(path) + b"\0" + os.fsencode(whole), digest_size=16).hexdigest()
        return Entry(Path(self.folder) / name[:2] / f"{name[2:]}.timeline", key)
