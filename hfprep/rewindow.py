"""Other windows from the same stored ticks: a new store beside the old one, its pixels linked, nothing decoded."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import arrays, hotspot, pipeline, plan, windows
from .errors import StoreError, UsageError
from .index import members, spans, window_columns
from .labels import Members
from .layout import Layout
from .pipeline import Pipeline
from .reader import Store, open_store
from .records import I64, SPLITS, Hotspot
from .store import check_target

REVISED = ("window.", "balance.")  # keys that stored ticks can answer; any other needs pixels that are not there
CLIP_COLUMNS = ("n_windows", "n_windows_unbalanced", "hotspot_ns", "hotspot_score")


@dataclass(frozen=True, slots=True)
class Rewound:
    """What was made: the new store, its windows and the old one's, what changed in the recipe, bytes that had to be copied."""

    out: Path
    windows: int
    before: int
    changed: tuple[str, ...]
    copied_bytes: int


def rewindow(path: str | os.PathLike[str], out: str | os.PathLike[str], overrides: tuple[str, ...] = ()) -> Rewound:
    """Make a store `out` with other windows of the ticks that store `path` holds: the same as a new build with that recipe.

    path       a finished store built with store.layout = "frames"
    overrides  `key=value` texts of `window.*` and `balance.*`, as `hfprep build --set` takes them

    Pixels are hard links where the file system allows, else copies; neither store changes the other. Raises StoreError (`layout`,
    `no_energy`, `exists`, `permission`), UsageError where a key needs another build.
    """
    old = open_store(path)
    if old.layout.kind != "frames":
        raise StoreError(
            "it holds whole windows; the ticks between them are not there",
            where=str(old.folder),
            remedy="build with --set store.layout=frames, then `hfprep rewindow` needs no decoding",
            kind="layout",
        )
    _check_whole(old)
    recipe, changed = _recipe(old, overrides)
    made = _Windows.of(old, recipe)
    layout = replace(old.layout, size=recipe.window.size, margin=recipe.window.margin, rows=made.rows())
    attrs = {
        **old.attrs,
        "pipeline": recipe.model_dump(mode="json"),
        "fingerprint": pipeline.fingerprint(recipe),
        **made.weights(old.layout),
        "layout": layout.dump(),
        "rewindowed": {"from": old.folder.name, "changed": changed},
    }
    files = _files(old, layout, made, attrs)
    target = Path(os.path.abspath(out))  # noqa: PTH100 - links stay as they are written
    _check_new(target, old)
    copied = _put(old.folder, target, files)
    return Rewound(target, sum(layout.rows), sum(old.layout.rows), tuple(changed), copied)


def _check_whole(old: Store) -> None:
    """Every file that the new store shares is there; whether its bytes are right only `verify` finds."""
    shards = [old.layout.shard_key(*shard) for shard in old.layout.shards()]
    columns = [f"{split}/{spec.name}/zarr.json" for split in SPLITS for spec in old.layout.unit_columns(split)]
    clips = [f"clips/{name}/zarr.json" for name in ("split", "label", "first_tick", "n_ticks", "hotspot_ns", "hotspot_score")]
    for name in (*shards, *columns, *clips):
        if not (old.folder / name).is_file():
            raise StoreError(
                f"{name} is missing", where=str(old.folder), remedy="`hfprep verify` names all that is damaged", kind="damaged"
            )


def _recipe(old: Store, overrides: tuple[str, ...]) -> tuple[Pipeline, list[str]]:
    recipe = pipeline.revise(old.pipeline, overrides)
    changed = pipeline.differences(old.pipeline, recipe.model_dump(mode="json"))
    beyond = [line for line in changed if not line.startswith(REVISED)]
    if beyond:
        raise UsageError(
            f"{'; '.join(beyond)}: the stored ticks cannot give that",
            where=str(old.folder),
            remedy="rewindow changes window.* and balance.*; for all else run `hfprep build`",
            kind="bad_pipeline",
        )
    return recipe, changed


