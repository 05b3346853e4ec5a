"""Is a file as long as it says? A cut download opens and plays, and its index promises frames that are not there.

Plain reading of the outermost sizes in RIFF (AVI), Matroska/WebM and MP4/MOV; no decoder.
"""

from __future__ import annotations

import os
from typing import BinaryIO

_EBML, _SEGMENT = 0x1A45DFA3, 0x18538067
_BOXES = (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"moof", b"styp", b"sidx", b"uuid")


def is_cut(path: str) -> bool:
    """True where the file ends before the end that its own outermost sizes state; False where they fit or say nothing.

    Raises OSError where the file cannot be read.
    """
    with open(path, "rb") as file:  # noqa: PTH123 - a path here may hold bytes that pathlib would keep, but plain open is enough
        size = os.fstat(file.fileno()).st_size
        head = file.read(12)
        file.seek(0)
        if head[:4] == b"RIFF":
            promised = int.from_bytes(head[4:8], "little")
            return 0 < promised < 0xFFFFFFFF and promised + 8 > size + 1  # one byte of padding is often left out
        if int.from_bytes(head[:4], "big") == _EBML:
            return _matroska_end(file, size) > size
        if head[4:8] in _BOXES:
            return _boxes_end(file, size) > size
    return False


def _matroska_end(file: BinaryIO, size: int) -> int:
    """Where the segment ends by its own size; 0 where it states none (a live recording)."""
    for _ in range(3):  # EBML header, perhaps a void, segment
        element, _ = _number(file, keep_marker=True)
        length, unknown = _number(file, keep_marker=False)
        if element == _SEGMENT:
            return 0 if unknown else file.tell() + length
        if length > size:  # cut, or damaged: a seek far beyond the end is refused
            return file.tell() + length
        file.seek(length, os.SEEK_CUR)
    return 0


def _number(file: BinaryIO, *, keep_marker: bool) -> tuple[int, bool]:
    """One EBML variable-length number; the flag says that all its bits are ones ("unknown")."""
    first = file.read(1)
    if not first or not first[0]:
        return 0, True
    length = 9 - first[0].bit_length()
    rest = file.read(length - 1)
    value = int.from_bytes(first + rest, "big")
    bits = value & ((1 << 7 * length) - 1)
    return (value if keep_marker else bits), bits == (1 << 7 * length) - 1


def _boxes_end(file: BinaryIO, size: int) -> int:
    """End of the last top-level box that begins inside the file."""
    at = 0
    while at + 8 <= size:
        file.seek(at)
        head = file.read(16)
        length, header = int.from_bytes(head[:4], "big"), 8
        if length == 1:
            length, header = int.from_bytes(head[8:16], "big"), 16
        if length == 0:  # to the end of the file
            return size
        if length < header or not head[4:8].isascii():  # not a box: bytes left behind the last one
            return at
        at += length
    return at
