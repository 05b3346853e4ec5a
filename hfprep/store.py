"""Write a store: created whole, filled shard by shard, finished once. Every step may be killed and repeated.

State is what is committed, no lock and no database: a shard counts from the moment its commit record lies in `.build/`; the store
counts as complete from the moment its root attributes say so. Each file is written aside, synced and renamed into place.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from . import arrays, commit, jpeg, shards
from .commit import Commit
from .errors import StoreError
from .index import spans, window_columns
from .layout import BLOCK_ROWS, FORMAT_VERSION, OUTCOME_COLUMNS, Layout
from .reader import BUILD, SplitReader, Store, open_store, read_array, read_attrs, read_layout
from .records import SPLITS, ClipOutcome, ShardData, require

__all__ = [
    "BuildingState", "SplitReader", "Store", "building_state", "check_target", "create", "finish", "open_store", "outcomes", "remove",
    "size_bytes", "versions", "write_shard", "written",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class BuildingState:
    """How far a store is: status building | complete, its attributes and layout, and the shards that are committed."""

    status: str
    attrs: dict[str, Any]
    layout: Layout
    written: frozenset[tuple[str, int]]

    @property
    def total(self) -> int:
        """Shards of the whole store."""
        return len(self.layout.shards())


def versions() -> dict[str, str]:
    """Versions of the libraries that decide the stored bytes."""
    return {"zarr": version("zarr"), "numcodecs": version("numcodecs"), "numpy": version("numpy")}


def check_target(path: str | os.PathLike[str]) -> None:
    """Refuse, before any work, a path where no store can be: StoreError `exists`, `permission`.

    Allowed: nothing there, an empty folder, or a store (finished or not) that the caller continues or replaces.
    """
    folder = Path(path)
    remedy = "give another place with -o"
    if folder.is_dir():
        if not (folder / "zarr.json").exists() and any(folder.iterdir()):
            raise StoreError("a folder with other files is in the way", where=str(folder), remedy=remedy, kind="exists")
        if (folder / "zarr.json").exists():
            read_attrs(folder)
    elif folder.exists() or folder.is_symlink():
        raise StoreError("a file is in the way", where=str(folder), remedy=remedy, kind="exists")
    near = next(parent for parent in folder.absolute().parents if parent.exists())
    for place in (near, *([folder] if folder.is_dir() else [])):
        if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
            what = "this user may not write there" if place.is_dir() else f"{place} is a file"
            raise StoreError(f"no store can be made: {what}", where=str(folder), remedy=remedy, kind="permission")


def create(path: str | os.PathLike[str], layout: Layout, attrs: dict[str, Any], clips: dict[str, list[Any]]) -> None:
    """Make an empty store that says it is being built: all arrays declared, `clips/` filled with what is known before decoding.

    attrs   root attributes, plain values; format_version, status and layout are set here
    clips   column name -> one value a clip; None becomes "", -1, NaN or False by the column's type
    The store appears whole or not at all. Raises StoreError: `exists`, `permission`, `no_space`, `too_large`.
    """
    folder = Path(path)
    check_target(folder)
    if layout.codec == "lz4" and layout.unit_bytes > shards.MAX_BLOSC:
        raise StoreError(
            f"one window has {layout.unit_bytes / 1e9:.1f} GB, lz4 takes at most 2.1",
            where=str(folder),
            remedy='use smaller frames or windows, or store.codec = "zstd"',
            kind="too_large",
        )
    if layout.codec == "jpeg":
        jpeg.library()
    root = {**attrs, "format_version": FORMAT_VERSION, "status": "building", "layout": layout.dump()}
    with _faults(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        aside = folder.with_name(f".{folder.name}.new-{uuid.uuid4().hex[:8]}")
        aside.mkdir()
        try:
            for key, data in {**arrays.skeleton(layout, clips), "zarr.json": arrays.group_json(root)}.items():
                file = aside / key
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
            (aside / BUILD).mkdir()
            aside.rename(folder)  # fails where another build has made the store in the meantime
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise


def write_shard(path: str | os.PathLike[str], layout: Layout, data: ShardData) -> None:
    """Write one shard's pixels, then its commit record. Writing it again gives the same bytes.

    Raises StoreError: `no_space`, `permission`, `io_error`, `vanished`; ValueError where the data does not fit the layout.
    """
    folder = Path(path)
    columns = _checked(layout, data)
    parts = shards.encode(data.frames, layout.codec, layout.units_per_shard, layout.quality)
    stored = data.frames
    if layout.codec == "jpeg":  # what counts is what comes out again
        stored = np.empty_like(data.frames)
        for unit, chunk in zip(stored, parts):
            jpeg.decode(chunk, unit)
        columns["psnr"] = jpeg.psnr(data.frames, stored)
    covered = {spec.name: columns[spec.name] for spec in layout.unit_columns(data.split) if spec.name in columns}
    columns[layout.unit_digest] = shards.digests(stored, covered)
    columns = {spec.name: columns[spec.name] for spec in layout.unit_columns(data.split)}
    record = commit.encode(Commit(data.split, data.index, sum(len(part) for part in parts), columns, data.outcomes))
    with _faults(folder):
        _put(folder, layout.shard_key(data.split, data.index), parts)
        _put(folder, _record_key(data.split, data.index), [record])


def written(path: str | os.PathLike[str], layout: Layout) -> set[tuple[str, int]]:
    """Shards that are committed, as (split, index): their record is whole and their file has its length."""
    folder = Path(path)
    if read_attrs(folder)["status"] == "complete":  # also where a kill has left some of the records
        return set(layout.shards())
    return {key for key in layout.shards() if _commit(folder, layout, *key) is not None}


def outcomes(path: str | os.PathLike[str]) -> tuple[ClipOutcome, ...]:
    """What became of each clip prepared so far, by clip index; a clip in several shards is told of once."""
    folder = Path(path)
    attrs = read_attrs(folder)
    if attrs["status"] == "complete":
        columns = {name: read_array(folder, f"clips/{name}").tolist() for name in OUTCOME_COLUMNS}
        rows = (dict(zip(columns, values)) for values in zip(*columns.values()))
        return tuple(ClipOutcome(clip, **{**row, "notes": (row["notes"],) if row["notes"] else ()}) for clip, row in enumerate(rows))
    layout = read_layout(folder, attrs)
    return _merged(record for key in layout.shards() if (record := _commit(folder, layout, *key)) is not None)


def building_state(path: str | os.PathLike[str]) -> BuildingState | None:
    """How far a store is, finished or not; None where nothing (or an empty folder) is. Raises StoreError where it is no store."""
    folder = Path(path)
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return None
    attrs = read_attrs(folder)
    layout = read_layout(folder, attrs)
    return BuildingState(attrs["status"], attrs, layout, frozenset(written(folder, layout)))


def finish(path: str | os.PathLike[str]) -> None:
    """Assemble the small columns from the commit records, say that the store is complete, remove the records.

    May be killed anywhere and repeated; a finished store is left as it is. Raises StoreError `incomplete` where shards are missing.
    """
    folder = Path(path)
    attrs = read_attrs(folder)
    layout = read_layout(folder, attrs)
    with _faults(folder):
        if attrs["status"] != "complete":
            missing = [key for key in layout.shards() if _commit(folder, layout, *key) is None]
            if missing:
                raise StoreError(
                    f"{len(missing)} of {len(layout.shards())} shards are not written, the first is {missing[0][0]}/{missing[0][1]}",
                    where=str(folder),
                    remedy="run the same `hfprep build` command again to continue",
                    kind="incomplete",
                )
            _assemble(folder, layout)
            _put(folder, "zarr.json", [arrays.group_json({**attrs, "status": "complete"})])
        if (folder / BUILD).exists():
            shutil.rmtree(folder / BUILD)


def remove(path: str | os.PathLike[str]) -> None:
    """Delete a store, finished or not; refuses (StoreError `not_a_store`) whatever hfprep did not write."""
    folder = Path(path)
    read_attrs(folder)
    with _faults(folder):
        aside = folder.with_name(f".{folder.name}.old-{uuid.uuid4().hex[:8]}")
        folder.rename(aside)  # first out of sight: half a store never lies at its path
        shutil.rmtree(aside)


def size_bytes(path: str | os.PathLike[str]) -> int:
    """Bytes of all files of a store."""
    return sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())


def _assemble(folder: Path, layout: Layout) -> None:
    """Write columns and outcomes; one block of rows in memory at a time, every chunk written once."""
    told: dict[int, ClipOutcome] = {}
    for split in SPLITS:
        for first in range(0, layout.n_units(split), BLOCK_ROWS):
            last = min(first + BLOCK_ROWS, layout.n_units(split))
            indexes = range(first // layout.units_per_shard, -(-last // layout.units_per_shard))
            records = [record for index in indexes if (record := _commit(folder, layout, split, index)) is not None]
            told |= {outcome.clip: outcome for outcome in _merged(records, told)}
            offset = indexes[0] * layout.units_per_shard
            for spec in layout.unit_columns(split):
                values = np.concatenate([record.columns[spec.name] for record in records])[first - offset : last - offset]
                for key, chunk in arrays.column_chunks(split, spec, first, values).items():
                    _put(folder, key, [chunk])
    before = {name: read_array(folder, f"clips/{name}").tolist() for name in OUTCOME_COLUMNS}
    for name, values in arrays.outcome_columns(before, told.values()).items():
        for key, chunk in arrays.clip_chunks(name, values).items():
            _put(folder, key, [chunk])
    if layout.kind == "frames":
        _put_windows(folder, layout, {clip: outcome.centers for clip, outcome in told.items()})


def _put_windows(folder: Path, layout: Layout, centers: dict[int, tuple[int, ...]]) -> None:
    """Write the window columns of a store whose ticks and clips are all there."""
    attrs = read_attrs(folder)
    clips = {name: read_array(folder, f"clips/{name}") for name in ("split", "label", "first_tick", "n_ticks", "n_windows")}
    for split in SPLITS:
        ticks = {name: read_array(folder, f"{split}/{name}") for name in ("time_ns", "tick_ok", "tick_digest")}
        found = window_columns(layout, spans(split, clips, attrs, layout), centers, ticks)
        for spec in layout.window_columns(split):
            for key, chunk in arrays.column_chunks(split, spec, 0, found[spec.name].astype(spec.dtype)).items():
                _put(folder, key, [chunk])


def _merged(records: Iterable[Commit], told: dict[int, ClipOutcome] | None = None) -> tuple[ClipOutcome, ...]:
    found = dict(told or {})
    for record in records:
        for outcome in record.outcomes:
            found[outcome.clip] = commit.merge(found[outcome.clip], outcome) if outcome.clip in found else outcome
    return tuple(found[clip] for clip in sorted(found))


def _commit(folder: Path, layout: Layout, split: str, index: int) -> Commit | None:
    """A shard's commit record, or None where it is absent or torn or its file is not there whole."""
    try:
        record = commit.decode((folder / _record_key(split, index)).read_bytes())
        size = (folder / layout.shard_key(split, index)).stat().st_size
    except (FileNotFoundError, ValueError):
        return None
    return record if (record.split, record.index, record.shard_bytes) == (split, index, size) else None


