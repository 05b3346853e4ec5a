"""Which classes a clip is of: one, or several where the manifest's cell names them with a separator between ("run|jump")."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .records import I64, Bool, require


def names(cell: str, separator: str) -> tuple[str, ...]:
    """The labels that a cell names, in its order, each once; with separator "" the cell is one name as it stands.

    >>> names("run| jump |run|", "|"), names("run|jump", ""), names("|", "|")
    (('run', 'jump'), ('run|jump',), ())
    """
    if not separator or separator not in cell:
        return (cell,) if cell else ()
    parts = (part.strip() for part in cell.split(separator))
    return tuple(dict.fromkeys(part for part in parts if part))


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """The classes of `count` clips as pairs: clip int64 (P,), never going back, every clip at least once; label int64 (P,)."""

    clip: I64
    label: I64
    count: int

    def __post_init__(self) -> None:
        require(self.clip.shape == self.label.shape and self.clip.ndim == 1, f"pairs {self.clip.shape}, {self.label.shape}")
        require(bool(np.all(np.diff(self.clip) >= 0)) and len(np.unique(self.clip)) == self.count, "every clip has a class, in order")

    def __repr__(self) -> str:
        return f"Members({self.count} clips, {len(self.clip)} labels)"

    @classmethod
    def of(cls, named: Iterable[Sequence[str]], classes: Sequence[str]) -> Members:
        """Of the names of each clip; raises KeyError for one that is no class."""
        number = {name: k for k, name in enumerate(classes)}
        sets = [[number[name] for name in some] for some in named]
        clip = np.repeat(np.arange(len(sets), dtype=np.int64), [len(some) for some in sets])
        return cls(clip, np.array([k for some in sets for k in some], np.int64), len(sets))

    @classmethod
    def single(cls, labels: I64) -> Members:
        """Of clips with one class each, int64 (clips,)."""
        return cls(np.arange(len(labels), dtype=np.int64), np.asarray(labels, np.int64), len(labels))

    def where(self, chosen: Bool) -> Members:
        """The chosen clips, bool (clips,), numbered anew."""
        kept = chosen[self.clip]
        number = np.cumsum(chosen) - 1
        return Members(number[self.clip[kept]], self.label[kept], int(chosen.sum()))

    def table(self, n_classes: int) -> Bool:
        """As bool (clips, classes)."""
        table = np.zeros((self.count, n_classes), np.bool_)
        table[self.clip, self.label] = True
        return table

    def largest(self, values: NDArray[np.generic]) -> NDArray[np.generic]:
        """Of each clip the largest of its classes' values; values (classes,), result (clips,)."""
        if not self.count:
            return np.zeros(0, values.dtype)
        return np.maximum.reduceat(values[self.label], np.flatnonzero(np.diff(self.clip, prepend=-1)))

    def repeated(self, counts: I64) -> I64:
        """The labels of all windows where clip k gives counts[k]: each clip's labels so often, int64."""
        return np.repeat(self.label, counts[self.clip])
