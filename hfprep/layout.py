"""The on-disk contract: names, types, dimensions, chunks and shards of every array in a store. Numbers only, no zarr.

It exists so that the store and all who read it need not know the plan.
"""

from __future__ import annotations

from dataclasses import dataclass

from .records import SPLITS

FORMAT_VERSION = 1
CODECS = ("raw", "lz4", "zstd")


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

    def frames(self, split: str) -> ArraySpec:
        """The pixel array: one chunk a window, `windows_per_shard` windows a shard."""
        shape = (self.n_rows(split), self.length, self.height, self.width, 3)
        return ArraySpec("frames", "uint8", shape, ("window", "frame", "y", "x", "channel"), 1, self.windows_per_shard)

    def columns(self, split: str) -> tuple[ArraySpec, ...]:
        """The small arrays beside the pixels, a value or a row of values per window."""
        n, length = self.n_rows(split), self.length
        per_window = (("label", "int16"), ("clip", "int32"), ("center_ns", "int64"), ("weight", "float32"), ("ok", "bool"), ("digest", "uint64"))
        per_frame = (("time_ns", "int64"), ("source_ns", "int64"), ("clamped", "bool"))
        chunk = max(1, min(n, 4096))  # few files, and a reader that wants one row reads little
        specs = [ArraySpec(name, dtype, (n, length), ("window", "frame"), chunk) for name, dtype in per_frame]
        specs += [ArraySpec(name, dtype, (n,), ("window",), chunk) for name, dtype in per_window]
        if self.axes:
            specs.append(ArraySpec("imu", "float32", (n, length, len(self.axes)), ("window", "frame", "axis"), chunk))
            specs.append(ArraySpec("imu_ok", "bool", (n, length), ("window", "frame"), chunk))
        return tuple(specs)
