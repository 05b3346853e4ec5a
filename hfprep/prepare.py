"""One block end to end: its clips one after the other, its shards written whole. Knows no scheduler.

Where the placement looks for a hotspot, the whole clip is decoded: once where its ticks fit into `store.clip_budget_mb`, else once
for the energy and once more for the ticks of its windows. Where it does not, only the ticks that the block's windows need are
decoded. Windows are filled as many at a time as the budget holds; every way gives the same bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import action, decode, hotspot, imu, resample, store, windows
from .errors import ClipError, StoreError
from .layout import Layout
from .pipeline import Pipeline
from .probe import Cache
from .records import F32, I64, Aligned, Block, Bool, Clip, ClipOutcome, Frames, Hotspot, Timeline
from .sheet import Place, Sheet

MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Work:
    """One clip as a block needs it: number in `clips/`, split, numbers of its labels, loss weight, windows planned, ticks planned."""

    number: int
    clip: Clip
    split: str
    labels: tuple[int, ...]
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
    desk = _Desk(task)
    outcomes: list[ClipOutcome] = []
    for number, places in _clips(task.block):
        if should_stop():
            raise Stopped
        began(number)
        outcomes.append(_prepare_clip(task.works[number], places, desk, task))
    n_windows = sum(piece.count for shard in task.block.shards for piece in shard.pieces)
    return BlockResult(len(task.block.shards), n_windows, desk.source_frames, tuple(outcomes), time.perf_counter() - started)


def _clips(block: Block) -> Iterator[tuple[int, list[Place]]]:
    """The block's clips in row order, each with all its places, so that it is decoded once."""
    places: dict[int, list[Place]] = {}
    for position, shard in enumerate(block.shards):
        row = 0
        for piece in shard.pieces:
            places.setdefault(piece.clip, []).append(Place(position, row, piece))
            row += piece.count
    yield from places.items()


