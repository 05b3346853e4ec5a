"""One block end to end: its clips one after the other, its shards written whole. Knows no scheduler.

A clip whose ticks fit into `store.clip_budget_mb` is decoded once, whole. A longer one is never held: its energy comes from a
first pass, then only the ticks of its windows are decoded, as many windows at a time as the budget holds. Both ways give the
same bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from . import decode, hotspot, imu, resample, store, windows
from .errors import ClipError, StoreError
from .layout import Layout
from .pipeline import Pipeline
from .probe import Cache
from .records import F32, I64, U8, Aligned, Block, Bool, Clip, ClipOutcome, Frames, Hotspot, Piece, Shard, ShardData, Timeline

MEGABYTE = 1 << 20
ENERGY_BATCH = 64  # ticks whose small grey pictures are computed at once in the first pass over a long clip


@dataclass(frozen=True, slots=True)
class Work:
    """One clip as a block needs it: number in `clips/`, split, label's number, loss weight, windows planned, ticks planned."""

    number: int
    clip: Clip
    split: str
    label: int
    weight: float
    count: int
    n_ticks: int


@dataclass(frozen=True, slots=True)
class Task:
    """What one task is given: small, picklable, no pixels."""

    out: str
    layout: Layout
    pipeline: Pipeline
    block: Block
    works: dict[int, Work]
    cache: str
    on_error: str = "quarantine"
    banned: dict[int, tuple[str, str]] = field(default_factory=dict)  # clip -> kind and reason: not tried again


@dataclass(frozen=True, slots=True)
class BlockResult:
    """What one task gives back: counts, outcomes of its clips, seconds; never frames."""

    shards: int
    windows: int
    source_frames: int
    outcomes: tuple[ClipOutcome, ...]
    seconds: float


class Stopped(Exception):  # noqa: N818 - not an error: the user asked for it
    """The run was asked to stop between two clips."""


def prepare_block(
    task: Task, should_stop: Callable[[], bool] = lambda: False, began: Callable[[int], None] = lambda _: None
) -> BlockResult:
    """Prepare all clips of a block and write its shards; began(clip) is called before each clip.

    Raises StoreError where the store cannot be written, Stopped when should_stop() says so between two clips, ClipError only
    with on_error = "stop". A clip that fails leaves its rows `ok = false` with the reason.
    """
    started = time.perf_counter()
    sheets = {position: _Sheet.blank(shard, task.layout) for position, shard in enumerate(task.block.shards)}
    outcomes: list[ClipOutcome] = []
    source_frames = n_windows = 0
    for number, places in _clips(task.block):
        if should_stop():
            raise Stopped
        began(number)
        work = task.works[number]
        for position, offset, piece in places:
            sheets[position].label_rows(offset, piece.count, work)
        outcome, frames_read = _prepare_clip(work, places, sheets, task)
        source_frames += frames_read
        n_windows += sum(piece.count for _, _, piece in places)
        outcomes.append(outcome)
        for position, _, piece in places:
            sheet = sheets[position]
            sheet.left -= piece.count
            sheet.outcomes.append(outcome)
            if not sheet.left:
                store.write_shard(task.out, task.layout, sheets.pop(position).data())
    return BlockResult(len(task.block.shards), n_windows, source_frames, tuple(outcomes), time.perf_counter() - started)


Place = tuple[int, int, Piece]  # position of the shard in the block, first row in the shard, piece


def _clips(block: Block) -> Iterator[tuple[int, list[Place]]]:
    """The block's clips in row order, each with all its places, so that it is decoded once."""
    places: dict[int, list[Place]] = {}
    for position, shard in enumerate(block.shards):
        offset = 0
        for piece in shard.pieces:
            places.setdefault(piece.clip, []).append((position, offset, piece))
            offset += piece.count
    yield from places.items()


@dataclass(slots=True)
class _Sheet:
    """A shard being filled. Pages of rows that are never filled cost nothing: zeros come from the kernel."""

    shard: Shard
    frames: U8
    columns: dict[str, NDArray[np.generic]]
    left: int
    outcomes: list[ClipOutcome] = field(default_factory=list)

    @classmethod
    def blank(cls, shard: Shard, layout: Layout) -> _Sheet:
        n = sum(piece.count for piece in shard.pieces)
        frames = np.zeros((n, layout.length, layout.height, layout.width, 3), np.uint8)
        columns: dict[str, NDArray[np.generic]] = {
            spec.name: np.zeros((n, *spec.shape[1:]), spec.dtype) for spec in layout.columns(shard.split) if spec.name != "digest"
        }
        if "imu" in columns:
            columns["imu"][:] = np.nan
        return cls(shard, frames, columns, n)

    def label_rows(self, offset: int, count: int, work: Work) -> None:
        rows = slice(offset, offset + count)
        for name, value in (("label", work.label), ("clip", work.number), ("weight", work.weight)):
            self.columns[name][rows] = value

    def data(self) -> ShardData:
        return ShardData(self.shard.split, self.shard.index, self.frames, self.columns, tuple(self.outcomes))


