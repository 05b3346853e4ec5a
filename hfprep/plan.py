"""What will be written and where, decided before any pixel: windows of each clip, their order, shards and blocks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

import numpy as np
from numpy.typing import NDArray

from . import balance, windows
from .labels import Members
from .layout import Layout
from .pipeline import Pipeline
from .pipeline import Split as Shares
from .records import F32, I64, SPLITS, Block, Clip, Piece, Shard, require

LOOK_AHEAD = 64  # clips looked through for one that ends with the open shard: enough to find one, few enough to stay shuffled


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """A plan in numbers: clips, windows before and after balancing as int64 (3, classes) with splits in the order of SPLITS; every:
    the same three without classes, int64 (3, 3), which is less than their sum where clips are of several;
    shards of each split; raw pixels in bytes of whole windows, and of each tick once (the two layouts of a store); seconds between
    ticks, and from a window's first to its last tick."""

    clips: I64
    before: I64
    after: I64
    every: I64
    shards: tuple[int, int, int]
    raw_bytes: int
    raw_bytes_once: int
    interval_s: float
    span_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """All rows of a store that is yet to be built.

    members                                the clips' classes
    n_ticks, base_counts, counts           int64, one for each clip: ticks (0 = gives no rows), windows before and after balancing;
                                           splits: the clips' splits
    class_weight                           float32 (classes,), from the training windows after balancing
    shards                                 split after split in the order of SPLITS, index ascending
    """

    pipeline: Pipeline
    classes: tuple[str, ...]
    clips: tuple[Clip, ...]
    splits: tuple[str, ...]
    members: Members
    n_ticks: I64
    base_counts: I64
    counts: I64
    class_weight: F32
    shards: tuple[Shard, ...]
    layout: Layout

    def __repr__(self) -> str:
        return f"Plan({len(self.clips)} clips, {sum(self.layout.rows)} windows, {len(self.shards)} shards)"

    @property
    def empty_splits(self) -> tuple[str, ...]:
        """Splits that should have a share of the clips but got no row (small sets drawn by hash)."""
        return tuple(s for s in SPLITS if getattr(self.pipeline.split, s) > 0 and self.layout.n_rows(s) == 0)

    def blocks(self, shards_per_block: int) -> tuple[Block, ...]:
        """Runs of at most shards_per_block consecutive shards of one split, each shard in exactly one.

        A block stops up to half earlier where a clip ends with a shard, since a clip that straddles two blocks is decoded twice.
        """
        require(shards_per_block >= 1, f"{shards_per_block} shards per block")
        blocks: list[Block] = []
        for _, group in groupby(self.shards, key=lambda shard: shard.split):
            shards = tuple(group)
            first = 0
            while first < len(shards):
                full = min(first + shards_per_block, len(shards))
                earliest = first + (shards_per_block + 1) // 2
                last = next((i for i in range(full, earliest - 1, -1) if self._ends_clip(shards[i - 1])), full)
                blocks.append(Block(shards[first:last]))
                first = last
        return tuple(blocks)

    def first_ticks(self) -> I64:
        """Row of each clip's first tick in its split's tick array, int64 (clips,), -1 where no ticks are stored."""
        first = np.full(len(self.clips), -1, dtype=np.int64)
        if self.layout.kind == "frames":
            for shard in self.shards:
                row = self.layout.shard_units(shard.split, shard.index)[0]
                for piece in shard.pieces:
                    first[piece.clip] = row - piece.first
                    row += piece.count
        return first

    def digest(self) -> str:
        """sha256 over all that decides the rows, where they lie and what they are made of; not over where the files lie."""
        clips, pieces = self.clips, [piece for shard in self.shards for piece in shard.pieces]
        columns: tuple[object, ...] = (
            (self.classes, self.layout),
            [clip.id for clip in clips],
            [clip.label for clip in clips],
            [clip.group for clip in clips],
            [(clip.start_ns, clip.end_ns, clip.fps) for clip in clips],
            [clip.imu_offset_ns if clip.imu else None for clip in clips],
            self.splits,
            self.n_ticks.tolist(),
            self.counts.tolist(),
            [(piece.clip, piece.count) for piece in pieces],
        )
        if any(clip.imu_drift_ppm or clip.imu_layout for clip in clips):  # columns that came later: without them digests stay as they were
            columns += ([(clip.imu_drift_ppm, os.path.basename(clip.imu_layout)) for clip in clips],)  # noqa: PTH119
        whole = hashlib.sha256()
        for column in columns:
            whole.update(repr(column).encode("utf-8", "surrogatepass"))
        return whole.hexdigest()

    def summary(self) -> Summary:
        """Clips and windows of each split and class, sizes and spans."""
        of = self.members.clip
        cell = np.array([SPLITS.index(s) for s in self.splits], dtype=np.int64)[of] * len(self.classes) + self.members.label
        splits = [np.array(self.splits, dtype="U5") == split for split in SPLITS]
        interval_s = float(self.pipeline.frame.interval_ns) / 1e9
        return Summary(
            clips=self._table(cell, np.ones_like(cell)),
            before=self._table(cell, self.base_counts[of]),
            after=self._table(cell, self.counts[of]),
            every=np.array([[some[mine].sum() for mine in splits] for some in (np.ones_like(self.counts), self.base_counts, self.counts)]),
            shards=(self.layout.n_shards("train"), self.layout.n_shards("val"), self.layout.n_shards("test")),
            raw_bytes=sum(self.layout.rows) * self.layout.window_bytes,
            raw_bytes_once=int(self.n_ticks[self.counts > 0].sum()) * self.layout.height * self.layout.width * 3,
            interval_s=interval_s,
            span_s=(self.layout.size - 1) * interval_s,
        )

    def _table(self, cell: I64, values: I64) -> I64:
        table = np.zeros(len(SPLITS) * len(self.classes), dtype=np.int64)
        np.add.at(table, cell, values)
        return table.reshape(len(SPLITS), len(self.classes))

    def _ends_clip(self, shard: Shard) -> bool:
        last = shard.pieces[-1]
        return last.first + last.count == int((self.counts if self.layout.kind == "windows" else self.n_ticks)[last.clip])


