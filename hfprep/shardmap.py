"""Pixels of a split read from its shard files: each shard's index parsed once, chunks copied or decoded straight into their place."""

from __future__ import annotations

import json
import mmap
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import arrays, shards
from .errors import StoreError
from .layout import Layout
from .records import I64, U8

MAX_OPEN = 1024  # mapped shards at once; a map needs no file handle


@dataclass(frozen=True, slots=True, eq=False)
class _Shard:
    data: NDArray[np.uint8]  # the whole file, mapped
    index: I64  # (capacity,2) offset and length


class ShardMap:
    """The shard files of one split. Holds maps, no file handles, locks or threads: safe under fork, and pickled as its path.

    An array whose metadata is not as hfprep writes it is read through zarr, one call a window, with the same result.
    """

    def __init__(self, folder: Path, split: str, layout: Layout) -> None:
        self._folder, self._split, self._layout = folder, split, layout
        self._coder: Any = None  # None: raw
        self._open: OrderedDict[int, _Shard] = OrderedDict()
        self._foreign: Any = None  # the zarr array where zarr must read
        self._checked = False

    def __reduce__(self) -> tuple[object, ...]:
        return ShardMap, (self._folder, self._split, self._layout)

    def read(self, rows: I64, out: U8, first: I64, step: int) -> None:
        """Frames first[i], first[i] + step, ... of window rows[i] into out[i], u8 (n,t,H,W,3)."""
        if not self._checked:
            self._check()
        span = (out.shape[1] - 1) * step + 1
        if self._foreign is not None:
            for position, (row, start) in enumerate(zip(rows.tolist(), first.tolist())):
                out[position] = self._foreign[row, start : start + span : step]
            return
        per_shard, shape = self._layout.windows_per_shard, self._layout.frames(self._split).shape[1:]
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

    def _check(self) -> None:
        place = self._folder / self._split / "frames"
        try:
            known = arrays.frames_codec(self._layout.frames(self._split), json.loads((place / "zarr.json").read_bytes()))
            if known is None:
                import zarr  # half a second, in every worker process: only where it is needed

                self._foreign = zarr.open_array(place, mode="r", zarr_format=3)
            else:
                self._coder = shards.coder(known)
        except (OSError, ValueError, KeyError, TypeError) as fault:
            raise StoreError(
                f"{self._split}/frames cannot be read: {fault}",
                where=str(self._folder),
                remedy="`hfprep verify` names what is damaged",
                kind="damaged",
            ) from fault
        self._checked = True

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
