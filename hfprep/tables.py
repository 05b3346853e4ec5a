"""Text tables as people save them: any encoding, separator, quoting and line end, with the line of every record."""

from __future__ import annotations

import csv
import io
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from .errors import HfprepError

SEPARATORS = (",", ";", "\t", "|")

_BOMS = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
# What a file that is no text begins with, its name, and how to make text of it.
_NOT_TEXT = (
    (b"PK\x03\x04", "a spreadsheet or zip file", "export it as CSV"),
    (b"\xd0\xcf\x11\xe0", "an old spreadsheet file", "export it as CSV"),
    (b"PAR1", "a Parquet file", "write it as CSV"),
    (b"\x1f\x8b", "a gzip file", "unpack it"),
    (b"%PDF", "a PDF file", "export the table as CSV"),
    (b"SQLite format 3", "a database", "export the table as CSV"),
)
# Spaces of any kind, and the invisible byte order mark and zero-width characters of cells that were pasted together.
AROUND = " \t\n\r\f\v\xa0\u2002\u2003\u2009\u202f\u3000\ufeff\u200b\u2060"


class NotText(ValueError):  # noqa: N818 - a reason, turned into the caller's own error
    """The bytes are no text table; `args` are (what it is, what to do)."""


def read_bytes(path: str, error: type[HfprepError], kind: str = "missing_file", head: int = -1) -> bytes:
    """Bytes of a regular file, or its first `head`.

    Raises `error`, of kind `kind` where the file is missing, else not_a_file, permission or unreadable.
    """
    file = Path(path)
    try:
        mode = file.stat().st_mode
        if not stat.S_ISREG(mode):
            what = "is a folder" if stat.S_ISDIR(mode) else "is not a regular file"  # reading a pipe could wait for ever
            raise error(what, where=path, remedy="give a file", kind="not_a_file")
        with file.open("rb") as stream:
            return stream.read(head)
    except FileNotFoundError:
        raise error("no such file", where=path, remedy="check the path", kind=kind) from None
    except PermissionError:
        raise error("may not be read", where=path, remedy="check the file's permissions", kind="permission") from None
    except (OSError, ValueError) as fault:  # ValueError: a NUL character in the path
        raise error(f"cannot be read ({fault})", where=repr(path), remedy="check the path", kind="unreadable") from None


def decode(data: bytes) -> tuple[str, str]:
    """Text of a table's bytes, and the encoding where it is not UTF-8 and had to be guessed ("" otherwise).

    A byte order mark decides; without one it is UTF-8, else UTF-16 (where every second byte is 0), else Windows-1252.
    Raises NotText for spreadsheets, Parquet, archives and other binary content.
    """
    for magic, what, remedy in _NOT_TEXT:
        if data.startswith(magic):
            raise NotText(what, remedy)
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            try:
                return data.decode(encoding), ""
            except UnicodeDecodeError:
                raise NotText(f"damaged text (it says it is {encoding.removesuffix('-sig').upper()})", "save it again as UTF-8") from None
    zeros = data[:4096].count(0)
    if zeros:
        return _without_bom(data, zeros)
    try:
        return data.decode("utf-8"), ""
    except UnicodeDecodeError:
        pass
    try:
        return data.decode("cp1252"), "Windows-1252"
    except UnicodeDecodeError:  # five bytes are not defined there
        return data.decode("latin-1"), "Latin-1"


def _without_bom(data: bytes, zeros: int) -> tuple[str, str]:
    head = data[:4096]
    if zeros * 4 >= len(head):
        encoding = "utf-16-le" if head[1::2].count(0) > head[0::2].count(0) else "utf-16-be"
        try:
            return data.decode(encoding), encoding.upper()
        except UnicodeDecodeError:
            pass
    elif zeros * 50 < len(head):  # a few NULs in a text: the rows that hold them are at fault, not the file
        try:
            return data.decode("utf-8"), ""
        except UnicodeDecodeError:
            pass
    raise NotText("binary content", "give a text file (CSV)")


def lines_of(text: str) -> list[str]:
    """Lines with LF, CR LF or CR ends alike (not the other characters that str.splitlines takes for line ends)."""
    return list(io.StringIO(text, newline=None))


def records(lines: Sequence[str], separator: str, *, skip: int = 0, width: int = 0) -> Iterator[tuple[int, list[str] | str]]:
    """(line number from 1, cells) of each record from line index `skip` on; a reason (str) in place of cells that cannot be read.

    A quote that is never closed would swallow all rows up to the next one: such a record, and one that runs over several
    lines and still has fewer than `width` cells, is given up on its first line and reading goes on at the next line.
    """
    start = skip
    while start < len(lines):
        reader = csv.reader(map(lines.__getitem__, range(start, len(lines))), delimiter=separator, strict=True, skipinitialspace=True)
        first = start
        try:
            for cells in reader:
                if start + reader.line_num > first + 1 and len(cells) < width:
                    raise csv.Error("unclosed quote")
                yield first + 1, cells
                first = start + reader.line_num
            return
        except csv.Error as fault:
            yield first + 1, _single(lines[first], separator, str(fault))
            start = first + 1


def _single(line: str, separator: str, fault: str) -> list[str] | str:
    """Cells of one line that strict reading refuses, where its quotes are closed on it (`"a.mp4" ,sit`), or the reason."""
    if "field larger" in fault:
        return f"a cell holds more than {csv.field_size_limit()} characters"
    try:
        return next(csv.reader([line], delimiter=separator, strict=True, skipinitialspace=True), [])
    except csv.Error as alone:
        if "end of data" in str(alone):
            return "a quote is opened and not closed"
    return next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])


def clean(cells: Sequence[str]) -> list[str]:
    """Cells without spaces and invisible characters around them."""
    return [c.strip(AROUND) for c in cells]