def make(clips: Sequence[Clip], classes: Sequence[str], n_ticks: I64, pipeline: Pipeline, axes: tuple[str, ...] = ()) -> Plan:
    """Plan a store: split the clips, count and balance their windows, order them, lay them into shards.

    n_ticks int64 (clips,): ticks of each clip, 0 for one that cannot be used; axes: names of the sensor axes. Only numbers and
    names decide: no pixel, no machine, no folder. Raises ValueError for a label that is no class.
    """
    require(len(clips) == len(n_ticks), f"{len(clips)} clips, ticks of {len(n_ticks)}")
    known = set(classes)
    strange = next((clip for clip in clips if not known.issuperset(clip.names)), None)
    require(strange is None, f"clip {strange.id if strange else ''!r} has a label that is no class")
    members = Members.of((clip.names for clip in clips), classes)
    splits = assign_splits(clips, pipeline.split, pipeline.seed)
    base, counts = count_windows(members, np.asarray(n_ticks, dtype=np.int64), splits, pipeline)
    split_of_clip = np.array(splits, dtype="U5")
    shards: list[Shard] = []
    rows, ticks = [], []
    whole = pipeline.store.layout == "windows"
    units = counts if whole else np.asarray(n_ticks, dtype=np.int64)
    per_shard = pipeline.store.windows_per_shard * (1 if whole else pipeline.window.size)  # a shard of about the same size
    for split in SPLITS:
        here = np.flatnonzero((split_of_clip == split) & (counts > 0))
        rows.append(int(counts[here].sum()))
        ticks.append(int(units[here].sum()))
        shards += _fill(_order(_shuffled(here, pipeline.seed, split), units, per_shard), units, split, per_shard)
    return Plan(
        pipeline=pipeline,
        classes=tuple(classes),
        clips=tuple(clips),
        splits=splits,
        members=members,
        n_ticks=np.asarray(n_ticks, dtype=np.int64),
        base_counts=base,
        counts=counts,
        class_weight=class_weight(members, counts, split_of_clip, len(classes)),
        shards=tuple(shards),
        layout=_layout(pipeline, axes, rows, ticks, len(classes) if any(len(clip.names) > 1 for clip in clips) else 0),
    )


