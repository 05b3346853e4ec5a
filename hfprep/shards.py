"""The bytes of one shard of pixels: Zarr v3's `sharding_indexed`, one chunk a unit, the index at the end. No zarr here.

A shard is built and read directly because zarr-python goes through its event loop for every chunk (0.15 of memory speed when
reading), and because the bytes must not depend on threads: Blosc writes its blocks in the order in which threads finish.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import google_crc32c
import numcodecs.blosc
import numpy as np
import xxhash
from numcodecs.blosc import Blosc
from numcodecs.zstd import Zstd
from numpy.typing import NDArray

from .records import U8

# One thread a call: the same bytes everywhere, no threads that a fork would lose. zarr sets the same when it is imported.
numcodecs.blosc.use_threads = False

# Level 1 in blocks of 256 KiB decodes 1.5 times as fast as Blosc's usual level 5 and takes 5 % more (0.83 of raw against 0.79, real
# windows); its automatic blocks of 64 KiB lose most of that. zstd 3 encodes at half the speed of 1 and decodes no faster.
LZ4_LEVEL, LZ4_BLOCK, ZSTD_LEVEL = 1, 1 << 18, 1
MISSING = np.uint64(2**64 - 1)  # Zarr's mark of a chunk that is not there
MAX_BLOSC = 2**31 - 1 - 16  # Blosc's own limit for one buffer

Decode = Callable[[Any, Any], Any]


def coder(codec: str) -> Any:
    """The numcodecs codec of a `store.codec` name; None for raw."""
    if codec == "lz4":
        return Blosc("lz4", LZ4_LEVEL, Blosc.NOSHUFFLE, LZ4_BLOCK)  # shuffling does nothing for bytes
    return Zstd(ZSTD_LEVEL) if codec == "zstd" else None


def encode(frames: U8, codec: str, capacity: int) -> list[Any]:
    """The parts of a shard file in order: each unit's chunk (a window or a tick), then the index with its checksum.

    frames u8 (n, ...) with n <= capacity, the units of a full shard; units beyond n are marked as missing.
    """
    squeeze = coder(codec)
    rows = [np.ascontiguousarray(frames[i]) for i in range(len(frames))]
    chunks: list[Any] = [row.data.cast("B") if squeeze is None else squeeze.encode(row) for row in rows]
    index = np.full((capacity, 2), MISSING, "<u8")
    sizes = np.array([len(chunk) for chunk in chunks], "<u8")
    index[: len(chunks), 0] = np.cumsum(sizes) - sizes
    index[: len(chunks), 1] = sizes
    table = index.tobytes()
    return [*chunks, table + int(google_crc32c.value(table)).to_bytes(4, "little")]


def index_bytes(capacity: int) -> int:
    """Length of a shard's index with its checksum: offset and length, 8 bytes each, per unit."""
    return 16 * capacity + 4


def parse_index(tail: bytes, body: int) -> NDArray[np.int64]:
    """Offsets and lengths int64 (capacity,2) from a shard's last bytes, -1 where a unit is missing.

    body    bytes of the file before the index; no chunk may reach beyond it
    Raises ValueError where the checksum or a position is wrong: the file is damaged or not a shard.
    """
    table = tail[:-4]
    if int(google_crc32c.value(table)) != int.from_bytes(tail[-4:], "little"):
        raise ValueError("the checksum of its index does not fit")
    index = np.frombuffer(table, "<u8").reshape(-1, 2)
    there = index[:, 0] != MISSING
    ends = index[there].sum(axis=1)
    if np.any(index[there] > body) or np.any(ends > body):
        raise ValueError("its index points beyond its end")
    return np.where(there[:, None], index, 0).astype(np.int64) - np.where(there, 0, 1)[:, None]


def digests(first: NDArray[Any], columns: dict[str, NDArray[Any]]) -> NDArray[np.uint64]:
    """One xxh3_64 a row (n,) over `first` (pixels, or the digests of the ticks shown), then its values of the columns in order."""
    tables = [np.ascontiguousarray(values, values.dtype.newbyteorder("<")) for values in columns.values()]
    result = np.empty(len(first), np.uint64)
    for i in range(len(first)):
        state = xxhash.xxh3_64(np.ascontiguousarray(first[i], first.dtype.newbyteorder("<")).data)
        for table in tables:
            state.update(table[i].tobytes())
        result[i] = state.intdigest()
    return result
