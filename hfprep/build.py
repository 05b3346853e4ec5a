"""All blocks of a store, as a Dask graph: manifest in, finished store out. Only wiring; what a block does is in `prepare`."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from . import __version__, manifest, plan, probe, store
from .errors import ClipError, HfprepError, ManifestError, StoreError, UsageError
from .isolate import prepare_isolated
from .layout import FORMAT_VERSION
from .pipeline import Pipeline, differences, fingerprint
from .prepare import BlockResult, Stopped, Task, Work, prepare_block
from .records import SPLITS, Clip, Fault, Manifest
from .survey import Survey, survey, with_limit

SHARDS_PER_BLOCK = 4  # about 16 clips: long enough that the scheduler costs nothing, short enough to lose little
BASE_MEMORY = 150 << 20  # the interpreter with its libraries
STORED_SHARE = {"raw": 1.0, "lz4": 0.9, "zstd": 0.7}  # of the raw pixels; measured 0.82 and 0.57 on real windows, with room


class Progress(Protocol):
    """What a build tells while it runs; every call comes from the thread that called build_store."""

    def stage(self, name: str, clips: int) -> None:
        """A stage begins that will handle so many clips."""

    def advance(self, clips: int, frames: int = 0) -> None:
        """So many clips are done, with so many source frames."""


class Silent:
    """Progress for nobody."""

    def stage(self, name: str, clips: int) -> None: ...
    def advance(self, clips: int, frames: int = 0) -> None: ...


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """How a build runs; nothing here changes a byte of the store.

    jobs       blocks at once; None = CPUs that this process may use
    limit      only the manifest's first clips
    on_error   "quarantine" or "stop" at the first clip that cannot be prepared
    overwrite  replace a store that lies at OUT
    engine     "threads", or "processes": each block in a child process, so that a clip that kills its process costs only itself
    clip_timeout_s  with processes: seconds that one clip may take, 0 = any
    cache      folder of probe results; None = the user's cache folder
    """

    jobs: int | None = None
    limit: int | None = None
    on_error: str = "quarantine"
    overwrite: bool = False
    engine: str = "threads"
    clip_timeout_s: float = 0.0
    cache: Path | None = None


@dataclass(frozen=True, slots=True)
class Planned:
    """A manifest surveyed and planned: all that is known before a pixel is decoded."""

    manifest: Manifest
    survey: Survey
    plan: plan.Plan

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Rows left out, in the manifest's order; warnings are not among them."""
        every = (*self.manifest.faults, *self.survey.faults)
        return tuple(sorted((f for f in every if not f.warning), key=lambda f: f.row))

    @property
    def warnings(self) -> tuple[Fault, ...]:
        """What is to be said of rows that are kept."""
        every = (*self.manifest.faults, *self.survey.faults)
        return tuple(sorted((f for f in every if f.warning), key=lambda f: f.row))


@dataclass(frozen=True, slots=True)
class BuildSummary:
    """What a build did.

    out         the finished store
    planned     manifest, survey and plan
    faults      rows that are not (wholly) in the store, with the reason
    windows     good windows in the store
    clips, source_frames, seconds, stored_bytes   for the closing table
    continued   shards that an earlier run had written
    """

    out: Path
    planned: Planned
    faults: tuple[Fault, ...]
    windows: int
    clips: int
    source_frames: int
    seconds: float
    stored_bytes: int
    continued: int


class Interrupted(HfprepError):  # noqa: N818 - the user's wish, not an error
    """The run was interrupted; the store says how far it is."""

    exit_code = 130


def cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_cache() -> Path:
    """Folder of probe results: $HFPREP_CACHE, or hfprep in the user's cache folder."""
    named = os.environ.get("HFPREP_CACHE")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hfprep"


def default_out(source: str | Path) -> Path:
    """The manifest's name with .zarr, in the working directory."""
    return Path(Path(source).stem + ".zarr")