def split_of(clip: Clip, shares: Shares, seed: int) -> str:
    """Split of one clip: its row's, or drawn by a hash of seed and group (its video where it has no group) against the shares.

    The same on every machine, and whatever else the manifest holds.
    """
    return clip.split or _draw(clip.group or clip.video, _edges(shares), seed)


def assign_splits(clips: Sequence[Clip], shares: Shares, seed: int) -> tuple[str, ...]:
    """Splits of all clips: like `split_of`, but a row without a split follows the rows of its group that name one, and groups
    that share a video file are drawn as one, so that neither a group nor a file crosses splits unless the manifest says so."""
    linked = _linked_groups(clips)
    keys = [linked.get(group, group) for group in (clip.group or clip.video for clip in clips)]
    named: dict[str, str] = {}
    for key, clip in zip(keys, clips):
        if clip.split:
            named[key] = clip.split if named.get(key, clip.split) == clip.split else ""  # "": the manifest itself divides it
    edges = _edges(shares)
    drawn = {key: named.get(key) or _draw(key, edges, seed) for key in dict.fromkeys(keys)}
    return tuple(clip.split or drawn[key] for key, clip in zip(keys, clips))


def _linked_groups(clips: Sequence[Clip]) -> dict[str, str]:
    """For each group that shares a video with another one: the first name (in sorted order) of all groups so linked."""
    seen: dict[str, str] = {}
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while (above := parent.get(name, name)) != name:
            parent[name] = name = parent.get(above, above)  # halves the path for the next search
        return name

    for clip in clips:
        group = clip.group or clip.video
        other = seen.setdefault(clip.video, group)
        if other != group:
            low, high = sorted((root(group), root(other)))
            parent[low] = parent[high] = low
    return {name: root(name) for name in parent}


def _edges(shares: Shares) -> tuple[tuple[str, float], ...]:
    """Splits with a share, each with the running sum of the shares; the last is 1, whatever rounding says."""
    parts = [(split, float(getattr(shares, split))) for split in SPLITS if getattr(shares, split) > 0]
    sums = np.cumsum([share for _, share in parts]) / sum(share for _, share in parts)
    return (*((split, float(edge)) for (split, _), edge in zip(parts[:-1], sums)), (parts[-1][0], 1.0))


def _draw(name: str, edges: tuple[tuple[str, float], ...], seed: int) -> str:
    """The split whose stretch of [0, 1) holds hash(seed, name)."""
    digest = hashlib.sha256(f"{seed}\0{name}".encode("utf-8", "surrogatepass")).digest()
    value = (int.from_bytes(digest[:8], "big") >> 11) / 2**53  # as many bits as a float64 holds, so that it stays below 1
    return next(split for split, edge in edges if value < edge)


def class_weight(members: Members, counts: I64, splits: NDArray[np.str_], n_classes: int) -> F32:
    """Loss weight of each class, float32 (classes,), from the windows of its training clips; six decimals, as attributes say them."""
    return _rounded(balance.class_weight(members.repeated(np.where(splits == "train", counts, 0)), n_classes))


def positive_weight(members: Members, counts: I64, splits: NDArray[np.str_], n_classes: int) -> F32:
    """Weight of each class's positives, float32 (classes,), from the training windows; six decimals, as attributes say them."""
    trained = np.where(splits == "train", counts, 0)
    return _rounded(balance.positive_weight(members.repeated(trained), int(trained.sum()), n_classes))


def weights(members: Members, counts: I64, splits: NDArray[np.str_], n_classes: int, *, several: bool) -> dict[str, list[float]]:
    """The store's attributes class_weight and, where windows may be of several classes, positive_weight."""
    found = {"class_weight": class_weight(members, counts, splits, n_classes)}
    if several:
        found["positive_weight"] = positive_weight(members, counts, splits, n_classes)
    return {name: [round(float(w), 6) for w in values] for name, values in found.items()}


def _rounded(weights: F32) -> F32:
    return weights.astype(np.float64).round(6).astype(np.float32)