class _Desk:
    """The block's open sheets: one is opened by the first clip that fills rows of it and written by the last."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._open: dict[int, Sheet] = {}
        self.source_frames = 0

    def sheet(self, place: Place) -> Sheet:
        """The sheet of a place."""
        if place.shard not in self._open:
            self._open[place.shard] = Sheet.blank(self._task.block.shards[place.shard], self._task.layout)
        return self._open[place.shard]

    def close(self, place: Place, work: Work, outcome: ClipOutcome) -> None:
        """The place is done, well or not: label its rows, and write the shard when nothing is left to do in it."""
        sheet = self.sheet(place)
        rows = slice(place.row, place.row + place.piece.count)
        if outcome.error:
            sheet.wipe(rows)
        whole = self._task.layout.kind == "windows"
        told = {"clip": work.number, "weight": work.weight} if whole else {"tick_clip": work.number}
        for name, value in told.items():
            sheet.columns[name][rows] = value
        if "labels" in sheet.columns:
            sheet.columns["labels"][rows, list(work.labels)] = True
        elif whole:
            sheet.columns["label"][rows] = work.labels[0]
        sheet.outcomes.append(outcome)
        sheet.left -= place.piece.count
        if not sheet.left:
            store.write_shard(self._task.out, self._task.layout, self._open.pop(place.shard).data())


def _prepare_clip(work: Work, places: list[Place], desk: _Desk, task: Task) -> ClipOutcome:
    done = 0
    outcome = ClipOutcome(work.number)
    try:
        if work.number in task.banned:
            kind, text = task.banned[work.number]
            raise ClipError(text, where=work.clip.video, remedy="check the file in a player", kind=kind)
        for place, told in _filled(work, places, desk, task):
            desk.close(place, work, told)
            done += 1
            outcome = outcome if outcome.error else told
        return outcome
    except ClipError as fault:
        if task.on_error == "stop":
            raise
        where = "" if fault.where == work.clip.video else fault.where
        kind, text = fault.kind, str(ClipError(fault.what, where=where, remedy=fault.remedy))
    except (StoreError, MemoryError):
        raise
    except Exception as fault:
        if task.on_error == "stop":
            raise
        kind, text = "internal", f"{type(fault).__name__}: {fault}; please report this with the file"
    outcome = ClipOutcome(work.number, error=text, error_kind=kind)
    for place in places[done:]:
        desk.close(place, work, outcome)
    return outcome


@dataclass(frozen=True, slots=True, eq=False)
class _Placed:
    """All units of one clip (its windows, or its ticks), without pixels.

    ticks (T,) and what is shown at them; index (units,L) into the ticks, L = 1 for a tick; energy (T,) or None where none was looked
    for; clamped (units,L) and centers (units,) of windows.
    """

    timeline: Timeline
    ticks: I64
    source_ns: I64
    index: I64
    sensor: Aligned | None
    energy: F32 | None
    clamped: Bool
    centers: I64

    def needs(self, places: list[Place]) -> I64:
        """Ticks that the units of some places hold, sorted, each once."""
        return np.unique(np.concatenate([self.index[p.piece.first : p.piece.first + p.piece.count] for p in places]))


def _filled(work: Work, places: list[Place], desk: _Desk, task: Task) -> Iterator[tuple[Place, ClipOutcome]]:
    """Fill the clip's places one after the other; a place is given out when its rows are filled, with what became of it.

    Raises ClipError where the whole clip is of no use.
    """
    pipeline, layout = task.pipeline, task.layout
    timeline = Cache(task.cache).get(work.clip.video, work.clip.fps)
    ticks = resample.ticks(timeline.last_ns, work.clip.start_ns, work.clip.end_ns, pipeline.frame.interval_ns)
    if len(ticks) != work.n_ticks:
        what = f"the video gives {len(ticks)} ticks, {work.n_ticks} were planned"
        raise ClipError(what, where=work.clip.video, remedy="the file changed after the plan was made: build again", kind="changed")
    shown = resample.shown_at(timeline.pts_ns, ticks)
    repeated = float(np.mean(np.diff(shown) == 0)) if len(shown) > 1 else 0.0
    outcome = ClipOutcome(work.number, len(ticks), repeated_share=repeated)
    geometry = decode.Geometry(layout.height, layout.width, pipeline.frame.fit)
    source_ns = timeline.pts_ns[shown]
    sensor = _sensor(work.clip, source_ns, task)
    spot, energy, frames = None, None, None
    if windows.needs_hotspot(pipeline.window, work.split):
        spot, energy, frames, ok = _hotspot(timeline, ticks, shown, geometry, pipeline)
        if "imu" in pipeline.hotspot.method:
            spot, energy, notes = _moved(spot, energy, sensor, task)
            outcome = replace(outcome, notes=notes)
        outcome = _judged(replace(outcome, hotspot_ns=int(ticks[spot.tick]), hotspot_score=spot.score), ok, pipeline)
        if outcome.error:
            raise ClipError(outcome.error, where=work.clip.video, kind=outcome.error_kind)
    centers = windows.centers(len(ticks), spot, pipeline.window, work.split, work.count)
    if layout.kind == "windows":
        index, clamped = windows.clamp(centers, layout.size, len(ticks), layout.margin)
    else:
        index, clamped = np.arange(len(ticks))[:, None], np.zeros((len(ticks), 1), np.bool_)
        outcome = replace(outcome, centers=tuple(centers.tolist()))
    placed = _Placed(timeline, ticks, source_ns, index, sensor, energy, clamped, centers)
    for group in [places] if frames is not None else _groups(places, placed, pipeline, layout):
        held = placed.needs(group) if frames is None else np.arange(len(ticks))
        part = decode.frames(timeline, ticks[held], geometry) if frames is None else frames
        desk.source_frames += int(shown[held[-1]] - shown[held[0]]) + 1
        for place in group:
            _fill(desk.sheet(place), place, placed, part, held, layout)
            told = outcome
            if frames is None and spot is None:  # judged by what was looked at, which is the same in any block
                told = _judged(outcome, part.ok[np.searchsorted(held, placed.needs([place]))], pipeline)
            yield place, told


def _judged(outcome: ClipOutcome, ok: Bool, pipeline: Pipeline) -> ClipOutcome:
    """The outcome with what is to be said of damaged ticks: a note while at least frame.min_whole of them are whole, else an error."""
    whole = int(ok.sum())
    if whole == len(ok):
        return outcome
    text = f"{len(ok) - whole} of {len(ok)} ticks are damaged"
    if whole == 0:
        return replace(outcome, error="no frame could be decoded; check the file in a player", error_kind="no_frames")
    if whole < pipeline.frame.min_whole * len(ok):
        remedy = f"fetch the file again, or lower frame.min_whole = {pipeline.frame.min_whole:g}"
        return replace(outcome, error=f"{text}; {remedy}", error_kind="damaged")
    return replace(outcome, notes=(*outcome.notes, f"kept in part: {text}"))


def _hotspot(
    timeline: Timeline, ticks: I64, shown: I64, geometry: decode.Geometry, pipeline: Pipeline
) -> tuple[Hotspot, F32 | None, Frames | None, Bool]:
    """The hotspot, the energy that it was found in, the clip's frames where they fit into the budget, and whether each tick is whole."""
    size, center, energy = pipeline.window.size, Hotspot(len(ticks) // 2, 0.0), None
    if len(ticks) * geometry.height * geometry.width * 3 <= pipeline.store.clip_budget_mb * MEGABYTE:
        frames = decode.frames(timeline, ticks, geometry)
        if pipeline.hotspot.method != "center" and frames.ok.any():
            center, energy = action.in_frames(frames, size, pipeline.hotspot.camera)
        return center, energy, frames, frames.ok
    found, energy, ok = action.in_file(timeline, shown, geometry, size, pipeline.hotspot.camera)
    return (center, None, None, ok) if pipeline.hotspot.method == "center" else (found, energy, None, ok)


def _moved(spot: Hotspot, picture: F32 | None, sensor: Aligned | None, task: Task) -> tuple[Hotspot, F32 | None, tuple[str, ...]]:
    """Hotspot and energy by the sensor, or by it and the picture; the picture's own and a note where the sensor says nothing."""
    moved = None if sensor is None else hotspot.sensor_energy(sensor, task.layout.axes)
    if moved is None or not moved.any():
        return spot, picture, (f"hotspot.method = {task.pipeline.hotspot.method}, but no sensor motion is there: found in the picture",)
    if task.pipeline.hotspot.method == "motion+imu" and picture is not None:
        moved = hotspot.together(picture, moved)
    return hotspot.find(moved, task.pipeline.window.size), moved, ()


def _sensor(clip: Clip, source_ns: I64, task: Task) -> Aligned | None:
    if not task.layout.axes:
        return None
    if not clip.imu:
        missing = np.full((len(source_ns), len(task.layout.axes)), np.nan, np.float32)
        return Aligned(missing, np.zeros(len(source_ns), np.bool_))
    recipe = task.pipeline
    return imu.aligned(clip, imu.of_clip(clip, recipe.imu), source_ns, task.layout.axes, recipe.imu, recipe.frame.interval_ns)


def _groups(places: list[Place], placed: _Placed, pipeline: Pipeline, layout: Layout) -> Iterator[list[Place]]:
    """Consecutive places whose ticks fit into the budget together."""
    most = max(1, (pipeline.store.clip_budget_mb * MEGABYTE) // (layout.height * layout.width * 3))
    group: list[Place] = []
    for place in places:
        if group and len(placed.needs([*group, place])) > most:
            yield group
            group = []
        group.append(place)
    yield group


def _fill(sheet: Sheet, place: Place, placed: _Placed, frames: Frames, held: I64, layout: Layout) -> None:
    """Copy a place's units into its rows; held: the ticks whose frames are at hand, sorted."""
    rows = slice(place.row, place.row + place.piece.count)
    mine = slice(place.piece.first, place.piece.first + place.piece.count)
    index = placed.index[mine]
    at = np.searchsorted(held, index)
    np.take(frames.frames, at, axis=0, out=sheet.frames[rows].reshape(*at.shape, *frames.frames.shape[1:]))
    fill = _windows if layout.kind == "windows" else _ticks
    for name, values in fill(placed, mine, frames.ok[at]).items():
        sheet.columns[name][rows] = values
    if placed.sensor is not None:
        index = index if layout.kind == "windows" else index[:, 0]
        sheet.columns["imu"][rows] = placed.sensor.values[index]
        sheet.columns["imu_ok"][rows] = placed.sensor.ok[index]


def _windows(placed: _Placed, mine: slice, ok: Bool) -> dict[str, NDArray[Any]]:
    """Columns of some of a clip's windows; ok (n,L): whether each frame is whole."""
    index = placed.index[mine]
    return {
        "time_ns": placed.ticks[index],
        "source_ns": placed.source_ns[index],
        "clamped": placed.clamped[mine],
        "center_ns": placed.ticks[placed.centers[mine]],
        "ok": np.all(ok, axis=1),
    }


def _ticks(placed: _Placed, mine: slice, ok: Bool) -> dict[str, NDArray[Any]]:
    """Columns of some of a clip's ticks; ok (n,1)."""
    energy = np.full(len(placed.ticks), np.nan, np.float32) if placed.energy is None else placed.energy
    return {"time_ns": placed.ticks[mine], "source_ns": placed.source_ns[mine], "tick_ok": ok[:, 0], "energy": energy[mine]}
