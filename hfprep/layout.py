"""The on-disk contract: names, types, dimensions, chunks and shards of every array in a store. Numbers only, no zarr.

It exists so that the store and all who read it need not know the plan.
"""

from __future__ import annotations

import math
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any

from .records import SPLITS, require

FORMAT_VERSION = 1
CODECS = ("raw", "lz4", "zstd", "jpeg")
KINDS = ("windows", "frames")
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
    kind               "windows": every hyperframe whole; "frames": each clip's ticks once, a window is a row of tick indices
    ticks              with kind "frames": stored ticks of each split
    ticks_per_shard    with kind "frames": ticks of one shard
    quality            with codec "jpeg": of its pictures
    label_classes      classes of a store whose windows may be of several (`labels` instead of `label`); 0: one label a window

    A unit is a row of the pixel array: a window or a tick. Chunks, shards and commit records hold units.
    """

    size: int
    margin: int
    height: int
    width: int
    axes: tuple[str, ...]
    codec: str
    windows_per_shard: int
    rows: tuple[int, int, int]
    kind: str = "windows"
    ticks: tuple[int, int, int] = (0, 0, 0)
    ticks_per_shard: int = 0
    quality: int = 0
    label_classes: int = field(default=0, repr=False)  # repr: the digest of a plan is made of it

    def __post_init__(self) -> None:
        require(self.codec in CODECS and self.kind in KINDS, f"codec {self.codec!r}, kind {self.kind!r}")
        require(min(self.size, self.height, self.width, self.windows_per_shard, self.units_per_shard) > 0 <= self.margin, f"{self}")
        require(len(self.rows) == len(self.ticks) == len(SPLITS) and min(*self.rows, *self.ticks) >= 0, f"{self.rows}, {self.ticks}")

    @property
    def length(self) -> int:
        """Stored ticks of a window."""
        return self.size + 2 * self.margin

    @property
    def window_shape(self) -> tuple[int, int, int, int]:
        """Pixels of a whole window: frame, y, x, channel."""
        return (self.length, self.height, self.width, 3)

    @property
    def window_bytes(self) -> int:
        """Raw pixels of one window, in bytes."""
        return math.prod(self.window_shape)

    @property
    def unit_shape(self) -> tuple[int, ...]:
        """Pixels of one unit, which is one chunk."""
        return self.window_shape if self.kind == "windows" else self.window_shape[1:]

    @property
    def unit_bytes(self) -> int:
        """Raw pixels of one unit, in bytes."""
        return math.prod(self.unit_shape)

    @property
    def units_per_shard(self) -> int:
        """Units of a full shard."""
        return self.windows_per_shard if self.kind == "windows" else self.ticks_per_shard

    @property
    def unit_digest(self) -> str:
        """The column that holds the digest of each unit."""
        return "digest" if self.kind == "windows" else "tick_digest"

    @property
    def written_columns(self) -> tuple[str, ...]:
        """Unit columns that writing a shard makes, of the pixels that it stores."""
        return (self.unit_digest, *(("psnr",) if self.codec == "jpeg" else ()))

    def n_rows(self, split: str) -> int:
        """Windows of a split."""
        return self.rows[SPLITS.index(split)]

    def n_units(self, split: str) -> int:
        """Rows of a split's pixel array: windows or ticks."""
        return (self.rows if self.kind == "windows" else self.ticks)[SPLITS.index(split)]

    def n_shards(self, split: str) -> int:
        """Shards of a split."""
        return -(-self.n_units(split) // self.units_per_shard)

    def shards(self) -> tuple[tuple[str, int], ...]:
        """Every shard of the store as (split, index), in row order."""
        return tuple((split, index) for split in SPLITS for index in range(self.n_shards(split)))

    def shard_units(self, split: str, index: int) -> tuple[int, int]:
        """First unit of a shard and the unit after its last."""
        first = index * self.units_per_shard
        return first, min(self.n_units(split), first + self.units_per_shard)

    def shard_key(self, split: str, index: int) -> str:
        """A shard's file inside the store: Zarr's default chunk key."""
        return "/".join([split, "frames", "c", str(index), *["0"] * len(self.unit_shape)])

    def frames(self, split: str) -> ArraySpec:
        """The pixel array: one chunk a unit."""
        dims = ("window", "frame", "y", "x", "channel") if self.kind == "windows" else ("tick", "y", "x", "channel")
        return ArraySpec("frames", "uint8", (self.n_units(split), *self.unit_shape), dims, 1, self.units_per_shard)

    def columns(self, split: str) -> tuple[ArraySpec, ...]:
        """The small arrays beside the pixels: those of the units, then those of the windows."""
        return (*self.unit_columns(split), *self.window_columns(split))

    def unit_columns(self, split: str) -> tuple[ArraySpec, ...]:
        """The small arrays with a row for each unit: written with its pixels."""
        n, whole = self.n_units(split), self.kind == "windows"
        inner, dims = ((self.length,), ("window", "frame")) if whole else ((), ("tick",))
        specs = [_column(name, dtype, n, inner, dims) for name, dtype in ((*_PER_FRAME, _CLAMPED) if whole else _PER_FRAME)]
        specs += self._of_windows(n) if whole else [_column(name, dtype, n, (), dims[:1]) for name, dtype in _PER_TICK]
        if self.codec == "jpeg":
            specs.append(_column("psnr", "float32", n, (), dims[:1]))
        if self.axes:
            specs.append(_column("imu", "float32", n, (*inner, len(self.axes)), (*dims, "axis")))
            specs.append(_column("imu_ok", "bool", n, inner, dims))
        return tuple(specs)

    def window_columns(self, split: str) -> tuple[ArraySpec, ...]:
        """With kind "frames": the small arrays with a row for each window, made from the clips' centres when all ticks are there."""
        if self.kind == "windows":
            return ()
        n, dims = self.n_rows(split), ("window", "frame")
        per_frame = [_column(name, dtype, n, (self.length,), dims) for name, dtype in (("index", "int64"), _CLAMPED)]
        return (*per_frame, *self._of_windows(n))

    def _of_windows(self, n: int) -> list[ArraySpec]:
        """One value a window, or with label_classes the row of its classes, then the digest."""
        several = self.label_classes
        label = _column("labels", "bool", n, (several,), ("window", "class")) if several else _column("label", "int16", n, (), ("window",))
        return [label, *(_column(name, dtype, n, (), ("window",)) for name, dtype in (*_PER_WINDOW, _DIGEST))]

    def dump(self) -> dict[str, Any]:
        """As plain values for the store's attributes; fields of later versions are left out where they say nothing."""
        values = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}
        return {key: value for key, value in values.items() if key not in _LATER or value}

    @classmethod
    def parse(cls, table: dict[str, Any]) -> Layout:
        """Back from the store's attributes; keys of later versions are left aside, those of this one may lack in earlier stores.

        Raises KeyError, TypeError or ValueError.
        """
        values: dict[str, Any] = {f.name: table[f.name] for f in fields(cls) if f.name in table or f.default is MISSING}
        values |= {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
        return cls(**values)


_PER_FRAME = (("time_ns", "int64"), ("source_ns", "int64"))
_PER_TICK = (("tick_clip", "int32"), ("tick_ok", "bool"), ("energy", "float32"), ("tick_digest", "uint64"))
_CLAMPED, _DIGEST = ("clamped", "bool"), ("digest", "uint64")
_PER_WINDOW = (("clip", "int32"), ("center_ns", "int64"), ("weight", "float32"), ("ok", "bool"))
_LATER = ("label_classes",)  # fields that the first stores of this format did not have
_ITEM_BYTES = {"int64": 8, "uint64": 8, "int32": 4, "float32": 4, "int16": 2, "bool": 1}


def _column(name: str, dtype: str, n: int, inner: tuple[int, ...], dims: tuple[str, ...]) -> ArraySpec:
    return ArraySpec(name, dtype, (n, *inner), dims, _chunk(n, math.prod(inner) * _ITEM_BYTES[dtype]))


def _chunk(n: int, row_bytes: int) -> int:
    """Rows of a small column's chunk: a power of two, so that chunks divide BLOCK_ROWS; no larger than n rows need."""
    rows = max(1, COLUMN_BYTES // row_bytes)
    return int(min(BLOCK_ROWS, 1 << (rows.bit_length() - 1), 1 << max(0, n - 1).bit_length()))