def count_windows(members: Members, n_ticks: I64, splits: Iterable[str], pipeline: Pipeline) -> tuple[I64, I64]:
    """Windows of each clip before and after balancing; only training windows around hotspots are balanced."""
    window = pipeline.window
    of_clip = np.array(list(splits), dtype="U5")
    base = np.zeros(len(n_ticks), dtype=np.int64)
    most = np.zeros(len(n_ticks), dtype=np.int64)
    for split in SPLITS:
        mine = of_clip == split
        lengths, which = np.unique(n_ticks[mine], return_inverse=True)  # far fewer lengths than clips
        base[mine] = np.array([windows.base_count(int(n), window, split) for n in lengths], dtype=np.int64)[which]
        most[mine] = np.array([windows.capacity(int(n), window, split) for n in lengths], dtype=np.int64)[which]
    counts = base.copy()
    if window.placement == "hotspot":
        table, mine = pipeline.balance, of_clip == "train"
        counts[mine] = balance.window_counts(
            members.where(mine), most[mine], per_clip=window.per_clip, method=table.method, max_factor=table.max_factor
        )
    return base, counts


def _shuffled(members: I64, seed: int, split: str) -> I64:
    """Members in random order, from a bit generator's raw stream: numpy promises that one for good, `permutation` only per version."""
    return members[np.argsort(np.random.PCG64([seed, SPLITS.index(split)]).random_raw(len(members)), kind="stable")]


def _order(members: I64, counts: I64, per_shard: int) -> I64:
    """The members as given; but where the next clip would be cut by the shard's end, one of the LOOK_AHEAD next that ends with a
    shard goes first."""
    ahead = iter(zip(members.tolist(), counts[members].tolist()))
    pool = list(islice(ahead, LOOK_AHEAD))
    tails = [count % per_shard for _, count in pool]
    order: list[int] = []
    room = per_shard
    while pool:
        cut = room < pool[0][1] and room < per_shard
        chosen = tails.index(room) if cut and room in tails else 0
        order.append(pool.pop(chosen)[0])
        room = (room - tails.pop(chosen) - 1) % per_shard + 1
        if following := next(ahead, None):
            pool.append(following)
            tails.append(following[1] % per_shard)
    return np.array(order, dtype=np.int64)


def _fill(order: I64, counts: I64, split: str, per_shard: int) -> list[Shard]:
    """Lay clips one after the other into shards of per_shard windows."""
    ends = np.cumsum(counts[order])
    starts = ends - counts[order]
    n_rows = int(ends[-1]) if len(ends) else 0
    opens = np.arange(0, n_rows, per_shard)  # rows that open a shard
    rows = np.union1d(starts, opens)  # a piece begins where a clip or a shard does
    owner = np.searchsorted(starts, rows, side="right") - 1
    parts = zip(order[owner].tolist(), (rows - starts[owner]).tolist(), np.diff(rows, append=n_rows).tolist())
    pieces = tuple(Piece(*part) for part in parts)
    bounds = [*np.searchsorted(rows, opens).tolist(), len(rows)]
    return [Shard(split, i, pieces[bounds[i] : bounds[i + 1]]) for i in range(len(opens))]


def _layout(pipeline: Pipeline, axes: tuple[str, ...], rows: list[int], ticks: list[int], label_classes: int) -> Layout:
    train, val, test = ticks if pipeline.store.layout == "frames" else (0, 0, 0)
    return Layout(
        size=pipeline.window.size,
        margin=pipeline.window.margin,
        height=pipeline.frame.height,
        width=pipeline.frame.width,
        axes=axes,
        codec=pipeline.store.codec,
        windows_per_shard=pipeline.store.windows_per_shard,
        rows=(rows[0], rows[1], rows[2]),
        kind=pipeline.store.layout,
        ticks=(train, val, test),
        quality=pipeline.store.jpeg_quality if pipeline.store.codec == "jpeg" else 0,
        ticks_per_shard=pipeline.store.windows_per_shard * pipeline.window.size if pipeline.store.layout == "frames" else 0,
        label_classes=label_classes,
    )