@dataclass(frozen=True, slots=True, eq=False)
class _Placed:
    """All windows of one clip, without pixels: ticks (T,) and what is shown at them, index (N,L) into the ticks."""

    timeline: Timeline
    ticks: I64
    source_ns: I64
    index: I64
    clamped: Bool
    centers: I64
    sensor: Aligned | None


def _prepare_clip(work: Work, places: list[Place], sheets: dict[int, _Sheet], task: Task) -> tuple[ClipOutcome, int]:
    try:
        if work.number in task.banned:
            kind, text = task.banned[work.number]
            raise ClipError(text, where=work.clip.video, remedy="check the file in a player", kind=kind)
        return _fill_clip(work, places, sheets, task)
    except ClipError as fault:
        if task.on_error == "stop":
            raise
        kind, text = (
            fault.kind,
            str(ClipError(fault.what, where="" if fault.where == work.clip.video else fault.where, remedy=fault.remedy)),
        )
    except (StoreError, MemoryError):
        raise
    except Exception as fault:
        if task.on_error == "stop":
            raise
        kind, text = "internal", f"{type(fault).__name__}: {fault}; please report this with the file"
    for position, offset, piece in places:  # rows filled before the fault are not to be trusted
        rows = slice(offset, offset + piece.count)
        sheet = sheets[position]
        sheet.frames[rows] = 0
        for name in set(sheet.columns) - {"label", "clip", "weight"}:
            sheet.columns[name][rows] = np.nan if name == "imu" else 0
    return ClipOutcome(work.number, error=text, error_kind=kind), 0


def _fill_clip(work: Work, places: list[Place], sheets: dict[int, _Sheet], task: Task) -> tuple[ClipOutcome, int]:
    pipeline, layout = task.pipeline, task.layout
    timeline = Cache(task.cache).get(work.clip.video)
    ticks = resample.ticks(timeline.last_ns, work.clip.start_ns, work.clip.end_ns, pipeline.frame.interval_ns)
    if len(ticks) != work.n_ticks:
        what = f"the video gives {len(ticks)} ticks, {work.n_ticks} were planned"
        raise ClipError(what, where=work.clip.video, remedy="the file changed after the plan was made: build again", kind="changed")
    shown = resample.shown_at(timeline.pts_ns, ticks)
    geometry = decode.Geometry(layout.height, layout.width, pipeline.frame.fit)
    whole = len(ticks) * layout.height * layout.width * 3 <= pipeline.store.clip_budget_mb * MEGABYTE
    frames = decode.frames(timeline, ticks, geometry) if whole else None
    spot, ok_share = _hotspot(work, timeline, ticks, shown, frames, geometry, pipeline)
    notes: tuple[str, ...] = ()
    if ok_share < 1:
        text = f"{round((1 - ok_share) * len(ticks))} of {len(ticks)} ticks are damaged"
        if ok_share == 0:
            raise ClipError("no frame could be decoded", where=work.clip.video, remedy="check the file in a player", kind="no_frames")
        if ok_share < pipeline.frame.min_whole:
            remedy = f"fetch the file again, or lower frame.min_whole = {pipeline.frame.min_whole:g}"
            raise ClipError(text, where=work.clip.video, remedy=remedy, kind="damaged")
        notes = (f"kept in part: {text}",)
    centers = windows.centers(len(ticks), None if spot is None else spot.tick, pipeline.window, work.split, work.count)
    index, clamped = windows.clamp(centers, layout.size, len(ticks), layout.margin)
    placed = _Placed(timeline, ticks, timeline.pts_ns[shown], index, clamped, centers, _sensor(work.clip, timeline.pts_ns[shown], task))
    for group in _groups(places, index, frames, pipeline, layout):
        _fill_group(group, placed, frames, geometry, sheets)
    repeated = float(np.mean(np.diff(shown) == 0)) if len(shown) > 1 else 0.0
    outcome = ClipOutcome(
        work.number,
        len(ticks),
        int(ticks[spot.tick]) if spot else -1,
        spot.score if spot else float("nan"),
        repeated,
        notes=notes,
    )
    return outcome, int(shown[-1]) - int(shown[0]) + 1


