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

from . import arrays, jpeg, shards
from .errors import StoreError
from .layout import Layout
from .records import I64, U8

MAX_OPEN = 1024  # mapped shards at once; a map needs no file handle


@dataclass(frozen=True, slots=True, eq=False)
class _Shard:
    data: memoryview  # the whole file, mapped
    spans: list[tuple[int, int]]  # first byte and the one after the last of each unit, (0, -1) where it is missing
    rows: U8 | None  # its units one after the other, where they lie so: raw, as hfprep writes them


class ShardMap:
    """The shard files of one split. Holds maps, no file handles, locks or threads: safe under fork, and pickled as its path.

    An array whose metadata is not as hfprep writes it is read through zarr, one call a window, with the same result.
    """

    def __init__(self, folder: Path, split: str, layout: Layout) -> None:
        self._folder, self._split, self._layout = folder, split, layout
        self._decode: shards.Decode | None = None  # None: raw
        self._open: OrderedDict[int, _Shard] = OrderedDict()
        self._foreign: Any = None  # the zarr array where zarr must read
        self._checked = False
        self._unit = "window" if layout.kind == "windows" else "tick"

    def __reduce__(self) -> tuple[object, ...]:
        return ShardMap, (self._folder, self._split, self._layout)

    def read(self, rows: I64, out: U8, first: I64, step: int) -> None:
        """Frames first[i], first[i] + step, ... of window rows[i] into out[i], u8 (n,t,H,W,3)."""
        if not self._checked:
            self._check()
        span = (out.shape[1] - 1) * step + 1
        per_shard, shape = self._layout.units_per_shard, self._layout.unit_shape
        whole = out.shape[1] == self._layout.length and out.flags.c_contiguous
        scratch = None if whole else np.empty(shape, np.uint8)
        for position, (row, start) in enumerate(zip(rows.tolist(), first.tolist())):
            if self._foreign is not None:
                out[position] = self._foreign[row, start : start + span : step]
                continue
            index, slot = divmod(row, per_shard)
            shard = self._shard(index)
            if shard.rows is not None:
                out[position] = shard.rows[slot, start : start + span : step]
            elif self._decode is jpeg.decode:  # a picture a frame: only those asked for
                self._put(shard, index, slot, out[position], first=start, step=step)
            elif scratch is None:
                self._put(shard, index, slot, out[position])
            else:
                self._put(shard, index, slot, scratch)
                out[position] = scratch[start : start + span : step]

    def read_ticks(self, ticks: I64, out: U8) -> None:
        """Rows ticks[i] of an array of ticks into out[i], u8 (n,t,H,W,3); ticks int64 (n,t)."""
        if not self._checked:
            self._check()
        shard, slot = np.divmod(ticks, self._layout.units_per_shard)
        one = (shard == shard[:, :1]).all(axis=1).tolist()  # a window seldom lies in more than one shard
        for position, index in enumerate(shard[:, 0].tolist()):
            if self._foreign is not None:
                low = int(ticks[position].min())
                out[position] = self._foreign[low : int(ticks[position].max()) + 1][ticks[position] - low]
            elif one[position]:
                self._read_part(index, slot[position], out[position])
            else:
                cuts = np.flatnonzero(np.diff(shard[position])) + 1
                for part, into in zip(np.split(np.arange(ticks.shape[1]), cuts), np.split(out[position], cuts)):
                    self._read_part(int(shard[position, part[0]]), slot[position, part], into)

    def _read_part(self, index: int, slots: I64, out: U8) -> None:
        """Ticks of one shard, in any order."""
        shard = self._shard(index)
        if shard.rows is not None:
            first, n = int(slots[0]), len(slots)
            if np.array_equal(slots, np.arange(first, first + n)):  # one large copy is up to twice as fast as many small ones
                out[...] = shard.rows[first : first + n]
            else:
                np.take(shard.rows, slots, axis=0, out=out, mode="clip")  # "raise" would go through a copy
            return
        before = -1
        for position, slot in enumerate(slots.tolist()):
            if slot == before:  # a clamped end
                out[position] = out[position - 1]
            else:
                self._put(shard, index, slot, out[position])
            before = slot

    def _put(self, shard: _Shard, index: int, slot: int, out: U8, **part: int) -> None:
        """One unit into its place."""
        begin, end = shard.spans[slot]
        if end < begin or (self._decode is None and end - begin != out.nbytes):
            raise self._damaged(index, f"{self._unit} {slot} of it is missing")
        if self._decode is None:
            out[...] = np.frombuffer(shard.data[begin:end], np.uint8).reshape(out.shape)
            return
        try:
            self._decode(shard.data[begin:end], out, **part)
        except (RuntimeError, ValueError) as fault:
            row = index * self._layout.units_per_shard + slot
            raise self._damaged(index, f"{self._unit} {row} does not decode: {fault}") from None

    def _check(self) -> None:
        place = self._folder / self._split / "frames"
        try:
            known = arrays.frames_codec(self._layout.frames(self._split), json.loads((place / "zarr.json").read_bytes()))
            if known is None:
                import zarr  # half a second, in every worker process: only where it is needed

                self._foreign = zarr.open_array(place, mode="r", zarr_format=3)
            else:
                self._decode = shards.decoder(known)
        except (OSError, ValueError, KeyError, TypeError) as fault:
            raise StoreError(
                f"{self._split}/frames cannot be read: {fault}",
                where=str(self._folder),
                remedy="`hfprep verify` names what is damaged",
                kind="damaged",
            ) from fault
        self._checked = True

    def _shard(self, index: int) -> _Shard:
        shard = self._open.get(index)
        return self._map(index) if shard is None else shard

    def _map(self, index: int) -> _Shard:
        path = self._folder / self._layout.shard_key(self._split, index)
        tail = shards.index_bytes(self._layout.units_per_shard)
        try:
            with path.open("rb") as file:
                data = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
            if len(data) < tail:
                raise ValueError(f"it has only {len(data)} bytes")
            table = shards.parse_index(data[-tail:].tobytes(), len(data) - tail)
            spans = list(zip(table[:, 0].tolist(), np.where(table[:, 1] < 0, -1, table.sum(axis=1)).tolist()))
            shard = _Shard(data.data, spans, self._in_row(index, data, table) if self._decode is None else None)
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

    def _in_row(self, index: int, data: NDArray[np.uint8], table: I64) -> U8 | None:
        first, last = self._layout.shard_units(self._split, index)
        n, size = last - first, self._layout.unit_bytes
        if np.any(table[:n, 0] != np.arange(n) * size) or np.any(table[:n, 1] != size):
            return None
        return data[: n * size].reshape(n, *self._layout.unit_shape)

    def _damaged(self, index: int, what: str) -> StoreError:
        return StoreError(
            f"shard {index} of {self._split} is damaged: {what}",
            where=str(self._folder),
            remedy="`hfprep verify` names all that is damaged",
            kind="damaged",
        )

    def __repr__(self) -> Any:
        return f"ShardMap({self._folder}, {self._split}, {len(self._open)} open)"
