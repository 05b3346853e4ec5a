"""The orientation that a camera wrote into a picture (EXIF tag 0x0112), as a display matrix.

PyAV gives no side data of a picture that carries EXIF, and with it not the matrix that FFmpeg made of it.
"""

from __future__ import annotations

import struct

HEAD = 1 << 18  # EXIF stands in the first segments of a file
ORIENTATION, SHORT = 0x0112, 3
# (a, b, c, d) of x' = a x + c y, y' = b x + d y for the tag's values 1 to 8 (EXIF 2.3, table 6)
_TURNS = ((1, 0, 0, 1), (-1, 0, 0, 1), (-1, 0, 0, -1), (1, 0, 0, -1), (0, 1, 1, 0), (0, 1, -1, 0), (0, -1, -1, 0), (0, -1, 1, 0))


def display_matrix(path: str) -> bytes | None:
    """Nine int32 as FFmpeg writes them, or None where the file says nothing (or what it says makes no sense)."""
    with open(path, "rb") as file:  # noqa: PTH123 - names hold any character
        head = file.read(HEAD)
    value = _orientation(_tiff(head))
    if not 1 <= value <= 8:
        return None
    a, b, c, d = (number << 16 for number in _TURNS[value - 1])
    return struct.pack("<9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)


def _tiff(head: bytes) -> bytes:
    """The TIFF block that holds the tags: a TIFF file itself, JPEG's APP1, PNG's eXIf, WebP's EXIF; empty where there is none."""
    if head[:4] in (b"II*\0", b"MM\0*"):
        return head
    for mark, skip in ((b"Exif\0\0", 6), (b"eXIf", 4), (b"EXIF", 8)):
        at = head.find(mark)
        if at >= 0 and head[at + skip : at + skip + 4] in (b"II*\0", b"MM\0*"):
            return head[at + skip :]
    return b""


def _orientation(tiff: bytes) -> int:
    order = "<" if tiff[:2] == b"II" else ">"
    try:
        (first,) = struct.unpack_from(f"{order}I", tiff, 4)
        (count,) = struct.unpack_from(f"{order}H", tiff, first)
        for entry in range(min(count, 512)):
            tag, kind, _, value = struct.unpack_from(f"{order}HHIH", tiff, first + 2 + 12 * entry)
            if (tag, kind) == (ORIENTATION, SHORT):
                return int(value)
    except struct.error:
        pass
    return 0
