"""What the videos and sensor files of a manifest really hold, found without decoding where that can be trusted.

One probe a file however many rows name it; a row that cannot be used becomes a fault, the others go on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from . import imu, resample
from .errors import ClipError
from .pipeline import Pipeline
from .probe import Cache
from .records import I64, Clip, Fault, Manifest, Sensor, Timeline

_FACTS: dict[str, object] = {
    "source_fps": 0.0,
    "source_frames": 0,
    "vfr": False,
    "width": 0,
    "height": 0,
    "rotation": 0,
    "codec": "",
    "container": "",
    "clock": "",
    "repeated_share": 0.0,
}
_SENSOR_FACTS: dict[str, object] = {"imu_hz": 0.0, "imu_cover": 0.0}  # where some row has sensors


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """Per clip of the manifest: n_ticks int64 (C,), 0 where the clip cannot be used; facts: column name -> C values for
    `clips/`; faults: rows left out and warnings about rows kept; axes: sensor axes of the store, units: of each axis, "" where no
    file says it; formats: how sensor files were read, in words, and how many rows were."""

    n_ticks: I64
    facts: dict[str, list[object]]
    faults: tuple[Fault, ...]
    axes: tuple[str, ...]
    units: dict[str, str]
    formats: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Row:
    n_ticks: int
    facts: dict[str, object]
    faults: tuple[Fault, ...]
    axes: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    blank: Fault | None = None  # a note of this row, its words to be filled in


def survey(manifest: Manifest, pipeline: Pipeline, cache: Cache, *, jobs: int = 1, advance: Callable[[], None] = lambda: None) -> Survey:
    """Probe every video and sensor file that the manifest's clips name, `jobs` files at once.

    advance is called once a clip. Raises nothing for a bad file: its rows become faults.
    """

    def one(clips: list[int]) -> list[tuple[int, _Row]]:
        try:
            found: Timeline | ClipError = cache.get(manifest.clips[clips[0]].video, manifest.clips[clips[0]].fps)
        except ClipError as fault:
            found = fault
        rows = []
        for number in clips:
            rows.append((number, _row(manifest.clips[number], found, pipeline)))
            advance()
        return rows

    by_video: dict[tuple[str, str], list[int]] = {}
    for number, clip in enumerate(manifest.clips):
        by_video.setdefault((clip.video, clip.fps), []).append(number)
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        answered = dict(row for rows in pool.map(one, by_video.values()) for row in rows)
    rows = [answered[number] for number in range(len(manifest.clips))]
    units, differ = _units(rows)
    defaults = _FACTS | (_SENSOR_FACTS if units else {})
    return Survey(
        n_ticks=np.array([row.n_ticks for row in rows], np.int64),
        facts={name: [row.facts.get(name, default) for row in rows] for name, default in defaults.items()},
        faults=(*(fault for row in rows for fault in row.faults), *differ),
        axes=pipeline.imu.channels or tuple(units),
        units=units,
        formats=dict(Counter(told for row in rows for told in row.told)),
    )


def _row(clip: Clip, found: Timeline | ClipError, pipeline: Pipeline) -> _Row:
    if isinstance(found, ClipError):
        return _Row(0, {}, (_fault(clip, found),))
    facts = _facts(found)
    try:
        n_ticks, warnings = count_ticks(clip, found, pipeline)
        ticks = resample.ticks(found.last_ns, clip.start_ns, clip.end_ns, pipeline.frame.interval_ns)
        shown = resample.shown_at(found.pts_ns, ticks)
        facts["repeated_share"] = float(np.mean(np.diff(shown) == 0)) if len(shown) > 1 else 0.0
        sensor, more_facts, more = _sensor(clip, found.pts_ns[shown], pipeline)
    except ClipError as fault:
        return _Row(0, facts, (_fault(clip, fault),))
    faults = tuple(_note(clip, note) for note in (*found.notes, *warnings, *more))
    if sensor is None:
        return _Row(n_ticks, facts, faults)
    told = tuple(note for note in sensor.notes if note.startswith(imu.READ_AS))
    units = sensor.units or ("",) * len(sensor.axes)
    return _Row(n_ticks, facts | more_facts, faults, sensor.axes, units, told, _note(clip, ""))


def _note(clip: Clip, text: str) -> Fault:
    return Fault(clip.row, clip.line, clip.video, "note", text, clip.label, warning=True)


def _fault(clip: Clip, fault: ClipError) -> Fault:
    bare = replace_where(fault, clip.video)
    return Fault(clip.row, clip.line, clip.video, fault.kind, bare, clip.label)


def replace_where(fault: ClipError, video: str) -> str:
    """The fault's text without the video's path, which a table of faults names once already."""
    where = "" if fault.where == video else fault.where
    return str(ClipError(fault.what, where=where, remedy=fault.remedy))


def _facts(timeline: Timeline) -> dict[str, object]:
    return {
        "source_fps": float(timeline.fps),
        "source_frames": len(timeline.pts_ns),
        "vfr": timeline.vfr,
        "width": timeline.width,
        "height": timeline.height,
        "rotation": timeline.rotation,
        "codec": timeline.codec,
        "container": timeline.container,
        "clock": timeline.clock,
    }


def count_ticks(clip: Clip, timeline: Timeline, pipeline: Pipeline) -> tuple[int, list[str]]:
    """Ticks that the clip gives, and warnings; raises ClipError (bad_time_range, truncated) where it gives none worth keeping.

    A cut file keeps what it holds when at least `frame.min_whole` of the row's ticks are there.
    """
    interval = pipeline.frame.interval_ns
    last, warnings = timeline.last_ns, []
    period = round(1e9 / timeline.fps) if timeline.fps > 0 else 0
    promised = last + timeline.missing * period
    if clip.start_ns > promised:
        raise ClipError(
            f"start = {clip.start_ns / 1e9:g} s lies after the last frame at {last / 1e9:g} s",
            where=clip.video,
            remedy="correct the row's start",
            kind="bad_time_range",
        )
    here = resample.tick_count(last, clip.start_ns, clip.end_ns, interval)
    if timeline.missing:
        wanted = resample.tick_count(promised, clip.start_ns, clip.end_ns, interval)
        if here < wanted:
            text = f"{here} of {wanted} ticks are there ({timeline.missing} frames missing at the end)"
            if here < pipeline.frame.min_whole * wanted or here == 0:
                remedy = f"fetch the file again, or lower frame.min_whole = {pipeline.frame.min_whole:g}"
                raise ClipError(f"the file is cut: {text}", where=clip.video, remedy=remedy, kind="truncated")
            warnings.append(f"kept in part: {text}")
    if clip.end_ns is not None and clip.end_ns > promised + 2 * period:
        warnings.append(f"end = {clip.end_ns / 1e9:g} s lies after the last frame at {last / 1e9:g} s: cut there")
    return here, warnings


def _sensor(clip: Clip, source_ns: I64, pipeline: Pipeline) -> tuple[Sensor | None, dict[str, object], list[str]]:
    """The clip's sensor rows, facts of them and what is to be said; raises ClipError imu_* where they are of no use."""
    if not clip.imu:
        return None, {}, []
    sensor = imu.of_clip(clip, pipeline.imu)
    axes = pipeline.imu.channels or sensor.axes
    found = imu.aligned(clip, sensor, source_ns, axes, pipeline.imu, pipeline.frame.interval_ns)
    notes = [f"imu: {note}" for note in sensor.notes if not note.startswith(imu.READ_AS)]
    masked = int(len(found.ok) - found.ok.sum())
    if masked:
        notes.append(f"imu: {masked} of {len(found.ok)} ticks have no measured value (imu_ok = false)")
    return sensor, {"imu_hz": imu.rate_hz(sensor), "imu_cover": float(found.ok.mean()) if len(found.ok) else 0.0}, notes


def _units(rows: Sequence[_Row]) -> tuple[dict[str, str], list[Fault]]:
    """Unit of each axis, and a warning where files measure one axis in different units or do not say."""
    units: dict[str, dict[str, Fault | None]] = {}
    for row in rows:
        for axis, unit in zip(row.axes, row.units):
            units.setdefault(axis, {}).setdefault(unit, row.blank)
    faults = []
    for axis, by_unit in units.items():
        if len(by_unit) > 1:
            words = " and ".join(f"{unit or 'of unknown unit'} (row {fault.row})" for unit, fault in by_unit.items() if fault)
            second = next(fault for fault in list(by_unit.values())[1:] if fault)
            what = f'imu: axis {axis!r} is {words}: say the unit in the recipe, [imu] units = {{ {axis} = "..." }}'
            faults.append(replace(second, message=what))
    return {axis: next(iter(by_unit)) for axis, by_unit in units.items()}, faults


def with_limit(manifest: Manifest, limit: int | None) -> Manifest:
    """The manifest's first `limit` clips (all where None); classes stay, so that labels keep their numbers."""
    return manifest if limit is None else replace(manifest, clips=manifest.clips[:limit])
