"""Zarr arrays of a store as files in memory: name in the store -> bytes. What is written where, and when, is `store`'s business.

zarr-python makes the metadata and the small columns; going through memory keeps its half-written files out of the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import BloscCodec, ZstdCodec
from zarr.storage import MemoryStore

from . import shards
from .layout import CLIP_TYPES, OUTCOME_COLUMNS, ArraySpec, Layout
from .records import SPLITS, ClipOutcome

CLIP_CHUNK = 1 << 16
SMALL = ZstdCodec(level=3, checksum=True)
EVERY_CHUNK: Any = {"write_empty_chunks": True}  # so that a file that is not there always means damage
EMPTY: dict[str, Any] = {"str": "", "int64": -1, "float64": float("nan"), "bool": False}


def skeleton(layout: Layout, clips: dict[str, list[Any]]) -> dict[str, bytes]:
    """Every file of a store without windows, but the root's zarr.json: groups, array metadata, and `clips/` with its values."""
    memory = MemoryStore()
    for split in SPLITS:
        group = zarr.create_group(memory, path=split)
        for spec in (layout.frames(split), *layout.columns(split)):
            _declare(group, spec, layout.codec)
    table = zarr.create_group(memory, path="clips")
    count = len(next(iter(clips.values()), []))
    initial = {name: clips.get(name, [value] * count) for name, value in OUTCOME_COLUMNS.items()}
    taken: set[str] = set()
    for name, values in {**clips, **initial}.items():
        node = node_name(name, taken)
        _clip_column(table, node, typed(name, values), {} if node == name else {"column": name})
    return _files(memory)


def column_chunks(folder: Path, split: str, name: str, first: int, values: NDArray[Any]) -> dict[str, bytes]:
    """The chunks of one small column that rows first, first + 1, ... fill."""
    return _written(folder, f"{split}/{name}", first, values)


def outcome_chunks(folder: Path, before: dict[str, list[Any]], outcomes: Iterable[ClipOutcome]) -> dict[str, bytes]:
    """The chunks of the columns of `clips/` that preparation tells of; clips without an outcome keep the value before."""
    columns = {name: list(values) for name, values in before.items()}
    for outcome in outcomes:
        row: dict[str, Any] = {**asdict(outcome), "notes": "; ".join(outcome.notes)}
        for name, values in columns.items():
            if name != "n_ticks" or outcome.n_ticks:  # 0: it failed before its ticks were counted again
                values[outcome.clip] = row[name]
    files: dict[str, bytes] = {}
    for name, values in columns.items():
        if values:
            files |= _written(folder, f"clips/{name}", 0, typed(name, values))
    return files


def typed(name: str, values: Sequence[Any]) -> NDArray[Any]:
    """A clips column as an array: by name where the type is fixed, else by its values; None becomes "", -1, NaN or False."""
    known = [value for value in values if value is not None]
    kind = CLIP_TYPES.get(name)
    if kind is None:
        kinds = {np.asarray(value).dtype.kind for value in known}
        kind = (
            "bool" if kinds == {"b"} else "int64" if kinds and kinds <= set("iu") else "float64" if kinds and kinds <= set("iuf") else "str"
        )
    filled = [EMPTY[kind] if value is None else str(value) if kind == "str" else value for value in values]
    return np.array(filled, np.dtypes.StringDType() if kind == "str" else kind)


def node_name(name: str, taken: set[str]) -> str:
    """A manifest column's name as a Zarr node name: no slash, control letter, leading underscores, or second of its kind."""
    clean = "".join(c if c.isprintable() and c not in '/\\:*?"<>|' else "_" for c in name).strip()
    if clean.startswith("__") or not clean.strip("._") or clean == "zarr.json":
        clean = f"column{clean.replace('.', '_')}"
    clean = clean.encode()[:100].decode(errors="ignore")
    unique, count = clean, 1
    while unique in taken:
        count += 1
        unique = f"{clean}_{count}"
    taken.add(unique)
    return unique


def _declare(group: zarr.Group, spec: ArraySpec, codec: str) -> None:
    lz4 = BloscCodec(typesize=1, cname="lz4", clevel=shards.LZ4_LEVEL, shuffle="noshuffle", blocksize=0)
    pixels: Any = {"raw": None, "lz4": lz4, "zstd": ZstdCodec(level=shards.ZSTD_LEVEL, checksum=False)}[codec]
    rest = spec.shape[1:]
    group.create_array(
        spec.name,
        shape=spec.shape,
        dtype=spec.dtype,
        chunks=(spec.chunk, *rest),
        shards=(spec.shard, *rest) if spec.shard else None,
        compressors=pixels if spec.shard else SMALL,
        filters=None,
        fill_value=0,
        dimension_names=spec.dims,
        config=EVERY_CHUNK,
    )


def _clip_column(group: zarr.Group, name: str, values: NDArray[Any], attributes: dict[str, Any]) -> None:
    array = group.create_array(
        name,
        shape=values.shape,
        dtype=values.dtype,
        chunks=(min(CLIP_CHUNK, max(1, len(values))),),
        compressors=SMALL,
        fill_value="" if values.dtype.kind == "T" else 0,
        dimension_names=("clip",),
        attributes=attributes,
        config=EVERY_CHUNK,
    )
    if len(values):
        array[:] = values


def _written(folder: Path, name: str, first: int, values: NDArray[Any]) -> dict[str, bytes]:
    """The chunk files that come of writing rows first, first + 1, ... of an array of the store; only whole chunks are written."""
    metadata = zarr.core.buffer.default_buffer_prototype().buffer.from_bytes((folder / name / "zarr.json").read_bytes())
    memory = MemoryStore({f"{name}/zarr.json": metadata})
    array = zarr.open_array(memory, path=name, mode="r+", zarr_format=3).with_config(EVERY_CHUNK)
    array[first : first + len(values)] = values
    return {key: data for key, data in _files(memory).items() if not key.endswith("/zarr.json")}


def _files(memory: MemoryStore) -> dict[str, bytes]:
    return {key: data.to_bytes() for key, data in memory._store_dict.items() if key != "zarr.json"}