def _hotspot(
    work: Work, timeline: Timeline, ticks: I64, shown: I64, frames: Frames | None, geometry: decode.Geometry, pipeline: Pipeline
) -> tuple[Hotspot | None, float]:
    """The hotspot where the placement needs one, and the share of whole ticks as far as they were looked at."""
    size = pipeline.window.size
    needed = windows.needs_hotspot(pipeline.window, work.split)
    if frames is not None:
        share = float(frames.ok.mean())
        if not needed:
            return None, share
        if pipeline.hotspot.method == "center":
            return Hotspot(len(ticks) // 2, 0.0), share
        return hotspot.find(hotspot.motion_energy(_carried(hotspot.luma(frames.frames), frames.ok)), size), share
    if not needed:
        return None, 1.0  # damaged ticks show in their windows alone
    if pipeline.hotspot.method == "center":
        return Hotspot(len(ticks) // 2, 0.0), 1.0
    luma, seen = _small_pictures(timeline, shown, geometry)
    return hotspot.find(hotspot.motion_energy(luma), size), float(seen.mean())


def _small_pictures(timeline: Timeline, shown: I64, geometry: decode.Geometry) -> tuple[F32, Bool]:
    """First pass over a long clip: small grey pictures of all ticks, a batch of frames in memory at a time."""
    wanted, back = np.unique(shown, return_inverse=True)
    position = {int(frame): k for k, frame in enumerate(wanted)}
    small: F32 | None = None
    ok = np.zeros(len(wanted), np.bool_)
    batch: list[U8] = []
    where: list[int] = []

    def flush() -> None:
        nonlocal small
        if batch:
            grey = hotspot.luma(np.stack(batch))
            if small is None:
                small = np.zeros((len(wanted), *grey.shape[1:]), np.float32)
            small[where] = grey
            batch.clear()
            where.clear()

    for frame, picture, intact in decode.shown(timeline, wanted, geometry):
        batch.append(picture.copy())
        where.append(position[frame])
        ok[position[frame]] = intact
        if len(batch) == ENERGY_BATCH:
            flush()
    flush()
    if small is None:
        raise ClipError("no frame could be decoded", where=timeline.path, remedy="check the file in a player", kind="no_frames")
    return _carried(small[back], ok[back]), ok[back]


def _carried(luma: F32, ok: Bool) -> F32:
    """Small pictures with damaged ones replaced by the last whole one before (at the start: the first whole one), so that damage
    is no motion."""
    last = np.maximum.accumulate(np.where(ok, np.arange(len(ok)), -1))
    return luma[np.where(last < 0, int(np.argmax(ok)), last)]


def _sensor(clip: Clip, source_ns: I64, task: Task) -> Aligned | None:
    if not task.layout.axes:
        return None
    if not clip.imu:
        missing = np.full((len(source_ns), len(task.layout.axes)), np.nan, np.float32)
        return Aligned(missing, np.zeros(len(source_ns), np.bool_))
    max_gap_ns = round(task.pipeline.imu.max_gap_ms * 1e6)
    return imu.align(
        imu.read(clip.imu), source_ns, axes=task.layout.axes, offset_ns=clip.imu_offset_ns, max_gap_ns=max_gap_ns, where=clip.imu
    )


def _groups(places: list[Place], index: I64, frames: Frames | None, pipeline: Pipeline, layout: Layout) -> Iterator[list[Place]]:
    """Consecutive places whose ticks fit into the budget together; one group where the whole clip is in memory."""
    if frames is not None:
        yield places
        return
    most = max(1, (pipeline.store.clip_budget_mb * MEGABYTE) // (layout.height * layout.width * 3))
    group: list[Place] = []
    ticks: I64 = np.empty(0, np.int64)
    for place in places:
        piece = place[2]
        more = np.union1d(ticks, index[piece.first : piece.first + piece.count])
        if group and len(more) > most:
            yield group
            group, more = [], np.unique(index[piece.first : piece.first + piece.count])
        group.append(place)
        ticks = more
    yield group


def _fill_group(group: list[Place], placed: _Placed, frames: Frames | None, geometry: decode.Geometry, sheets: dict[int, _Sheet]) -> None:
    rows = np.concatenate([np.arange(p.first, p.first + p.count) for _, _, p in group])
    if frames is None:
        needed = np.unique(placed.index[rows])
        frames = decode.frames(placed.timeline, placed.ticks[needed], geometry)
    else:
        needed = np.arange(len(placed.ticks))
    for position, offset, piece in group:
        sheet, at = sheets[position], slice(offset, offset + piece.count)
        index = placed.index[piece.first : piece.first + piece.count]
        np.take(frames.frames, np.searchsorted(needed, index), axis=0, out=sheet.frames[at])
        columns = sheet.columns
        columns["time_ns"][at] = placed.ticks[index]
        columns["source_ns"][at] = placed.source_ns[index]
        columns["clamped"][at] = placed.clamped[piece.first : piece.first + piece.count]
        columns["center_ns"][at] = placed.ticks[placed.centers[piece.first : piece.first + piece.count]]
        columns["ok"][at] = frames.ok[np.searchsorted(needed, index)].all(axis=1)
        if placed.sensor is not None:
            columns["imu"][at] = placed.sensor.values[index]
            columns["imu_ok"][at] = placed.sensor.ok[index]