def plan_build(source: str | Path, pipeline: Pipeline, options: BuildOptions = BuildOptions(), progress: Progress = Silent()) -> Planned:  # noqa: B008
    """Read and survey a manifest and plan its store without decoding what can be trusted.

    Raises ManifestError where the whole manifest cannot be used. Rows at fault are listed in the result.
    """
    listed = with_limit(manifest.read(source), options.limit)
    jobs = options.jobs or cpus()
    progress.stage("probing", len(listed.clips))
    cache = probe.Cache(options.cache or default_cache())
    surveyed = survey(listed, pipeline, cache, jobs=jobs, advance=lambda: progress.advance(1))
    made = plan.make(listed.clips, listed.classes, surveyed.n_ticks, pipeline, surveyed.axes)
    return Planned(listed, surveyed, made)


def build_store(
    source: str | Path,
    out: str | Path | None = None,
    pipeline: Pipeline = Pipeline(),  # noqa: B008 - frozen
    *,
    options: BuildOptions = BuildOptions(),
    progress: Progress = Silent(),  # noqa: B008 - stateless
) -> BuildSummary:
    """Build one store from a manifest: decode, resample, align sensors, place windows, write shards.

    source    manifest file (CSV): video,label and optional columns, see manifests/README.md
    out       the store's folder; default: the manifest's name with .zarr in the working directory
    pipeline  the recipe, see `hfprep.load_pipeline`

    Returns a BuildSummary. Raises ManifestError (whole manifest unusable, or no row can be prepared), StoreError (OUT is in
    the way, disk full), Interrupted on Ctrl-C. Rows that fail are quarantined and listed in `faults`.

    >>> summary = build_store("manifests/demo.csv", "demo.zarr")      # doctest: +SKIP
    >>> summary.windows                                               # doctest: +SKIP
    """
    started = time.perf_counter()
    out = Path(out if out is not None else default_out(source)).absolute()
    store.check_target(out)
    planned = plan_build(source, pipeline, options, progress)
    if planned.faults and options.on_error == "stop":
        raise ManifestError(str(planned.faults[0]), where=str(source), remedy="or build with --on-error quarantine", kind="bad_row")
    if not planned.plan.shards:
        reasons = "; ".join(str(f) for f in planned.faults[:3])
        raise ManifestError(
            f"no row can be prepared: {reasons}", where=str(source), remedy="see `hfprep plan` for all rows", kind="no_rows"
        )
    written = _begin(out, planned, options)
    results = _run(out, planned, written, options, progress)
    store.finish(out)
    return _summary(out, planned, results, len(written), time.perf_counter() - started)


def _begin(out: Path, planned: Planned, options: BuildOptions) -> set[tuple[str, int]]:
    """Make the store, or find what an earlier run of the same build has written: the shards that need not be done again."""
    attrs = _attrs(planned)
    state = store.building_state(out)
    changed = _changes(state.attrs, attrs) if state is not None else []
    if changed and not options.overwrite:
        raise StoreError(
            f"holds another build ({'; '.join(changed)})",
            where=str(out),
            remedy="give --overwrite to replace it, or another OUT with -o",
            kind="differs",
        )
    written = set(state.written) if state is not None and not options.overwrite else set()
    _check_disk(out, planned.plan, written)
    if state is not None and options.overwrite:
        store.remove(out)
    if state is None or options.overwrite:
        store.create(out, planned.plan.layout, attrs, _clip_columns(planned))
    return written