@dataclass(frozen=True, slots=True, eq=False)
class _Windows:
    """Counts and centres of every clip's windows by a recipe; members: its classes, base and counts (C,), centers where it has ticks."""

    split: NDArray[Any]
    classes: int
    members: Members
    base: I64
    counts: I64
    centers: dict[int, tuple[int, ...]]
    hotspot_ns: I64
    score: NDArray[np.float64]

    @classmethod
    def of(cls, old: Store, recipe: Pipeline) -> _Windows:
        clips = {name: np.array(old.clips[name]) for name in ("split", "label", "first_tick", "n_ticks", "hotspot_ns", "hotspot_score")}
        of = members(clips["label"], old.attrs, old.layout)
        n_ticks = np.where(clips["first_tick"] >= 0, clips["n_ticks"], 0)
        base, counts = plan.count_windows(of, n_ticks, clips["split"].tolist(), recipe)
        centers: dict[int, tuple[int, ...]] = {}
        for split in SPLITS:
            ticks = {name: old[split].ticks[name] for name in ("time_ns", "tick_ok", "energy")}
            for clip in np.flatnonzero((clips["split"] == split) & (counts > 0)).tolist():
                mine = slice(clips["first_tick"][clip], clips["first_tick"][clip] + n_ticks[clip])
                if not ticks["tick_ok"][mine].any():
                    continue  # it failed when it was built: its windows stay empty
                spot = None
                if windows.needs_hotspot(recipe.window, split):
                    spot = _hotspot(old, recipe, split, clip, ticks["energy"][mine])
                    clips["hotspot_ns"][clip], clips["hotspot_score"][clip] = ticks["time_ns"][mine][spot.tick], spot.score
                else:
                    clips["hotspot_ns"][clip], clips["hotspot_score"][clip] = -1, np.nan
                placed = windows.centers(int(n_ticks[clip]), spot, recipe.window, split, int(counts[clip]))
                centers[clip] = tuple(placed.tolist())
        return cls(clips["split"], len(old.classes), of, base, counts, centers, clips["hotspot_ns"], clips["hotspot_score"])

    def rows(self) -> tuple[int, int, int]:
        """Windows of each split."""
        train, val, test = (int(self.counts[self.split == split].sum()) for split in SPLITS)
        return train, val, test

    def weights(self, layout: Layout) -> dict[str, list[float]]:
        """The attributes of a loss's weights."""
        return plan.weights(self.members, self.counts, self.split, self.classes, several=layout.label_classes > 0)


def _hotspot(old: Store, recipe: Pipeline, split: str, clip: int, energy: NDArray[np.float32]) -> Hotspot:
    if recipe.hotspot.method == "center":
        return Hotspot(len(energy) // 2, 0.0)
    if np.isnan(energy).any():
        rule = "window.placement" if split == "train" else "window.eval"
        raise StoreError(
            f"no motion was measured in {split}, so its windows cannot be placed on hotspots (clip {old.clips['id'][clip]})",
            where=str(old.folder),
            remedy=f"build once with {rule} = hotspot, then every placement can be had without decoding",
            kind="no_energy",
        )
    return hotspot.find(energy, recipe.window.size)


def _files(old: Store, layout: Layout, made: _Windows, attrs: dict[str, Any]) -> dict[str, bytes]:
    """Every file of the new store that differs from the old one's."""
    changed = dict(zip(CLIP_COLUMNS, (made.counts, made.base, made.hotspot_ns, made.score), strict=True))
    clips: Mapping[str, NDArray[Any]] = {name: old.clips[name] for name in ("split", "label", "first_tick", "n_ticks")} | changed
    files = {"zarr.json": arrays.group_json(attrs)}
    for name, values in changed.items():
        files |= arrays.clip_files(name, values)
    for split in SPLITS:
        ticks = {name: old[split].ticks[name] for name in ("time_ns", "tick_ok", "tick_digest")}
        found = window_columns(layout, spans(split, clips, attrs, layout), made.centers, ticks)
        for spec in layout.window_columns(split):
            files[f"{split}/{spec.name}/zarr.json"] = arrays.column_json(spec)
            files |= arrays.column_chunks(split, spec, 0, found[spec.name].astype(spec.dtype))
    return files


def _check_new(target: Path, old: Store) -> None:
    check_target(target)
    if target.resolve().is_relative_to(old.folder.resolve()):
        raise StoreError("lies inside the store that it is made of", where=str(target), remedy="give another place with -o", kind="exists")
    if target.is_dir() and any(target.iterdir()):
        raise StoreError("a store is there already", where=str(target), remedy="give another place with -o", kind="exists")


def _put(source: Path, target: Path, files: dict[str, bytes]) -> int:
    """The new store, whole or not at all: its own files written, all others linked. Returns the bytes that had to be copied."""
    own = {name.split("/c/")[0].removesuffix("/zarr.json") for name in files if name != "zarr.json"}
    aside = target.with_name(f".{target.name}.new-{uuid.uuid4().hex[:8]}")
    copied = 0
    try:
        for file in sorted(source.rglob("*")):
            name = file.relative_to(source).as_posix()
            if file.is_file() and name not in files and not any(name.startswith(f"{array}/") for array in own):
                copied += _link(file, aside / name)
        for name, data in files.items():
            (aside / name).parent.mkdir(parents=True, exist_ok=True)
            (aside / name).write_bytes(data)
        if target.is_dir():
            target.rmdir()  # an empty folder
        aside.rename(target)
    except OSError as fault:
        raise StoreError(f"cannot be written: {fault.strerror}", where=str(target), remedy="check the disk", kind="io_error") from fault
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return copied


def _link(file: Path, target: Path) -> int:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, target)
        return 0
    except OSError:  # another file system, or one without links
        shutil.copyfile(file, target)
        return file.stat().st_size
