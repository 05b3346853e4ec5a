"""What a dataset shows of each window in an epoch: which stored frames, and the columns that go with them. Numbers only, no torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import pipeline, windows
from .errors import UsageError
from .reader import SplitReader, Store
from .records import I64, U8

Values = dict[str, NDArray[Any]]
BLOCK = 1 << 16  # sensor rows that statistics take in one go


@dataclass(frozen=True, slots=True)
class Take:
    """What is taken of a window: t frames, `step` ticks apart, the middle ones.

    jitter  ticks by which the centre moves at most, in each epoch anew
    stride  (low, high): every epoch draws each clip a stride and places its windows anew; None: they stay where they are stored
    seed    of what is drawn
    """

    t: int
    step: int = 1
    jitter: int = 0
    stride: tuple[int, int] | None = None
    seed: int = 0

    @property
    def offsets(self) -> I64:
        """Ticks of the frames, counted from the centre; int64 (t,)."""
        return (np.arange(self.t, dtype=np.int64) - self.t // 2) * self.step


def of(store: Store, split: str, take: Take) -> WholeWindows | ClipTicks:
    """The view of a split; raises UsageError where the stored ticks cannot give what is taken."""
    layout, where = store.layout, str(store.folder)
    once = layout.kind == "frames"
    center, spare = layout.margin + layout.size // 2, 0 if once else take.jitter
    first = center - take.t // 2 * take.step - spare
    last = first + (take.t - 1) * take.step + 2 * spare
    if min(take.t, take.step) < 1 or take.jitter < 0 or first < 0 or last >= layout.length:
        raise UsageError(
            f"t = {take.t}, step = {take.step}, jitter = {take.jitter} reaches from frame {first} to {last}; "
            f"a window holds 0 to {layout.length - 1}, centred on {center}",
            where=where,
            remedy=f"take fewer frames, or {'use `hfprep rewindow`' if once else 'build'} with a larger window.size or window.margin",
            kind="bad_window",
        )
    if take.stride is not None:
        _check_stride(store, split, take.stride)
    if not once:
        return WholeWindows(store[split], take)
    return ClipTicks(store, split, take)


def _check_stride(store: Store, split: str, stride: tuple[int, int]) -> None:
    def refuse(why: str, remedy: str) -> UsageError:
        return UsageError(f"stride = {stride}: {why}", where=str(store.folder), remedy=remedy, kind="bad_stride")

    if len(stride) != 2 or not 1 <= stride[0] <= stride[1]:
        raise refuse("it must be the smallest and the largest stride, in ticks", "take (4, 8), say")
    if store.layout.kind != "frames":
        remedy = "build with --set store.layout=frames, or shift centres within the margin by jitter"
        raise refuse("the store holds whole windows, whose centres are fixed", remedy)
    if not windows.needs_hotspot(pipeline.check(store.pipeline, str(store.folder)).window, split):
        remedy = "leave stride out, or use jitter, or `hfprep rewindow` with windows around hotspots"
        raise refuse(f"windows of {split} do not lie around hotspots", remedy)


class WholeWindows:
    """Of a store that holds every window whole: centres move within what is stored."""

    def __init__(self, reader: SplitReader, take: Take) -> None:
        self._reader, self._take = reader, take
        self._drawn: tuple[int, I64] = (-1, np.zeros(0, np.int64))

    def __reduce__(self) -> tuple[object, ...]:
        return WholeWindows, (self._reader, self._take)

    def load(self) -> None:
        """Read the small columns now."""
        for name in ("clamped", "time_ns", *_sensor_names(self._reader)):
            _ = self._reader.columns[name]

    def shards(self, rows: I64) -> I64:
        """The shard that a window lies in; int64 (n,)."""
        return rows // self._reader.layout.windows_per_shard

    def read(self, rows: I64, epoch: int, out: U8) -> Values:
        """Pixels into `out` u8 (n,t,H,W,3); clamped, imu, imu_ok (n,t,...) and center_ns (n,) beside them."""
        layout, columns = self._reader.layout, self._reader.columns
        center = layout.margin + layout.size // 2 + self._shift(rows, epoch)
        ticks = center[:, None] + self._take.offsets
        self._reader.read_frames(rows, out, ticks[:, 0], self._take.step)
        found = {name: columns[name][rows[:, None], ticks] for name in ("clamped", *_sensor_names(self._reader))}
        return found | {"center_ns": columns["time_ns"][rows, center]}

    def _shift(self, rows: I64, epoch: int) -> I64:
        jitter = self._take.jitter
        if not jitter:
            return np.zeros(len(rows), np.int64)
        if self._drawn[0] != epoch:
            draws = np.random.default_rng([self._take.seed, epoch])
            self._drawn = (epoch, draws.integers(-jitter, jitter + 1, len(self._reader)))
        shifts: I64 = self._drawn[1][rows]
        return shifts


@dataclass(slots=True)
class _Draws:
    """Random numbers of one epoch, for all windows and clips: the same whoever asks for which."""

    epoch: int
    jitter: NDArray[np.float64]  # one a window, 0 to 1
    stride: I64  # one a clip
    placed: dict[int, I64] = field(default_factory=dict)  # centres by clip, as they are asked for


class ClipTicks:
    """Of a store that holds each tick once: centres move anywhere in their clip, to where the recipe allows one
    (`window.max_clamped`). Where a moved window would show a tick that is not ok, it stays where it is stored.
    """

    def __init__(self, store: Store, split: str, take: Take) -> None:
        self._store, self._split, self._take = store, split, take
        self._reader = store[split]
        self._draws: _Draws | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return ClipTicks, (self._store, self._split, self._take)

    def load(self) -> None:
        """Read the small columns now."""
        for name in ("time_ns", "tick_ok", *_sensor_names(self._reader)):
            _ = self._reader.ticks[name]
        _ = self._clip, self._first, self._n_ticks, self._center
        if self._take.jitter or self._take.stride:
            _ = self._begin, self._reach

    @cached_property
    def _max_clamped(self) -> float:
        return pipeline.check(self._store.pipeline, str(self._store.folder)).window.max_clamped

    @cached_property
    def _clip(self) -> I64:
        return self._reader.columns["clip"].astype(np.int64)

    @cached_property
    def _first(self) -> I64:  # each window's clip's first tick
        return np.asarray(self._store.clips["first_tick"], np.int64)[self._clip]

    @cached_property
    def _n_ticks(self) -> I64:
        return np.asarray(self._store.clips["n_ticks"], np.int64)[self._clip]

    @cached_property
    def _center(self) -> I64:  # in the clip; a centre is never clamped, so that the index holds it
        layout = self._reader.layout
        return self._reader.columns["index"][:, layout.margin + layout.size // 2] - self._first

    @cached_property
    def _begin(self) -> I64:  # the first window of each window's clip, whose windows lie together
        _, first, number = np.unique(self._clip, return_index=True, return_inverse=True)
        return first[number]

    @cached_property
    def _reach(self) -> tuple[I64, I64]:
        """First and last allowed centre of each window's clip."""
        lengths, number = np.unique(np.maximum(self._n_ticks, 1), return_inverse=True)
        allowed = [windows.allowed(n, self._reader.layout.size, self._max_clamped) for n in lengths.tolist()]
        low, high = np.array(allowed, np.int64).reshape(-1, 2)[number].T
        return low, high

    def shards(self, rows: I64) -> I64:
        """The shard that a window's centre lies in; int64 (n,)."""
        return (self._first[rows] + self._center[rows]) // self._reader.layout.ticks_per_shard

    def read(self, rows: I64, epoch: int, out: U8) -> Values:
        """Pixels into `out` u8 (n,t,H,W,3); clamped, imu, imu_ok (n,t,...) and center_ns (n,) beside them."""
        columns = self._reader.ticks
        center = self._center[rows]
        if self._take.jitter or self._take.stride:
            moved = self._moved(rows, epoch)
            center = np.where(columns["tick_ok"][self._ticks(rows, moved)[0]].all(axis=1), moved, center)
        ticks, clamped = self._ticks(rows, center)
        self._reader.read_ticks(ticks, out)
        found = {name: columns[name][ticks] for name in _sensor_names(self._reader)}
        return found | {"clamped": clamped, "center_ns": columns["time_ns"][self._first[rows] + center]}

    def _ticks(self, rows: I64, center: I64) -> tuple[I64, NDArray[np.bool_]]:
        wanted = center[:, None] + self._take.offsets
        local = np.clip(wanted, 0, self._n_ticks[rows][:, None] - 1)
        return self._first[rows][:, None] + local, local != wanted

    def _moved(self, rows: I64, epoch: int) -> I64:
        """Centres of this epoch, in their clips."""
        draws = self._draws
        if draws is None or draws.epoch != epoch:
            random = np.random.default_rng([self._take.seed, epoch])
            low, high = self._take.stride or (1, 1)
            number = len(self._store.clips["first_tick"])
            self._draws = draws = _Draws(epoch, random.random(len(self._reader)), random.integers(low, high + 1, number))
        center = self._center[rows]
        if self._take.stride is not None:
            center = np.array([self._placed(row, draws) for row in rows.tolist()], np.int64)
        first = np.maximum(center - self._take.jitter, np.minimum(self._reach[0][rows], center))
        last = np.minimum(center + self._take.jitter, np.maximum(self._reach[1][rows], center))
        moved: I64 = first + (draws.jitter[rows] * (last - first + 1)).astype(np.int64)
        return moved

    def _placed(self, row: int, draws: _Draws) -> int:
        """The centre of a window when its clip's windows lie around the same hotspot at this epoch's stride."""
        clip, begin = int(self._clip[row]), int(self._begin[row])
        if clip not in draws.placed:
            draws.placed[clip] = windows.place(
                int(self._n_ticks[row]),
                int(self._center[begin]),  # the hotspot comes first
                size=self._reader.layout.size,
                count=int(np.searchsorted(self._begin, begin, side="right")) - begin,
                stride=int(draws.stride[clip]),
                max_clamped=self._max_clamped,
            )
        return int(draws.placed[clip][row - begin])


