"""Open a finished store and read windows from it: `open_store(path)["train"].read(rows)`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import arrays, shards
from .errors import StoreError
from .layout import FORMAT_VERSION, Layout
from .records import I64, SPLITS, U8
from .shardmap import ShardMap

BUILD = ".build"


def open_store(path: str | os.PathLike[str]) -> Store:
    """Open a finished store for reading; nothing but its attributes is read yet.

    Raises StoreError: `not_a_store`, `incomplete` (it says how far the build is and how to go on), `format` (written by a newer
    hfprep), `damaged`.

    >>> store = open_store("demo.zarr")                 # doctest: +SKIP
    >>> store["train"].read([0, 5])["frames"].shape     # doctest: +SKIP
    (2, 20, 160, 160, 3)
    """
    folder = Path(path)
    attrs = read_attrs(folder)
    layout = read_layout(folder, attrs)
    if attrs.get("status") != "complete":
        total = len(layout.shards())
        done = sum(1 for file in (folder / BUILD).glob("*.commit"))
        raise StoreError(
            f"the build is not finished: {done} of {total} shards are written",
            where=str(folder),
            remedy="run the same `hfprep build` command again to continue",
            kind="incomplete",
        )
    return Store(folder, attrs, layout)


def read_attrs(folder: Path) -> dict[str, Any]:
    """The root attributes of a store, finished or not; raises StoreError where it is none, or one of a newer format."""
    remedy = "give the folder that `hfprep build` wrote"
    if not folder.is_dir():
        what = "is a file, not a store" if folder.exists() else "no such store"
        raise StoreError(what, where=str(folder), remedy=remedy, kind="not_a_store")
    try:
        root = json.loads((folder / "zarr.json").read_bytes())
        attrs = root["attributes"]
        version = attrs["format_version"]
    except FileNotFoundError:
        raise StoreError("not a store: no zarr.json in it", where=str(folder), remedy=remedy, kind="not_a_store") from None
    except OSError as fault:
        raise StoreError(
            f"cannot be read: {fault.strerror}", where=str(folder), remedy="check its permissions", kind="permission"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise StoreError("not a store that hfprep wrote", where=str(folder), remedy=remedy, kind="not_a_store") from None
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise StoreError(
            f"format version {version}, this hfprep reads up to {FORMAT_VERSION}",
            where=str(folder),
            remedy="update hfprep: pip install -U hfprep",
            kind="format",
        )
    return dict(attrs)


def read_layout(folder: Path, attrs: dict[str, Any]) -> Layout:
    """The layout in a store's attributes; raises StoreError (`damaged`) where it makes no sense."""
    try:
        return Layout.parse(attrs["layout"])
    except (KeyError, TypeError, ValueError) as fault:
        raise StoreError(f"its attributes are damaged: {fault}", where=str(folder), remedy="build it again", kind="damaged") from None


def read_array(folder: Path, name: str) -> NDArray[Any]:
    """A whole small array of a store, e.g. `clips/video`; text comes as Python strings. Raises StoreError (`damaged`)."""
    place = folder / name
    try:
        values = arrays.decode(json.loads((place / "zarr.json").read_bytes()), lambda key: (place / key).read_bytes())
        return _through_zarr(place) if values is None else values
    except (OSError, ValueError, KeyError, TypeError, IndexError) as fault:
        raise StoreError(
            f"{name} cannot be read: {fault}", where=str(folder), remedy="`hfprep verify` names what is damaged", kind="damaged"
        ) from fault


def _through_zarr(place: Path) -> NDArray[Any]:
    import zarr  # only for arrays that hfprep did not write: half a second, in every worker process

    values = np.asarray(zarr.open_array(place, mode="r", zarr_format=3)[...])
    return values.astype(object) if values.dtype.kind == "T" else values


