"""Is a store what was written? Every row's digest again from its stored pixels and columns; every file that should be there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from .. import shards
from ..errors import StoreError
from ..layout import OUTCOME_COLUMNS, ArraySpec, Layout
from ..reader import Columns
from ..records import I64, SPLITS
from ..store import SplitReader, Store, open_store
from .command import build_command

BATCH_BYTES = 64 << 20  # pixels in memory at once, however large a shard is
NEEDED = ("id", "video", "label", "split", *OUTCOME_COLUMNS)
# Words for people and folders of one machine: they do not belong to the content, so that two places can be compared.
WORDS, PATHS = ("error", "notes"), ("video", "imu")


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing that is wrong: the file of the store it lies in ("" = none by itself), what is wrong with it, the rows that are
    lost by it (of one split; none for damage outside the windows), and the ids of their clips as far as these can be read."""

    what: str
    file: str = ""
    split: str = ""
    rows: tuple[int, ...] = ()
    clips: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What verify found. digest: one for the whole content, "" where the store is damaged; mend: the command that mends it."""

    store: Path
    windows: int
    shards: int
    damages: tuple[Damage, ...]
    digest: str
    mend: str

    @property
    def good(self) -> bool:
        """Nothing is damaged or missing."""
        return not self.damages

    def dump(self) -> dict[str, Any]:
        """As plain values: store, status good | damaged, windows, shards, damages (what, file, split, rows, clips), digest, mend."""
        found = [{"what": d.what, "file": d.file, "split": d.split, "rows": list(d.rows), "clips": list(d.clips)} for d in self.damages]
        return {
            "store": str(self.store),
            "status": "good" if self.good else "damaged",
            "windows": self.windows,
            "shards": self.shards,
            "damages": found,
            "digest": self.digest or None,
            "mend": self.mend or None,
        }


def verify(path: str | os.PathLike[str], advance: Callable[[int], None] = lambda windows: None) -> Verdict:
    """Read all of a finished store and compare every row with its digest; advance(windows) is called as it goes.

    Damage is in the result, not raised. Raises StoreError where the path is no finished store of a known format.
    """
    opened = open_store(path)
    layout = opened.layout
    damages = _files(opened)
    told = {"/".join(damage.file.split("/")[:2]) for damage in damages}  # arrays that need not be tried again
    damages += _table(opened, told)
    digests: dict[str, NDArray[np.uint64]] = {}
    for split in SPLITS:
        found, digests[split] = _split(opened, split, told, advance)
        damages += found
    return Verdict(
        store=opened.folder,
        windows=sum(layout.rows),
        shards=len(layout.shards()),
        damages=tuple(damages),
        digest="" if damages else content_digest(opened, digests),
        mend=build_command(opened.attrs, opened.folder, overwrite=True) if damages else "",
    )


def content_digest(store: Store, digests: dict[str, NDArray[np.uint64]]) -> str:
    """32 hex digits (xxh3_128) over what a store holds: sizes, classes and their weights, row digests (uint64 (N,) a split;
    they cover pixels and columns), and the table of clips.

    The same content gives the same digest whatever the codec, the shard size, the number of workers and the place: of `video` and
    `imu` the file's name counts, not its folder; `error` and `notes` (words, often with paths) do not count, `error_kind` does.
    """
    state = xxhash.xxh3_128()
    layout = store.layout
    head = {
        "sizes": [layout.size, layout.margin, layout.height, layout.width, *layout.rows],
        "axes": list(layout.axes),
        "classes": store.classes,
        "class_weight": store.attrs.get("class_weight", []),
    }
    _feed(state, json.dumps(head, sort_keys=True))
    for split in SPLITS:
        state.update(np.ascontiguousarray(digests[split], "<u8").tobytes())
    for name in sorted(set(store.clips) - set(WORDS)):
        values = store.clips[name]
        _feed(state, name)
        if values.dtype.kind == "O":
            for text in values:
                _feed(state, Path(str(text)).name if name in PATHS else str(text))
        else:
            plain = np.where(np.isnan(values), np.nan, values) if values.dtype.kind == "f" else values  # one NaN, not many
            state.update(np.ascontiguousarray(plain, values.dtype.newbyteorder("<")).tobytes())
    return str(state.hexdigest())


def _feed(state: Any, text: str) -> None:
    data = text.encode()
    state.update(len(data).to_bytes(8, "little") + data)  # with its length: "ab","c" is not "a","bc"


def _files(store: Store) -> list[Damage]:
    """Metadata and chunks of all small arrays: a chunk that is not there reads as zeros, without an error."""
    found = []
    for split in SPLITS:
        found += _metadata(store.folder, split)
        for spec in (store.layout.frames(split), *store.layout.columns(split)):
            found += _array(store.folder, f"{split}/{spec.name}", split, spec)
    found += _metadata(store.folder, "clips")
    # by folder, not by what zarr sees: a column without its metadata is no column to zarr
    names = {*NEEDED, *(file.name for file in (store.folder / "clips").glob("*") if file.is_dir())}
    for name in sorted(names):
        there = (store.folder / "clips" / name).is_dir()
        found += _array(store.folder, f"clips/{name}") if there else [Damage("is missing", f"clips/{name}")]
    return found


def _metadata(folder: Path, group: str) -> list[Damage]:
    meta, what = _json(folder / group / "zarr.json")
    if not what and meta.get("node_type") != "group":
        what = "is not the metadata of a Zarr group"
    return [Damage(what, f"{group}/zarr.json")] if what else []


def _array(folder: Path, name: str, split: str = "", spec: ArraySpec | None = None) -> list[Damage]:
    """What is wrong with an array's metadata and, unless it holds pixels, with its chunk files."""
    meta, what = _json(folder / name / "zarr.json")
    shape: tuple[int, ...] = ()
    chunks: tuple[int, ...] = ()
    try:
        if not what:
            shape = tuple(meta["shape"])
            chunks = tuple(meta["chunk_grid"]["configuration"]["chunk_shape"])
            if spec is not None and (shape, meta["data_type"]) != (spec.shape, spec.dtype):
                what = f"says {meta['data_type']} {shape}, the layout has {spec.dtype} {spec.shape}"
            if len(shape) != len(chunks) or not all(isinstance(n, int) and n > 0 for n in chunks):
                what = f"says chunks of {chunks} for {shape}"
    except (KeyError, TypeError):
        what = "is not the metadata of a Zarr array"
    if what:
        return [Damage(what, f"{name}/zarr.json", split, tuple(range(spec.shape[0])) if spec is not None else ())]
    if spec is not None and spec.shard:
        return []  # its shards are read one by one, later
    found = []
    for index in np.ndindex(*(-(-length // chunk) for length, chunk in zip(shape, chunks, strict=True))):
        key = "/".join(("c", *map(str, index)))
        if not (folder / name / key).is_file():
            rows = range(index[0] * chunks[0], min(shape[0], (index[0] + 1) * chunks[0])) if spec else ()
            found.append(Damage("is missing", f"{name}/{key}", split, tuple(rows)))
    return found


def _json(file: Path) -> tuple[dict[str, Any], str]:
    try:
        value = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}, "is missing"
    except OSError as fault:
        return {}, f"cannot be read: {fault.strerror}"
    except ValueError:
        return {}, "is garbled: not JSON"
    return (value, "") if isinstance(value, dict) else ({}, "is garbled: not a JSON object")


def _table(store: Store, told: set[str]) -> list[Damage]:
    """The table of clips: its columns, but those told of already, can be read and have one length."""
    found = []
    lengths: dict[str, int] = {}
    for name in store.clips:
        if f"clips/{name}" in told:
            continue
        try:
            lengths[name] = len(store.clips[name])
        except StoreError as fault:
            found.append(Damage(_reason(fault), f"clips/{name}"))
    usual = max(set(lengths.values()), key=list(lengths.values()).count, default=0)
    found += [Damage(f"has {n} rows, the other columns {usual}", f"clips/{name}") for name, n in lengths.items() if n != usual]
    return found


def _reason(fault: StoreError) -> str:
    return fault.what.partition(" cannot be read: ")[2] or fault.what


def _split(store: Store, split: str, told: set[str], advance: Callable[[int], None]) -> tuple[list[Damage], NDArray[np.uint64]]:
    """Damage of one split, and the digests uint64 (N,) computed anew (0 where a row cannot be read, or a column is not whole)."""
    reader, layout = store[split], store.layout
    names = [spec.name for spec in layout.unit_columns(split)]
    units = Columns(store.folder, split, names)
    columns, found = _columns(reader, units, [name for name in names if f"{split}/{name}" not in told])
    fresh = np.zeros(layout.n_units(split), np.uint64)
    if f"{split}/frames" in told:
        advance(len(fresh))
        return found, fresh
    whole = len(columns) == len(names)
    for index in range(layout.n_shards(split)):
        first, last = layout.shard_units(split, index)
        unread: dict[int, str] = {}
        for rows in _batches(first, last, layout):
            pixels, lost = _pixels(reader, rows)
            unread |= lost
            if whole:
                covered = {name: columns[name][rows] for name in names if name != layout.unit_digest}
                fresh[rows] = shards.digests(pixels, covered)
            advance(len(rows))
        found += _unreadable(store, split, index, unread, columns)
        if whole:
            wrong = np.flatnonzero(fresh[first:last] != columns[layout.unit_digest][first:last]) + first
            differ = [int(row) for row in wrong if int(row) not in unread]
            if differ:
                what = "pixels or columns differ from what was written (digest)"
                found.append(Damage(what, layout.shard_key(split, index), split, tuple(differ), _ids(store, columns, differ)))
    if layout.kind == "frames":  # rows are windows: those that show a damaged tick are named by their own digests
        found = [
            replace(d, rows=(), what=f"{d.what}: {len(d.rows)} ticks") if d.file.startswith(f"{split}/frames/c/") else d for d in found
        ]
        more, shown = _windows(store, split, told, fresh)
        return found + more, np.concatenate([fresh, shown])
    return found, fresh


def _windows(store: Store, split: str, told: set[str], ticks: NDArray[np.uint64]) -> tuple[list[Damage], NDArray[np.uint64]]:
    """Damage of windows that are rows of tick indices, and their digests over the digests of their ticks, uint64 (T,)."""
    reader = store[split]
    names = [spec.name for spec in store.layout.window_columns(split)]
    windows = Columns(store.folder, split, names)
    columns, found = _columns(reader, windows, [name for name in names if f"{split}/{name}" not in told])
    fresh = np.zeros(len(reader), np.uint64)
    if len(columns) < len(names):
        return found, fresh
    index = columns["index"]
    if index.size and (index.min() < 0 or index.max() >= len(ticks)):
        what = f"names ticks {index.min()}..{index.max()} of {len(ticks)}"
        return [*found, Damage(what, f"{split}/index", split, tuple(range(len(reader))))], fresh
    fresh = shards.digests(ticks[index], {name: columns[name] for name in names if name not in ("index", "digest")})
    differ = np.flatnonzero(fresh != columns["digest"]).tolist()
    if differ:
        what = "ticks or columns of windows differ from what was written (digest)"
        found.append(Damage(what, f"{split}/digest", split, tuple(differ), _ids(store, columns, differ)))
    return found, fresh


def _columns(reader: SplitReader, held: Columns, names: list[str]) -> tuple[dict[str, NDArray[Any]], list[Damage]]:
    columns: dict[str, NDArray[Any]] = {}
    found = []
    every = tuple(range(len(reader)))
    for name in names:
        try:
            values = held[name]
        except StoreError as fault:
            found.append(Damage(_reason(fault), f"{reader.split}/{name}", reader.split, every))
            continue
        columns[name] = values
    return columns, found


def _batches(first: int, last: int, layout: Layout) -> Iterable[I64]:
    step = max(1, BATCH_BYTES // layout.unit_bytes)
    for start in range(first, last, step):
        yield np.arange(start, min(start + step, last), dtype=np.int64)


def _pixels(reader: SplitReader, rows: I64) -> tuple[NDArray[np.uint8], dict[int, str]]:
    """Pixels of rows, zeros where they cannot be read, and why not; rows of one shard are tried together, then one by one."""
    pixels = np.zeros((len(rows), *reader.layout.unit_shape), np.uint8)
    try:
        reader.read_units(rows, pixels)
        return pixels, {}
    except StoreError:
        lost: dict[int, str] = {}
    for place, row in enumerate(rows):
        try:
            reader.read_units(rows[place : place + 1], pixels[place : place + 1])
        except StoreError as fault:
            lost[int(row)] = fault.what.partition(" is damaged: ")[2] or fault.what
            pixels[place] = 0
    return pixels, lost


def _unreadable(store: Store, split: str, index: int, lost: dict[int, str], columns: dict[str, NDArray[Any]]) -> list[Damage]:
    """One damage a reason: a shard that is gone loses all its rows for the same one."""
    file = store.layout.shard_key(split, index)
    rows_by_reason: dict[str, list[int]] = {}
    for row, reason in lost.items():
        unit = reason.partition(" ")[0]  # "window 12 does not decode", "tick 3 of it is missing"
        told = f"some {unit}s do not decode or are missing" if unit in ("window", "tick") else reason
        rows_by_reason.setdefault(told, []).append(row)
    return [
        Damage(reason.removeprefix("it "), file, split, tuple(rows), _ids(store, columns, rows)) for reason, rows in rows_by_reason.items()
    ]


def _ids(store: Store, columns: dict[str, NDArray[Any]], rows: list[int]) -> tuple[str, ...]:
    """Ids of the clips that these rows belong to, as far as they can be read."""
    try:
        names = store.clips["id"]
    except (KeyError, StoreError):
        return ()
    numbers = next((columns[name][rows] for name in ("clip", "tick_clip") if name in columns), np.array([], np.int64))
    return tuple(dict.fromkeys(str(names[number]) for number in numbers if 0 <= number < len(names)))
