"""The bytes of one shard of pixels: Zarr v3's `sharding_indexed`, one chunk a unit, the index at the end. No zarr here.

A shard is built and read directly because zarr-python goes through its event loop for every chunk (0.15 of memory speed when
reading), and because the bytes must not depend on threads: Blosc writes its blocks in the order in which threads finish.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any

import google_crc32c
import numcodecs.blosc
import numcodecs.zstd
import numpy as np
import xxhash
from numcodecs.lz4 import LZ4
from numcodecs.zstd import Zstd
from numpy.typing import NDArray

from . import jpeg
from .records import U8

# One thread a call: the same bytes everywhere, no threads that a fork would lose. zarr sets the same when it is imported.
numcodecs.blosc.use_threads = False

# Blosc's own levels end at LZ4's acceleration 9. At 40, with blocks that gain less than a twentieth left raw, real windows decode
# 1.6 times as fast and take 0.89 of raw instead of 0.82; who needs small stores takes zstd (0.57), which is smaller than any lz4.
# Blocks of 64 KiB cost a tenth of that speed. zstd 3 encodes at half the speed of 1 and decodes no faster.
LZ4_LEVEL, LZ4_BLOCK, LZ4_ACCELERATION, LZ4_GAIN, ZSTD_LEVEL = 1, 1 << 18, 40, 0.95, 1
MISSING = np.uint64(2**64 - 1)  # Zarr's mark of a chunk that is not there
BLOSC_LZ4, BLOSC_NOT_SPLIT = 1 << 5, 1 << 4  # flags of the header
MAX_BLOSC = 2**31 - 1 - 16  # Blosc's own limit for one buffer

Encode = Callable[[Any], bytes]
Decode = Callable[..., Any]  # bytes, destination


def encoder(codec: str, quality: int) -> Encode | None:
    """What encodes a unit's pixels with a `store.codec`; None for raw."""
    return {"lz4": blosc_lz4, "zstd": Zstd(ZSTD_LEVEL).encode, "jpeg": partial(jpeg.encode, quality=quality)}.get(codec)


def decoder(codec: str) -> Decode | None:
    """What decodes a unit straight into its place; None for raw. The functions below numcodecs' codecs: half the time a call."""
    return {"lz4": numcodecs.blosc.decompress, "zstd": numcodecs.zstd.decompress, "jpeg": jpeg.decode}.get(codec)


def blosc_lz4(pixels: Any) -> bytes:
    """A Blosc 1 frame of LZ4 blocks, unshuffled: what any Blosc decodes. Shuffling does nothing for bytes.

    Format: C-Blosc's README_HEADER and README_CHUNK_FORMAT (header of 16 bytes, block starts, each block behind its length).
    """
    data = memoryview(pixels).cast("B")
    squeeze, size = LZ4(LZ4_ACCELERATION), min(LZ4_BLOCK, len(data))  # a block larger than the data is refused
    blocks = []
    for start in range(0, len(data), size):
        plain = data[start : start + size]
        small = squeeze.encode(plain)[4:]  # numcodecs puts the length in front
        blocks.append(small if len(small) < LZ4_GAIN * len(plain) else bytes(plain))
    first = 16 + 4 * len(blocks)
    starts = first + np.cumsum([0, *(4 + len(block) for block in blocks)])
    header = struct.pack("<4B3I", 2, 1, BLOSC_LZ4 | BLOSC_NOT_SPLIT, 1, len(data), size, int(starts[-1]))
    return b"".join([header, starts[:-1].astype("<i4").tobytes(), *(part for b in blocks for part in (struct.pack("<i", len(b)), b))])


def encode(frames: U8, codec: str, capacity: int, quality: int = 0) -> list[Any]:
    """The parts of a shard file in order: each unit's chunk (a window or a tick), then the index with its checksum.

    frames u8 (n, ...) with n <= capacity, the units of a full shard; units beyond n are marked as missing. quality: of jpeg.
    """
    squeeze = encoder(codec, quality)
    rows = [np.ascontiguousarray(frames[i]) for i in range(len(frames))]
    chunks: list[Any] = [row.data.cast("B") if squeeze is None else squeeze(row) for row in rows]
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
    result = np.empty(len(first), np.uint64)
    if not len(first):
        return result
    tables = [np.ascontiguousarray(values, values.dtype.newbyteorder("<")) for values in columns.values()]
    rest = np.concatenate([table.reshape(len(table), -1).view(np.uint8) for table in tables], axis=1)
    for i in range(len(first)):
        state = xxhash.xxh3_64(np.ascontiguousarray(first[i], first.dtype.newbyteorder("<")).data)
        state.update(rest[i].data)
        result[i] = state.intdigest()
    return result
