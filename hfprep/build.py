"""Manifest in, finished store out: plan, make or continue the store, run its blocks, finish. What a block does is in `prepare`."""

from __future__ import annotations

import shutil
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import plan, store
from .errors import HfprepError, ManifestError, StoreError
from .graph import run_graph
from .pipeline import Pipeline, differences
from .planned import (
    DEFAULT_PIPELINE,
    DEFAULTS,
    SILENT,
    BuildOptions,
    Planned,
    Progress,
    attributes,
    clip_columns,
    default_cache,
    plan_build,
    stored_bytes,
)
from .prepare import BlockResult, Task, Work
from .records import SPLITS, Clip, Fault

SHARDS_PER_BLOCK = 4  # about 16 clips: long enough that the scheduler costs nothing, short enough to lose little


@dataclass(frozen=True, slots=True)
class BuildSummary:
    """What a build did.

    out         the finished store
    planned     manifest, survey and plan
    faults      rows that are not (wholly) in the store, with the reason
    windows     good windows in the store
    clips, source_frames, seconds, stored_bytes   for the closing table
    continued   shards that an earlier run had written
    partial     warnings of clips that are kept though some of their ticks are damaged
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
    partial: tuple[Fault, ...] = ()


class Interrupted(HfprepError):  # noqa: N818 - the user's wish, not an error
    """The run was interrupted; the store says how far it is."""

    exit_code = 130


def default_out(source: str | Path) -> Path:
    """The manifest's name with .zarr, in the working directory."""
    return Path(Path(source).stem + ".zarr")


def build_store(
    source: str | Path,
    out: str | Path | None = None,
    pipeline: Pipeline = DEFAULT_PIPELINE,
    *,
    options: BuildOptions = DEFAULTS,
    progress: Progress = SILENT,
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
    attrs = attributes(planned)
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
        store.create(out, planned.plan.layout, attrs, clip_columns(planned))
    return written


def _changes(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What differs between the store's build and this one, in words; empty where this run may go on."""
    changed = differences(old.get("pipeline", {}), new["pipeline"])
    if old.get("format_version") != new["format_version"]:
        changed.append(f"format version {old.get('format_version')} -> {new['format_version']}")
    if not changed and old.get("plan_digest") != new["plan_digest"]:
        changed.append("the manifest or its videos have changed since")
    return changed


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
            labels = tuple(label[name] for name in clip.names)
            weight = max(float(made.class_weight[k]) for k in labels) if split == "train" else 1.0
            works[number] = Work(number, clip, split, labels, weight, int(made.counts[number]), int(made.n_ticks[number]))
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
    lost = np.concatenate([opened[s].columns["clip"][~opened[s].columns["ok"].astype(bool)] for s in SPLITS])
    windows_lost = np.bincount(lost, minlength=len(clips["row"]))
    partial = [
        Fault(
            int(row),
            planned.plan.clips[k].line,
            str(video),
            "partial",
            f"{notes or 'damaged'} ({windows_lost[k]} windows left out)",
            warning=True,
        )
        for k, (row, video, notes, error) in enumerate(zip(clips["row"], clips["video"], clips["notes"], clips["error"]))
        if not error and (notes or windows_lost[k])
    ]
    return BuildSummary(
        out=out,
        partial=tuple(partial),
        planned=planned,
        faults=tuple(sorted((*planned.faults, *late), key=lambda f: f.row)),
        windows=sum(int(np.count_nonzero(opened[split].columns["ok"])) for split in SPLITS if split in opened),
        clips=sum(len(result.outcomes) for result in results),
        source_frames=sum(result.source_frames for result in results),
        seconds=seconds,
        stored_bytes=store.size_bytes(out),
        continued=continued,
    )
