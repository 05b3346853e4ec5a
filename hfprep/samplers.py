"""In which order windows come, a batch at a time: resumable in mid-epoch, and shared out among the ranks of a distributed run.

Every sampler here gives lists of indexes, one list a batch, as a DataLoader with `batch_size=None` takes them. The order of an epoch
depends on seed and epoch alone. Ranks (rank, world_size; by default those of torch.distributed where it is initialised) take turns:
at each step, ranks 0 to W-1 with batches of b together see what one process would see in a batch of W x b.

What happens to rows that do not fill a batch on every rank has a name, `ends`:

share   every row exactly once over all ranks, and the same number of batches on each: the last batches are smaller, and differ by at
        most one row from rank to rank. For training. Refused where it cannot be (fewer rows than ranks).
drop    full batches only, the same number on each rank; the rows left over, others in each epoch, are left out of this one.
keep    every row exactly once over all ranks; a rank may have one batch less than another. For evaluation, where ranks need not
        keep step.

None of them repeats a row to fill up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import torch.distributed
from numpy.typing import ArrayLike

from .errors import UsageError
from .records import I64

Ends = Literal["share", "drop", "keep"]


class Batches(ABC):
    """The batches of a rank, pass after pass.

    epoch   whose order comes next; see set_epoch
    done    batches of this epoch handed out
    start   batches that the next pass leaves out because they were handed out before the state was saved
    """

    def __init__(
        self, rows: int, batch: int, *, seed: int = 0, ends: Ends = "share", rank: int | None = None, world_size: int | None = None
    ) -> None:
        if batch < 1:
            raise UsageError(f"batch = {batch}", where="samplers", remedy="take 1 or more", kind="bad_batch")
        if ends not in ("share", "drop", "keep"):
            raise UsageError(f"ends = {ends!r}", where="samplers", remedy="take share, drop or keep", kind="bad_ends")
        self.rows, self.batch, self.seed, self.ends = rows, batch, seed, ends
        self.rank, self.world_size = _ranks(rank, world_size)
        self.epoch = self.done = self.start = self._steps = 0

    def __repr__(self) -> str:
        place = f", rank {self.rank} of {self.world_size}" if self.world_size > 1 else ""
        return f"{type(self).__name__}({self.rows} rows, batch {self.batch}, {self.ends}{place}, epoch {self.epoch})"

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch; the same in every epoch."""
        return self._steps

    @abstractmethod
    def _drawn(self, draws: np.random.Generator) -> list[I64]:
        """This rank's batches of an epoch."""

    def __iter__(self) -> Iterator[list[int]]:
        # A DataLoader with workers makes two iterators and uses one: nothing changes before a batch is asked for.
        start, self.start = self.start, 0
        # the 1 keeps the order apart from what the dataset draws of that seed and epoch
        order = self._drawn(np.random.default_rng([self.seed, self.epoch, 1]))
        for number in range(start, len(order)):
            self.done = number + 1
            yield order[number].tolist()

    def set_epoch(self, epoch: int) -> None:
        """Take the order of this epoch from now on; another epoch than the one that was loaded starts at its beginning."""
        if epoch != self.epoch:
            self.epoch, self.done, self.start = epoch, 0, 0

    def state_dict(self) -> dict[str, Any]:
        """Where this pass is: to be saved beside the model, the same on every rank.

        `done` counts the batches that were taken from this sampler. A plain DataLoader with workers takes them ahead of time; the one
        that `dataset.loader` gives corrects the count to the batches that it has handed out, so that its state_dict() is right.
        """
        return {"epoch": self.epoch, "done": self.done, **self._contract()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on behind the last batch of a saved state: the next pass gives the rest of its epoch, or the next epoch where none is left.

        Raises UsageError where the state is of another order: other rows, batch, seed, rule or number of ranks.
        """
        here = self._contract()
        other = [f"{name} {state.get(name)!r}, here {value!r}" for name, value in here.items() if state.get(name) != value]
        if other or not {"epoch", "done"} <= state.keys():
            raise UsageError(
                f"the saved state is of another order: {', '.join(other) or 'no epoch in it'}",
                where="samplers",
                remedy="resume with the same store and settings, or start an epoch anew",
                kind="bad_state",
            )
        self.epoch, self.done = int(state["epoch"]), int(state["done"])
        if self.done >= len(self):
            self.epoch, self.done = self.epoch + 1, 0
        self.start = self.done

    def _planned(self, rows: int) -> I64:
        """Rows of every batch, int64 (steps, world_size), where batches are dealt to the ranks step by step."""
        table = sizes(rows, self.batch, self.world_size, self.ends)
        self._steps = int(np.count_nonzero(table[:, self.rank]))
        return table

    def _contract(self) -> dict[str, Any]:
        """What the order depends on, beside the epoch."""
        return {
            "sampler": type(self).__name__,
            **{name: getattr(self, name) for name in ("rows", "batch", "seed", "ends", "world_size")},
        }


class Plain(Batches):
    """Every row once an epoch: shuffled, or in order."""

    def __init__(self, rows: int, batch: int, *, shuffle: bool = True, **common: Any) -> None:
        super().__init__(rows, batch, **common)
        self.shuffle = shuffle
        self._sizes = self._planned(rows)

    def _drawn(self, draws: np.random.Generator) -> list[I64]:
        order = draws.permutation(self.rows) if self.shuffle else np.arange(self.rows)
        return _dealt(order, self._sizes, self.rank)

    def _contract(self) -> dict[str, Any]:
        return super()._contract() | {"shuffle": self.shuffle}


class Weighted(Batches):
    """Classes balanced: each class gives its share of an epoch, by inverse frequency; its rows come in turns, each once before any
    comes again.

    labels  the class of each row (dataset.labels): frequencies are counted from them
    draws   rows of an epoch over all ranks; default: as many as there are
    power   1: every class that occurs gives the same number of rows, 0: as many as it has; 0.5: in between (square root)

    A row may come several times an epoch, or not at all. A loss that uses the batch's `weight` too would balance twice.
    """

    def __init__(self, labels: ArrayLike, batch: int, *, draws: int | None = None, power: float = 1.0, **common: Any) -> None:
        _, self._labels, self._counts = np.unique(np.asarray(labels), return_inverse=True, return_counts=True)
        super().__init__(len(self._labels), batch, **common)
        self.draws, self.power = self.rows if draws is None or not self.rows else draws, power
        self._sizes = self._planned(self.draws)

    def _drawn(self, draws: np.random.Generator) -> list[I64]:
        wish = self._counts ** (1.0 - self.power)
        wish = wish / wish.sum() * self.draws
        quota = np.floor(wish).astype(np.int64)
        # rows that are left after rounding down: to the largest remainders, among equal ones to others in each epoch
        first = np.lexsort((draws.random(len(wish)), -np.round(wish - quota, 9)))
        quota[first[: self.draws - quota.sum()]] += 1
        order = [_in_turns(np.flatnonzero(self._labels == number), count, draws) for number, count in enumerate(quota.tolist())]
        return _dealt(draws.permutation(np.concatenate(order)) if order else np.zeros(0, np.int64), self._sizes, self.rank)

    def _contract(self) -> dict[str, Any]:
        return super()._contract() | {"draws": self.draws, "power": self.power}


class Shards(Batches):
    """Every row once an epoch, few shards at a time: shards are shuffled, then the rows of `open` shards among themselves. For
    stores on slow or remote disks, where a shard should be read once and not row by row.

    shards  the shard of each row (dataset.shards)
    Each rank takes a stretch of whole shards; only the shards at its ends are read by two ranks.
    """

    def __init__(self, shards: ArrayLike, batch: int, *, open: int = 4, **common: Any) -> None:
        self._shards = np.unique(np.asarray(shards), return_inverse=True)[1]
        super().__init__(len(self._shards), batch, **common)
        if open < 1:
            raise UsageError(f"open = {open} shards", where="samplers.Shards", remedy="take 1 or more", kind="bad_batch")
        self.open = open
        self._sizes = self._planned(self.rows)

    def _drawn(self, draws: np.random.Generator) -> list[I64]:
        place = draws.permutation(int(self._shards.max(initial=-1)) + 1)[self._shards]  # of each row's shard
        order = np.lexsort((draws.random(self.rows), place))
        share = self._sizes.sum(axis=0)
        mine = order[share[: self.rank].sum() :][: share[self.rank]]
        window = np.unique(place[mine], return_inverse=True)[1] // self.open
        mine = mine[np.lexsort((draws.random(len(mine)), window))]
        return _dealt(mine, self._sizes[:, self.rank : self.rank + 1], 0)

    def _contract(self) -> dict[str, Any]:
        return super()._contract() | {"open": self.open}


class Clips(Batches):
    """Batches of `per_clip` windows of each of batch / per_clip different clips, one clip's windows behind one another.

    clips  the clip of each row (dataset.clips)

    An epoch takes a clip's windows in a new order and cuts them into groups of per_clip; what is left over is left out of this epoch.
    A clip with fewer windows gives one group, in which they repeat. No clip comes twice in a batch. With `ends="share"` every group
    comes exactly once over all ranks and batches differ by at most one clip; with "drop" every batch is full.
    """

    def __init__(self, clips: ArrayLike, batch: int, *, per_clip: int = 4, **common: Any) -> None:
        _, self._clips = np.unique(np.asarray(clips), return_inverse=True)
        super().__init__(len(self._clips), batch, **common)
        if per_clip < 1 or batch % per_clip:
            raise UsageError(
                f"a batch of {batch} in {per_clip} windows a clip",
                where="samplers.Clips",
                remedy="take a batch that per_clip divides",
                kind="bad_batch",
            )
        self.per_clip = per_clip
        self._groups = np.maximum(np.bincount(self._clips) // per_clip, 1) if self.rows else np.zeros(0, np.int64)
        self._plan()

    def _plan(self) -> None:
        """The batches over all ranks: no more groups of a clip than batches, since none takes two of them."""
        clips, ranks = self.batch // self.per_clip, self.world_size
        if self.ends == "drop":
            batches = int(self._groups.sum())
            while (full := ranks * int(np.minimum(self._groups, batches).sum() // (clips * ranks))) < batches:
                batches = full
        else:
            groups, most = int(self._groups.sum()), int(self._groups.max(initial=0))
            least = max(-(-groups // clips), most)
            batches = -(-least // ranks) * ranks if self.ends == "share" else least
            if batches > groups:
                raise _too_few(f"{groups} groups of {self.per_clip} windows for {batches} batches on {ranks} ranks")
        if not batches and self.rows:
            raise _too_few(f"{int(self._groups.sum())} groups of {self.per_clip} windows fill no batch of {clips} clips on {ranks} ranks")
        self._batches, self._steps = batches, len(range(self.rank, batches, self.world_size))

    def _drawn(self, draws: np.random.Generator) -> list[I64]:
        if not self._batches:
            return []
        by_clip = np.lexsort((draws.random(self.rows), self._clips))  # each clip's rows in a new order
        begin = np.searchsorted(self._clips[by_clip], np.arange(len(self._groups) + 1))
        kept = np.minimum(self._groups, self._batches)
        owner = np.repeat(np.arange(len(kept)), kept)
        if self.ends == "drop":
            full = self._batches * (self.batch // self.per_clip)
            kept = np.bincount(draws.permutation(owner)[:full], minlength=len(kept))
        groups: list[I64] = []
        for clip in draws.permutation(len(kept)).tolist():
            rows = by_clip[begin[clip] : begin[clip + 1]]
            groups += [np.resize(rows[k * self.per_clip :], self.per_clip) for k in range(kept[clip])]
        # Dealt like cards: a clip's groups lie together and are no more than there are batches, so that none gets two of them.
        number = draws.permutation(self._batches)
        return [np.concatenate(groups[n :: self._batches]) for n in number[self.rank :: self.world_size].tolist()]

    def _contract(self) -> dict[str, Any]:
        return super()._contract() | {"per_clip": self.per_clip}


def sizes(rows: int, batch: int, world_size: int = 1, ends: Ends = "share") -> I64:
    """Rows of each batch: int64 (steps, world_size). Raises UsageError where the rule cannot be kept.

    >>> sizes(21, 4, 2).tolist()              # two full steps, then the rest
    [[4, 4], [4, 4], [3, 2]]
    >>> sizes(17, 4, 2).tolist()              # one row is left for two ranks: the last two steps share
    [[4, 4], [3, 2], [2, 2]]
    >>> sizes(17, 4, 2, "drop").tolist(), sizes(17, 4, 2, "keep").tolist()
    ([[4, 4], [4, 4]], [[4, 4], [4, 4], [1, 0]])
    """
    full, rest = divmod(rows, batch * world_size)
    table = np.full((full, world_size), batch, np.int64)
    if ends == "drop":
        if rows and not full:
            raise _too_few(f"{rows} windows fill no batch of {batch} on {world_size} ranks")
        return table
    if not rest:
        return table
    if ends == "keep" or rest >= world_size:
        return np.concatenate([table, _even(rest, world_size)])
    if not full or batch == 1:
        raise _too_few(f"{rows} windows in batches of {batch} cannot give {world_size} ranks the same number of batches")
    return np.concatenate([table[:-1], _even(rest + batch * world_size, 2 * world_size).reshape(2, world_size)])


def _even(rows: int, parts: int) -> I64:
    return (rows // parts + (np.arange(parts) < rows % parts))[None]


def _dealt(order: I64, table: I64, rank: int) -> list[I64]:
    """A rank's batches of an order that is dealt to all ranks in turn, step by step; batches without rows are left out."""
    ends = np.cumsum(table).reshape(table.shape)[:, rank].tolist()
    return [order[end - size : end] for end, size in zip(ends, table[:, rank].tolist()) if size]


def _in_turns(rows: I64, count: int, draws: np.random.Generator) -> I64:
    """`count` of these rows, each once before any comes again."""
    turns = [draws.permutation(rows) for _ in range(-(-count // len(rows)))]
    return np.concatenate([*turns, np.zeros(0, np.int64)])[:count]


def _too_few(what: str) -> UsageError:
    return UsageError(what, where="samplers", remedy="take a smaller batch, fewer ranks, or another `ends`", kind="too_few")


def _ranks(rank: int | None, world_size: int | None) -> tuple[int, int]:
    if rank is None and world_size is None:
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return torch.distributed.get_rank(), torch.distributed.get_world_size()
        return 0, 1
    if rank is None or world_size is None or not 0 <= rank < world_size:
        raise UsageError(
            f"rank = {rank}, world_size = {world_size}", where="samplers", remedy="give both, 0 <= rank < world_size", kind="bad_rank"
        )
    return rank, world_size