class AxisStats(NamedTuple):
    """Mean and standard deviation of each sensor axis, float64 (M,), NaN where it was never measured; known: values counted, int64 (M,)."""

    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    known: I64


def axis_stats(reader: SplitReader) -> AxisStats:
    """Statistics of a split's sensor axes as its windows show them: every frame of every usable window once, margins left out.

    Unknown values (NaN) are left out, axis by axis. The sums are float64, in two passes; both layouts give the same.
    """
    axes = len(reader.layout.axes)
    count, total, square = np.zeros(axes), np.zeros(axes), np.zeros(axes)
    if not axes:
        return AxisStats(total, square, count.astype(np.int64))
    for values, times in _sensor_blocks(reader):
        count += (times * ~np.isnan(values)).sum(axis=0)
        total += np.nansum(times * values, axis=0)
    with np.errstate(invalid="ignore"):
        mean = total / count
        for values, times in _sensor_blocks(reader):
            square += np.nansum(times * (values - mean) ** 2, axis=0)
        return AxisStats(mean, np.sqrt(square / count), count.astype(np.int64))


def _sensor_blocks(reader: SplitReader) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Sensor values (n,M), and how often they are shown (n,1)."""
    layout, columns = reader.layout, reader.columns
    rows, middle = np.flatnonzero(columns["ok"]), slice(layout.margin, layout.margin + layout.size)
    if layout.kind == "frames":
        times = np.bincount(columns["index"][rows, middle].ravel(), minlength=layout.n_units(reader.split)).astype(np.float64)
        shown = np.flatnonzero(times)
        for some in np.array_split(shown, -(-len(shown) // BLOCK) or 1):
            yield reader.ticks["imu"][some].astype(np.float64), times[some, None]
        return
    for some in np.array_split(rows, -(-len(rows) * layout.size // BLOCK) or 1):
        values = columns["imu"][some, middle].astype(np.float64)
        yield values.reshape(-1, values.shape[-1]), np.ones((1, 1))


def _sensor_names(reader: SplitReader) -> tuple[str, ...]:
    return ("imu", "imu_ok") if reader.layout.axes else ()
