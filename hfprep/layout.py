"""The on-disk contract: names, types, dimensions, chunks and shards of every array in a store. Numbers only, no zarr.

It exists so that the store and all who read it need not know the plan.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from .records import SPLITS, require

FORMAT_VERSION = 1
CODECS = ("raw", "lz4", "zstd")
COLUMN_BYTES = 1 << 20  # a chunk of a small column: few files, and one row does not cost the whole column
BLOCK_ROWS = 1 << 17  # chunks of the small columns divide this number of rows, so that a block of rows fills whole chunks

# Columns of clips/ whose type does not depend on the values at hand; any other column takes the type of its values.
CLIP_TYPES = {
    **dict.fromkeys(("id", "video", "label", "split", "group", "imu", "error", "error_kind", "notes"), "str"),
    **dict.fromkeys(("row", "line", "start_ns", "end_ns", "imu_offset_ns", "n_ticks", "hotspot_ns"), "int64"),
    **dict.fromkeys(("hotspot_score", "repeated_share", "source_fps"), "float64"),
    "vfr": "bool",
}
# What the preparation of a clip tells; present from the start, filled in when the store is finished.
OUTCOME_COLUMNS: dict[str, Any] = {
    "n_ticks": 0,
    "hotspot_ns": -1,
    "hotspot_score": float("nan"),
    "repeated_share": 0.0,
    "error": "",
    "error_kind": "",
    "notes": "",
}


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """One array of a split: chunk and shard count along the first dimension; shard 0 = not sharded."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    chunk: int
    shard: int = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes of one store.

    size, margin       window length K and spare ticks on each side; stored length L = size + 2 x margin
    height, width      pixels
    axes               sensor axis names, () = no sensors
    windows_per_shard  windows of one shard
    rows               windows of each split, in the order of SPLITS
    """

    size: int
    margin: int
    height: int
    width: int
    axes: tuple[str, ...]
    codec: str
    windows_per_shard: int
    rows: tuple[int, int, int]

    def __post_init__(self) -> None:
        require(self.codec in CODECS, f"codec {self.codec!r}")
        require(min(self.size, self.height, self.width, self.windows_per_shard) > 0 and self.margin >= 0, f"{self}")
        require(len(self.rows) == len(SPLITS) and min(self.rows) >= 0, f"rows {self.rows}")

    @property
    def length(self) -> int:
        """Stored ticks of a window."""
        return self.size + 2 * self.margin

    @property
    def window_bytes(self) -> int:
        """Raw pixels of one window, in bytes."""
        return self.length * self.height * self.width * 3

    def n_rows(self, split: str) -> int:
        """Windows of a split."""
        return self.rows[SPLITS.index(split)]

    def n_shards(self, split: str) -> int:
        """Shards of a split."""
        return -(-self.n_rows(split) // self.windows_per_shard)

    def shards(self) -> tuple[tuple[str, int], ...]:
        """Every shard of the store as (split, index), in row order."""
        return tuple((split, index) for split in SPLITS for index in range(self.n_shards(split)))

    def shard_rows(self, split: str, index: int) -> tuple[int, int]:
        """First row of a shard and the row after its last."""
        first = index * self.windows_per_shard
        return first, min(self.n_rows(split), first + self.windows_per_shard)

    def shard_key(self, split: str, index: int) -> str:
        """A shard's file inside the store: Zarr's default chunk key."""
        return f"{split}/frames/c/{index}/0/0/0/0"

    def frames(self, split: str) -> ArraySpec:
        """The pixel array: one chunk a window, `windows_per_shard` windows a shard."""
        shape = (self.n_rows(split), self.length, self.height, self.width, 3)
        return ArraySpec("frames", "uint8", shape, ("window", "frame", "y", "x", "channel"), 1, self.windows_per_shard)

    def columns(self, split: str) -> tuple[ArraySpec, ...]:
        """The small arrays beside the pixels, a value or a row of values per window."""
        n, length, axes = self.n_rows(split), self.length, len(self.axes)
        per_frame = (("time_ns", "int64", 8), ("source_ns", "int64", 8), ("clamped", "bool", 1))
        per_window = (("label", "int16", 2), ("clip", "int32", 4), ("center_ns", "int64", 8), ("weight", "float32", 4), ("ok", "bool", 1))
        specs = [ArraySpec(name, dtype, (n, length), ("window", "frame"), _chunk(n, length * size)) for name, dtype, size in per_frame]
        specs += [
            ArraySpec(name, dtype, (n,), ("window",), _chunk(n, size)) for name, dtype, size in (*per_window, ("digest", "uint64", 8))
        ]
        if self.axes:
            specs.append(ArraySpec("imu", "float32", (n, length, axes), ("window", "frame", "axis"), _chunk(n, length * axes * 4)))
            specs.append(ArraySpec("imu_ok", "bool", (n, length), ("window", "frame"), _chunk(n, length)))
        return tuple(specs)

    def dump(self) -> dict[str, Any]:
        """As plain values for the store's attributes."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def parse(cls, table: dict[str, Any]) -> Layout:
        """Back from the store's attributes; keys of later versions are left aside. Raises KeyError, TypeError or ValueError."""
        values: dict[str, Any] = {field.name: table[field.name] for field in fields(cls)}
        values |= {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
        return cls(**values)


def _chunk(n: int, row_bytes: int) -> int:
    """Rows of a small column's chunk: a power of two, so that chunks divide BLOCK_ROWS; no larger than n rows need."""
    rows = max(1, COLUMN_BYTES // row_bytes)
    return int(min(BLOCK_ROWS, 1 << (rows.bit_length() - 1), 1 << max(0, n - 1).bit_length()))
