"""A manifest surveyed and planned: all that is known, and written down, before a pixel is decoded."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from . import __version__, manifest, plan, probe, store
from .layout import FORMAT_VERSION
from .pipeline import Pipeline, fingerprint
from .records import SPLITS, Fault, Manifest
from .survey import Survey, survey, with_limit

BASE_MEMORY = 150 << 20  # the interpreter with its libraries
DECODER_MEMORY = 60 << 20  # decoder and filter graph of one clip, measured at 480x360
STORED_SHARE = {"raw": 1.0, "lz4": 0.95, "zstd": 0.7, "jpeg": 0.2}  # of the raw pixels; 0.88, 0.53 and 0.09 on real windows, with room


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


DEFAULTS, SILENT, DEFAULT_PIPELINE = BuildOptions(), Silent(), Pipeline()


def cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_cache() -> Path:
    """Folder of probe results: $HFPREP_CACHE, or hfprep in the user's cache folder."""
    named = os.environ.get("HFPREP_CACHE")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hfprep"


def plan_build(source: str | Path, pipeline: Pipeline, options: BuildOptions = DEFAULTS, progress: Progress = SILENT) -> Planned:
    """Read and survey a manifest and plan its store without decoding what can be trusted.

    Raises ManifestError where the whole manifest cannot be used. Rows at fault are listed in the result.
    """
    listed = with_limit(manifest.read(source, pipeline.label.separator), options.limit)
    jobs = options.jobs or cpus()
    progress.stage("probing", len(listed.clips))
    cache = probe.Cache(str(options.cache or default_cache()))
    surveyed = survey(listed, pipeline, cache, jobs=jobs, advance=lambda: progress.advance(1))
    made = plan.make(listed.clips, listed.classes, surveyed.n_ticks, pipeline, surveyed.axes)
    return Planned(listed, surveyed, made)


def attributes(planned: Planned) -> dict[str, Any]:
    """Root attributes of the store: how it is made, and the rows that are not in it."""
    made = planned.plan
    return {
        "format_version": FORMAT_VERSION,
        "versions": {"hfprep": __version__, **probe.versions(), **store.versions()},
        "pipeline": made.pipeline.model_dump(mode="json"),
        "fingerprint": fingerprint(made.pipeline),
        "plan_digest": made.digest(),
        "manifest": Path(planned.manifest.path).name,
        "classes": list(made.classes),
        **plan.weights(made.members, made.counts, np.array(made.splits), len(made.classes), several=made.layout.label_classes > 0),
        "axes": list(made.layout.axes),
        **({"axis_units": planned.survey.units, "sensor_formats": planned.survey.formats} if made.layout.axes else {}),
        "faults": [
            {"row": f.row, "line": f.line, "video": f.video, "label": f.label, "kind": f.kind, "message": f.message, "warning": f.warning}
            for f in (*planned.manifest.faults, *planned.survey.faults)
        ],
    }


def clip_columns(planned: Planned) -> dict[str, list[Any]]:
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
        **({"imu_drift_ppm": [c.imu_drift_ppm for c in clips]} if any(c.imu_drift_ppm for c in clips) else {}),
        **({"imu_layout": [c.imu_layout for c in clips]} if any(c.imu_layout for c in clips) else {}),
        "n_ticks": made.n_ticks.tolist(),
        **({"first_tick": made.first_ticks().tolist()} if made.layout.kind == "frames" else {}),
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
    units = sum(piece.count for shard in made.shards if (shard.split, shard.index) not in written for piece in shard.pieces)
    return int(units * made.layout.unit_bytes * STORED_SHARE.get(made.layout.codec, 1.0))


def peak_memory_bytes(made: plan.Plan, jobs: int) -> int:
    """About how much memory a build takes: per job a decoder, one clip (at most the budget), two open shards and one encoded."""
    layout = made.layout
    longest = int(made.n_ticks.max(initial=0)) * layout.height * layout.width * 3
    clip = min(longest, made.pipeline.store.clip_budget_mb << 20)
    shard = min(layout.units_per_shard, max(layout.n_units(split) for split in SPLITS)) * layout.unit_bytes
    return BASE_MEMORY + jobs * (DECODER_MEMORY + clip + 3 * shard)
