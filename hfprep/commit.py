"""The commit record of one shard: its small columns and what became of its clips, in bytes that cannot be half believed.

A record is magic, xxh3_128 of all that follows, header length, header (JSON), then the columns' bytes one after the other. A torn or
altered record does not decode, so its shard counts as not written.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from .records import ClipOutcome

MAGIC = b"hfprep-commit-1\n"


@dataclass(frozen=True, slots=True, eq=False)
class Commit:
    """One shard as committed: shard_bytes is the length of its file, columns name -> array of n rows, `digest` included."""

    split: str
    index: int
    shard_bytes: int
    columns: dict[str, NDArray[Any]]
    outcomes: tuple[ClipOutcome, ...]

    def __repr__(self) -> str:
        return f"Commit({self.split}/{self.index}, {len(self.columns)} columns, {len(self.outcomes)} clips)"


def encode(commit: Commit) -> bytes:
    """The record's bytes."""
    header = {
        "split": commit.split,
        "index": commit.index,
        "shard_bytes": commit.shard_bytes,
        "columns": [[name, values.dtype.str, list(values.shape)] for name, values in commit.columns.items()],
        "outcomes": [asdict(outcome) for outcome in commit.outcomes],
    }
    text = json.dumps(header).encode()
    body = b"".join((len(text).to_bytes(8, "little"), text, *(np.ascontiguousarray(v).tobytes() for v in commit.columns.values())))
    return MAGIC + xxhash.xxh3_128_digest(body) + body


def decode(data: bytes) -> Commit:
    """Back from bytes; raises ValueError where they are not a whole record."""
    body = memoryview(data)[len(MAGIC) + 16 :]
    if data[: len(MAGIC)] != MAGIC or data[len(MAGIC) : len(MAGIC) + 16] != xxhash.xxh3_128_digest(body):
        raise ValueError("not a whole commit record")
    start = 8 + int.from_bytes(body[:8], "little")
    header = json.loads(bytes(body[8:start]))
    columns: dict[str, NDArray[Any]] = {}
    for name, dtype, shape in header["columns"]:
        count = int(np.prod(shape))
        columns[name] = np.frombuffer(body, dtype, count, start).reshape(shape)
        start += columns[name].nbytes
    outcomes = tuple(ClipOutcome(**{**o, "notes": tuple(o["notes"]), "centers": tuple(o["centers"])}) for o in header["outcomes"])
    return Commit(header["split"], header["index"], header["shard_bytes"], columns, outcomes)


def merge(a: ClipOutcome, b: ClipOutcome) -> ClipOutcome:
    """One outcome of a clip that two shards tell of (a: the earlier shard): the first that was prepared, any error, all notes."""
    base = a if a.n_ticks or not b.n_ticks else b
    fault = a if a.error else b
    notes = tuple(dict.fromkeys((*a.notes, *b.notes)))
    return replace(base, clip=a.clip, error=fault.error, error_kind=fault.error_kind, notes=notes)