def _changes(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What differs between the store's build and this one, in words; empty where this run may go on."""
    changed = differences(old.get("pipeline", {}), new["pipeline"])
    if old.get("format_version") != new["format_version"]:
        changed.append(f"format version {old.get('format_version')} -> {new['format_version']}")
    if not changed and old.get("plan_digest") != new["plan_digest"]:
        changed.append("the manifest or its videos have changed since")
    return changed


def _attrs(planned: Planned) -> dict[str, Any]:
    made = planned.plan
    return {
        "format_version": FORMAT_VERSION,
        "versions": {"hfprep": __version__, **probe.versions(), **store.versions()},
        "pipeline": made.pipeline.model_dump(mode="json"),
        "fingerprint": fingerprint(made.pipeline),
        "plan_digest": made.digest(),
        "manifest": Path(planned.manifest.path).name,
        "classes": list(made.classes),
        "class_weight": [round(float(w), 6) for w in made.class_weight],
        "axes": list(made.layout.axes),
        "faults": [
            {"row": f.row, "line": f.line, "video": f.video, "label": f.label, "kind": f.kind, "message": f.message, "warning": f.warning}
            for f in (*planned.manifest.faults, *planned.survey.faults)
        ],
    }


def _clip_columns(planned: Planned) -> dict[str, list[Any]]:
    """The columns of `clips/` that are known before decoding, one value a clip, in the manifest's order."""
    made = planned.plan
    failed = {f.row: f for f in planned.survey.faults if not f.warning}
    clips = made.clips
    columns: dict[str, list[Any]] = {
        "id": [c.id for c in clips],
        "row": [c.row for c in clips],
        "video": [c.video for c in clips],
        "label": [c.label for c in clips],
        "split": list(made.splits),
        "group": [c.group for c in clips],
        "start_ns": [c.start_ns for c in clips],
        "end_ns": [-1 if c.end_ns is None else c.end_ns for c in clips],
        "imu": [c.imu for c in clips],
        "imu_offset_ns": [c.imu_offset_ns for c in clips],
        "n_ticks": made.n_ticks.tolist(),
        "n_windows": made.counts.tolist(),
        "n_windows_unbalanced": made.base_counts.tolist(),
        **planned.survey.facts,
        "error": [failed[c.row].message if c.row in failed else "" for c in clips],
        "error_kind": [failed[c.row].kind if c.row in failed else "" for c in clips],
    }
    names = dict.fromkeys(name for c in clips for name, _ in c.extra)
    for name in names:
        columns[f"extra_{name}"] = [dict(c.extra).get(name, "") for c in clips]
    return columns


def stored_bytes(made: plan.Plan, written: Collection[tuple[str, int]] = ()) -> int:
    """About how many bytes the shards will take that are not written yet, from above."""
    windows = sum(piece.count for shard in made.shards if (shard.split, shard.index) not in written for piece in shard.pieces)
    return int(windows * made.layout.window_bytes * STORED_SHARE.get(made.layout.codec, 1.0))


def peak_memory_bytes(made: plan.Plan, jobs: int) -> int:
    """About how much memory a build takes: per job one clip (at most the budget), one shard of windows raw and one encoded."""
    layout = made.layout
    longest = int(made.n_ticks.max(initial=0)) * layout.height * layout.width * 3
    clip = min(longest, made.pipeline.store.clip_budget_mb << 20)
    shard = min(layout.windows_per_shard, max(layout.rows)) * layout.window_bytes
    return BASE_MEMORY + jobs * (clip + 2 * shard)


def _check_disk(out: Path, made: plan.Plan, written: set[tuple[str, int]]) -> None:
    """Refuse before work starts where the planned bytes cannot fit."""
    need = stored_bytes(made, written)
    near = next(folder for folder in out.parents if folder.exists())
    free = shutil.disk_usage(near).free
    if need > free:
        raise StoreError(
            f"about {need / 1e9:.1f} GB are needed, {free / 1e9:.1f} GB are free on its disk",
            where=str(out),
            remedy='use another disk with -o, a smaller frame.height/width or window.size, or store.codec = "zstd"',
            kind="no_space",
        )


def _tasks(out: Path, planned: Planned, written: set[tuple[str, int]], options: BuildOptions) -> list[Task]:
    """One task a block that has anything left to write."""
    made = planned.plan
    label = {name: number for number, name in enumerate(made.classes)}
    tasks = []
    for block in made.blocks(SHARDS_PER_BLOCK):
        shards = tuple(s for s in block.shards if (s.split, s.index) not in written)
        if not shards:
            continue
        works = {}
        for number in dict.fromkeys(p.clip for s in shards for p in s.pieces):
            clip: Clip = made.clips[number]
            split = made.splits[number]
            weight = float(made.class_weight[label[clip.label]]) if split == "train" else 1.0
            works[number] = Work(number, clip, split, label[clip.label], weight, int(made.counts[number]), int(made.n_ticks[number]))
        cache = str(options.cache or default_cache())
        tasks.append(Task(str(out), made.layout, made.pipeline, type(block)(shards), works, cache, options.on_error))
    return tasks


def _run(out: Path, planned: Planned, written: set[tuple[str, int]], options: BuildOptions, progress: Progress) -> list[BlockResult]:
    tasks = _tasks(out, planned, written, options)
    progress.stage("building", sum(len(task.works) for task in tasks))
    stop = threading.Event()

    def told(result: BlockResult) -> None:
        progress.advance(len(result.outcomes), result.source_frames)

    try:
        return run_graph(tasks, options, stop.is_set, told)
    except KeyboardInterrupt:
        stop.set()
        done = len(store.written(out, planned.plan.layout))
        raise Interrupted(
            f"interrupted: {done} of {len(planned.plan.shards)} shards are written",
            where=str(out),
            remedy="the same command continues there",
            kind="interrupted",
        ) from None
    except BaseException:
        stop.set()
        raise


def run_graph(
    tasks: Sequence[Task], options: BuildOptions, should_stop: Callable[[], bool], told: Callable[[BlockResult], None]
) -> list[BlockResult]:
    """Run all tasks as one Dask graph, options.jobs at once; told(result) after each block.

    With engine "processes" each of Dask's threads minds a child process. Raises what a block raises; the others end at their
    next clip.
    """
    import dask.threaded  # here and not above: `hfprep plan` needs no scheduler
    from dask.callbacks import Callback

    work: Callable[[Task], BlockResult] = partial(prepare_block, should_stop=should_stop)
    if options.engine == "processes":
        work = partial(prepare_isolated, should_stop=should_stop, clip_timeout_s=options.clip_timeout_s)
    graph: dict[Any, Any] = {("block", number): (work, task) for number, task in enumerate(tasks)}

    def posttask(key: Any, result: Any, dsk: Any, state: Any, worker: Any) -> None:
        if isinstance(result, BlockResult):
            told(result)

    with Callback(posttask=posttask):
        return list(dask.threaded.get(graph, list(graph), num_workers=options.jobs or cpus()))


def _summary(out: Path, planned: Planned, results: list[BlockResult], continued: int, seconds: float) -> BuildSummary:
    opened = store.open_store(out)
    clips = opened.clips
    failed = {f.row for f in planned.faults}
    late = [
        Fault(int(row), planned.plan.clips[k].line, str(video), str(kind), str(error), str(label))
        for k, (row, video, kind, error, label) in enumerate(
            zip(clips["row"], clips["video"], clips["error_kind"], clips["error"], clips["label"])
        )
        if error and int(row) not in failed
    ]
    return BuildSummary(
        out=out,
        planned=planned,
        faults=tuple(sorted((*planned.faults, *late), key=lambda f: f.row)),
        windows=sum(int(np.count_nonzero(opened[split].columns["ok"])) for split in SPLITS if split in opened),
        clips=sum(len(result.outcomes) for result in results),
        source_frames=sum(result.source_frames for result in results),
        seconds=seconds,
        stored_bytes=store.size_bytes(out),
        continued=continued,
    )


__all__ = [
    "BuildOptions", "BuildSummary", "ClipError", "Interrupted", "Planned", "Progress", "Silent", "Stopped", "UsageError",
    "build_store", "cpus", "default_cache", "default_out", "plan_build",
]  # fmt: skip