def _checked(layout: Layout, data: ShardData) -> dict[str, Any]:
    """The columns with their stored types; ValueError where shapes, names or types do not fit the layout."""
    first, last = layout.shard_units(data.split, data.index)
    n = last - first
    want = (n, *layout.unit_shape)
    require(n > 0 and data.frames.shape == want and data.frames.dtype == np.uint8, f"{data}: the layout has frames uint8 {want}")
    specs = {spec.name: spec for spec in layout.unit_columns(data.split) if spec.name not in layout.written_columns}
    require(data.columns.keys() == specs.keys(), f"{data}: columns {sorted(data.columns)}, the layout has {sorted(specs)}")
    for name, spec in specs.items():
        values = data.columns[name]
        require(values.shape == (n, *spec.shape[1:]), f"{data}: {name} {values.shape}, the layout has {(n, *spec.shape[1:])}")
        require(np.can_cast(values.dtype, spec.dtype, "same_kind"), f"{data}: {name} is {values.dtype}, the layout has {spec.dtype}")
    return {name: np.ascontiguousarray(data.columns[name], spec.dtype) for name, spec in specs.items()}


def _record_key(split: str, index: int) -> str:
    return f"{BUILD}/{split}-{index:08d}.commit"


def _put(folder: Path, key: str, parts: Iterable[Any]) -> None:
    """Write one file of a store whole: aside in .build, synced, renamed. A kill leaves nothing but a file that finish removes."""
    aside = folder / BUILD / f"{uuid.uuid4().hex}.part"
    target = folder / key
    try:
        with aside.open("xb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())  # else a power cut could keep the commit record and lose the shard
        target.parent.mkdir(parents=True, exist_ok=True)
        aside.replace(target)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _faults(folder: Path) -> Iterator[None]:
    """Tell faults of the file system as StoreError with what to do."""
    try:
        yield
    except OSError as fault:
        told = {
            errno.ENOSPC: ("no_space", "the disk is full", "free some space, then run the same command again: it continues"),
            errno.EDQUOT: ("no_space", "the disk quota is used up", "free some space, then run the same command again: it continues"),
            errno.EACCES: ("permission", "this user may not write there", "give another place with -o"),
            errno.EPERM: ("permission", "this user may not write there", "give another place with -o"),
            errno.EROFS: ("permission", "the file system is read-only", "give another place with -o"),
            errno.ENOTEMPTY: ("exists", "another build has made a store there in the meantime", "run the command again to continue it"),
            errno.EEXIST: ("exists", "another build has made a store there in the meantime", "run the command again to continue it"),
            errno.ENOENT: ("vanished", "the store has vanished while it was written", "run the command again"),
        }
        kind, what, remedy = told.get(
            fault.errno or 0, ("io_error", f"{fault.strerror or fault}", "check the disk, then run the command again")
        )
        raise StoreError(what, where=str(folder), remedy=remedy, kind=kind) from fault
