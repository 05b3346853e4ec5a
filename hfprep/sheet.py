"""Shards being filled: a sheet of rows for each, open only as long as a clip writes into it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .layout import Layout
from .records import U8, ClipOutcome, Piece, Shard, ShardData


@dataclass(frozen=True, slots=True)
class Place:
    """Where a piece of a clip lies: its shard's position in the block, and its first row there."""

    shard: int
    row: int
    piece: Piece


@dataclass(slots=True)
class Sheet:
    """The rows of one shard, all zero (imu, energy: NaN) and not ok until they are filled."""

    shard: Shard
    frames: U8
    columns: dict[str, NDArray[np.generic]]
    left: int
    outcomes: list[ClipOutcome] = field(default_factory=list)

    @classmethod
    def blank(cls, shard: Shard, layout: Layout) -> Sheet:
        """A sheet for a shard. Pages that are never filled cost no memory: zeros come from the kernel."""
        n = sum(piece.count for piece in shard.pieces)
        frames = np.zeros((n, *layout.unit_shape), np.uint8)
        columns: dict[str, NDArray[np.generic]] = {
            spec.name: np.full((n, *spec.shape[1:]), _nothing(spec.name), spec.dtype)
            for spec in layout.unit_columns(shard.split)
            if spec.name not in layout.written_columns
        }
        return cls(shard, frames, columns, n)

    def wipe(self, rows: slice) -> None:
        """Make rows blank again: what a clip left there before it failed is not to be trusted."""
        self.frames[rows] = 0
        for name, values in self.columns.items():
            values[rows] = _nothing(name)

    def data(self) -> ShardData:
        """The filled sheet as the store takes it."""
        return ShardData(self.shard.split, self.shard.index, self.frames, self.columns, tuple(self.outcomes))


def _nothing(column: str) -> float:
    return np.nan if column in ("imu", "energy") else 0
