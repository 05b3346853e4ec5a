"""Pixels of a split read from its shard files: each shard's index parsed once, chunks copied or decoded straight into their place."""

from __future__ import annotations

import mmap
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import shards
from .errors import StoreError
from .layout import Layout
from .records import I64, U8

MAX_OPEN = 1024  # mapped shards at once; a map needs no file handle


@dataclass(frozen=True, slots=True, eq=False)
class _Shard:
    data: NDArray[np.uint8]  # the whole file, mapped
    index: I64  # (capacity,2) offset and length


class ShardMap:
    """The shard files of one split. Holds maps, no file handles, locks or threads: safe under fork, and pickled as its path."""

    def __init__(self, folder: Path, split: str, layout: Layout) -> None:
        self._folder, self._split, self._layout = folder, split, layout
        self._coder = shards.coder(layout.codec)
        self._open: OrderedDict[int, _Shard] = OrderedDict()

    def __reduce__(self) -> tuple[object, ...]:
        return ShardMap, (self._folder, self._split, self._layout)

    def read(self, rows: I64, out: U8, first: I64, step: int) -> None:
        """Frames first[i], first[i] + step, ... of window rows[i] into out[i], u8 (n,t,H,W,3)."""
        per_shard, shape = self._layout.windows_per_shard, self._layout.frames(self._split).shape[1:]
        span = (out.shape[1] - 1) * step + 1
        whole = out.shape[1] == self._layout.length and out.flags.c_contiguous
        scratch = None if self._coder is None or whole else np.empty(shape, np.uint8)
        for position, (row, start) in enumerate(zip(rows.tolist(), first.tolist())):
            chunk = self._chunk(row // per_shard, row % per_shard)
            if self._coder is None:
                out[position] = chunk.reshape(shape)[start : start + span : step]
            elif scratch is None:
                self._decode(chunk, out[position], row)
            else:
                self._decode(chunk, scratch, row)
                out[position] = scratch[start : start + span : step]

    def _decode(self, chunk: NDArray[np.uint8], out: U8, row: int) -> None:
        try:
            self._coder.decode(chunk, out)
        except (RuntimeError, ValueError) as fault:
            raise self._damaged(row // self._layout.windows_per_shard, f"window {row} does not decode: {fault}") from None

    def _chunk(self, index: int, slot: int) -> NDArray[np.uint8]:
        shard = self._open.get(index)
        if shard is None:
            shard = self._map(index)
        offset, length = shard.index[slot]
        if length < 0 or (self._coder is None and length != self._layout.window_bytes):
            raise self._damaged(index, f"window {slot} of it is missing")
        return shard.data[offset : offset + length]

    def _map(self, index: int) -> _Shard:
        path = self._folder / self._layout.shard_key(self._split, index)
        tail = shards.index_bytes(self._layout.windows_per_shard)
        try:
            with path.open("rb") as file:
                data = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
            if len(data) < tail:
                raise ValueError(f"it has only {len(data)} bytes")
            shard = _Shard(data, shards.parse_index(data[-tail:].tobytes(), len(data) - tail))
        except FileNotFoundError:
            raise self._damaged(index, "it is missing") from None
        except OSError as fault:
            raise StoreError(f"{path}: {fault.strerror}", remedy="check the disk and its permissions", kind="io_error") from None
        except ValueError as fault:
            raise self._damaged(index, str(fault)) from None
        while len(self._open) >= MAX_OPEN:
            self._open.popitem(last=False)
        self._open[index] = shard
        return shard

    def _damaged(self, index: int, what: str) -> StoreError:
        return StoreError(
            f"shard {index} of {self._split} is damaged: {what}",
            where=str(self._folder),
            remedy="`hfprep verify` names all that is damaged",
            kind="damaged",
        )

    def __repr__(self) -> Any:
        return f"ShardMap({self._folder}, {self._split}, {len(self._open)} open)"