class Columns(Mapping[str, NDArray[Any]]):
    """The small arrays of one group by name, each read whole when it is first asked for."""

    def __init__(self, folder: Path, group: str, names: Sequence[str]) -> None:
        self._folder, self._group, self._names = folder, group, tuple(names)
        self._loaded: dict[str, NDArray[Any]] = {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._loaded:
            if name not in self._names:
                raise KeyError(name)
            values = read_array(self._folder, f"{self._group}/{name}")
            values.flags.writeable = False  # shared by all who ask
            self._loaded[name] = values
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"Columns({self._group}: {', '.join(self._names)})"

    def __reduce__(self) -> tuple[object, ...]:  # what was loaded does not travel to worker processes
        return Columns, (self._folder, self._group, self._names)


@dataclass(frozen=True)
class Store:
    """A finished store. attrs: root attributes; layout: sizes; `store["train"]`: a split; `store.clips`: one row a clip."""

    folder: Path
    attrs: dict[str, Any] = field(repr=False)
    layout: Layout

    @property
    def classes(self) -> list[str]:
        """Class names; a label is an index into them."""
        return list(self.attrs["classes"])

    def label(self, split: str, row: int) -> str:
        """The label of one window in words, several with ", " between."""
        columns = self[split].columns
        numbers = np.flatnonzero(columns["labels"][row]) if self.layout.label_classes else [columns["label"][row]]
        return ", ".join(self.classes[int(k)] for k in numbers)

    @property
    def pipeline(self) -> dict[str, Any]:
        """The resolved recipe of the build, table by table."""
        return dict(self.attrs["pipeline"])

    @property
    def splits(self) -> tuple[str, ...]:
        """Splits that hold at least one window."""
        return tuple(split for split in SPLITS if self.layout.n_rows(split))

    @cached_property
    def clips(self) -> Columns:
        """One row a clip: id, video, label, split, group, times, hotspot, error and whatever else the manifest had."""
        names = sorted(file.parent.name for file in (self.folder / "clips").glob("*/zarr.json"))
        return Columns(self.folder, "clips", names)

    def __contains__(self, split: object) -> bool:
        return split in SPLITS

    def __iter__(self) -> Iterator[str]:
        return iter(SPLITS)

    def __getitem__(self, split: str) -> SplitReader:
        return self._readers[split]

    @cached_property
    def _readers(self) -> dict[str, SplitReader]:
        return {split: SplitReader(self.folder, split, self.layout) for split in SPLITS}


class WindowColumns(Mapping[str, NDArray[Any]]):
    """The columns of windows that are rows of tick indices: what is stored for each tick comes gathered, as if stored for windows."""

    GATHERED = ("time_ns", "source_ns", "imu", "imu_ok")

    def __init__(self, windows: Columns, ticks: Columns) -> None:
        self._windows, self._ticks = windows, ticks
        self._gathered: dict[str, NDArray[Any]] = {}

    def __reduce__(self) -> tuple[object, ...]:  # what was gathered does not travel to worker processes
        return WindowColumns, (self._windows, self._ticks)

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name in self._windows:
            return self._windows[name]
        if name not in self.GATHERED:
            raise KeyError(name)
        if name not in self._gathered:
            values = self._ticks[name][self._windows["index"]]
            values.flags.writeable = False  # shared by all who ask
            self._gathered[name] = values
        return self._gathered[name]

    def __iter__(self) -> Iterator[str]:
        yield from (*self._windows, *(name for name in self.GATHERED if name in self._ticks))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class SplitReader:
    """The windows of one split.

    columns   name -> array of all rows: time_ns, source_ns i64 (N,L), clamped bool (N,L), label i16 (or labels bool (N,C)),
              clip i32, center_ns i64, weight f32, ok bool, digest u64 (N,), and with sensors imu f32 (N,L,M), imu_ok bool (N,L)
    ticks     where the store holds each tick once, the arrays of all its ticks: time_ns, source_ns i64, tick_clip i32, tick_ok bool,
              energy f32, tick_digest u64 (T,), and with sensors imu f32 (T,M), imu_ok bool (T,); `columns` then has index i64 (N,L)
    May be pickled and forked; threads may share one.
    """

    def __init__(self, folder: Path, split: str, layout: Layout) -> None:
        self.folder, self.split, self.layout = folder, split, layout
        units = Columns(folder, split, [spec.name for spec in layout.unit_columns(split)])
        windows = Columns(folder, split, [spec.name for spec in layout.window_columns(split)])
        once = layout.kind == "frames"
        self.ticks = units if once else windows
        self.columns: Mapping[str, NDArray[Any]] = WindowColumns(windows, units) if once else units
        self._pixels = ShardMap(folder, split, layout)

    def __len__(self) -> int:
        return self.layout.n_rows(self.split)

    def __repr__(self) -> str:
        return f"SplitReader({str(self.folder)!r}, {self.split}, {len(self)} windows)"

    def read(
        self, rows: Sequence[int] | NDArray[np.integer[Any]], out: U8 | None = None, *, check: bool = False
    ) -> dict[str, NDArray[Any]]:
        """Whole stored windows: frames u8 (n,L,H,W,3) RGB and every column at these rows, in the order asked for.

        out    where the frames go, u8 (n,L,H,W,3), C-contiguous; reusing one saves the page faults of a new array
        check  compare every window with its digest, which costs about as much again
        Rows may repeat. Raises IndexError for a row outside the split, StoreError (`damaged`) where bytes are missing, or differ
        from what was written.
        """
        wanted = np.atleast_1d(np.asarray(rows, np.int64))
        frames = np.empty((len(wanted), *self.layout.window_shape), np.uint8) if out is None else out
        self.read_frames(wanted, frames)
        if check:
            self._compare(wanted, frames)
        return {"frames": frames, **{name: self.columns[name][wanted] for name in self.columns}}

    def _compare(self, rows: I64, frames: U8) -> None:
        """Raise StoreError where windows that were read are not those that were written."""
        units, stored = rows, self.columns
        if self.layout.kind == "frames":
            index = self.columns["index"][rows]
            units, place = np.unique(index, return_index=True)
            frames, stored = frames.reshape(-1, *self.layout.unit_shape)[place], self.ticks
        names = [spec.name for spec in self.layout.unit_columns(self.split) if spec.name != self.layout.unit_digest]
        fresh = shards.digests(frames, {name: stored[name][units] for name in names})
        good = fresh == stored[self.layout.unit_digest][units]
        if self.layout.kind == "frames":
            names = [spec.name for spec in self.layout.window_columns(self.split) if spec.name not in ("index", "digest")]
            shown = fresh[np.searchsorted(units, index)]
            good = shards.digests(shown, {name: self.columns[name][rows] for name in names}) == self.columns["digest"][rows]
        if not good.all():
            what = f"windows {', '.join(map(str, rows[~good][:5]))} of {self.split} differ from what was written (digest)"
            raise StoreError(what, where=str(self.folder), remedy="`hfprep verify` names all that is damaged", kind="damaged")

    def read_frames(self, rows: I64, out: U8, first: I64 | None = None, step: int = 1) -> None:
        """Pixels of some frames of each window into `out` u8 (n,t,H,W,3): stored frames first, first + step, ... of row i.

        first   int64 (n,) index of the first frame taken, one a row; None: from the window's start
        """
        start = np.zeros(len(rows), np.int64) if first is None else first
        last = start + (out.shape[1] - 1) * step
        self._check(rows, len(self), "rows")
        self._check_out(out, (len(rows), out.shape[1], *self.layout.window_shape[1:]))
        if len(rows) and (start.min() < 0 or last.max() >= self.layout.length):
            raise ValueError(f"frames {start.min()}..{last.max()} asked for, a window holds 0..{self.layout.length - 1}")
        if self.layout.kind == "windows":
            self._pixels.read(rows, out, start, step)
        else:
            self.read_ticks(self.columns["index"][rows[:, None], start[:, None] + np.arange(out.shape[1]) * step], out)

    def read_ticks(self, ticks: I64, out: U8) -> None:
        """Pixels of rows of the tick array, int64 (n,t), into `out` u8 (n,t,H,W,3), where the store holds each tick once."""
        if self.layout.kind != "frames":
            raise ValueError('the store holds whole windows; ticks can be read where it was built with store.layout = "frames"')
        self._check(ticks, self.layout.n_units(self.split), "ticks")
        self._check_out(out, (*ticks.shape, *self.layout.unit_shape))
        self._pixels.read_ticks(ticks, out)

    def read_units(self, units: I64, out: U8) -> None:
        """Pixels of whole units (windows, or ticks), as they are stored, into `out` u8 (n, unit shape)."""
        if self.layout.kind == "windows":
            self.read_frames(units, out)
        else:
            self.read_ticks(units[:, None], out[:, None])

    def _check(self, rows: I64, count: int, name: str) -> None:
        if rows.size and (rows.min() < 0 or rows.max() >= count):
            raise IndexError(f"{self.split} has {name} 0..{count - 1}, asked for {rows.min()}..{rows.max()}")

    def _check_out(self, out: U8, shape: tuple[int, ...]) -> None:
        if out.shape != shape or out.dtype != np.uint8:
            raise ValueError(f"out is {out.dtype} {out.shape}; it must be uint8 {shape}")
