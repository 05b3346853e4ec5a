"""Groups, array metadata and small columns of a store as the bytes of Zarr v3 files: name in the store -> bytes. No zarr here.

Written from the specification (tests read all of it with zarr and xarray): the bytes then do not depend on the version of
zarr-python, and a store of 60 arrays is declared in milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numcodecs.zstd
import numpy as np
from numcodecs.zstd import Zstd
from numpy.typing import NDArray

from . import shards
from .layout import CLIP_TYPES, OUTCOME_COLUMNS, ArraySpec, Layout
from .records import SPLITS, ClipOutcome

CLIP_CHUNK = 1 << 16
SMALL_LEVEL = 3
SMALL = {"name": "zstd", "configuration": {"level": SMALL_LEVEL, "checksum": True}}
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
PIXELS: dict[str, list[dict[str, Any]]] = {
    "raw": [],
    "lz4": [
        {
            "name": "blosc",
            "configuration": {
                "typesize": 1,
                "cname": "lz4",
                "clevel": shards.LZ4_LEVEL,
                "shuffle": "noshuffle",
                "blocksize": shards.LZ4_BLOCK,
            },
        }
    ],
    "zstd": [{"name": "zstd", "configuration": {"level": shards.ZSTD_LEVEL, "checksum": False}}],
    "jpeg": [{"name": "hfprep.jpeg", "configuration": {}}],  # with sizes and quality, see _pixels
}
EMPTY: dict[str, Any] = {"str": "", "int64": -1, "float64": float("nan"), "bool": False}


def skeleton(layout: Layout, clips: dict[str, list[Any]]) -> dict[str, bytes]:
    """Every file of a store without windows, but the root's zarr.json: groups, array metadata, and `clips/` with its values."""
    files = {f"{group}/zarr.json": group_json({}) for group in (*SPLITS, "clips")}
    for split in SPLITS:
        files[f"{split}/frames/zarr.json"] = _frames_json(layout.frames(split), _pixels(layout))
        for spec in layout.columns(split):
            files[f"{split}/{spec.name}/zarr.json"] = _small_json(spec, {})
    count = len(next(iter(clips.values()), []))
    initial = {name: clips.get(name, [value] * count) for name, value in OUTCOME_COLUMNS.items()}
    taken: set[str] = set()
    for name, values in {**clips, **initial}.items():
        node = node_name(name, taken)
        files[f"clips/{node}/zarr.json"] = _small_json(
            _clip_spec(node, count, _kind(name, values)), {} if node == name else {"column": name}
        )
        files |= clip_chunks(node, typed(name, values))
    return files


def clip_files(name: str, values: NDArray[Any]) -> dict[str, bytes]:
    """Metadata and chunks of one numeric column of `clips/`, to be put beside those that are there."""
    return {f"clips/{name}/zarr.json": _small_json(_clip_spec(name, len(values), str(values.dtype)), {}), **clip_chunks(name, values)}


def group_json(attributes: dict[str, Any]) -> bytes:
    """The zarr.json of a group."""
    return _json({"zarr_format": 3, "node_type": "group", "attributes": attributes})


def column_json(spec: ArraySpec) -> bytes:
    """The zarr.json of a small column of a split."""
    return _small_json(spec, {})


def column_chunks(split: str, spec: ArraySpec, first: int, values: NDArray[Any]) -> dict[str, bytes]:
    """The chunks of one small column that rows first, first + 1, ... fill; first is the first row of a chunk."""
    return _chunks(f"{split}/{spec.name}", spec.chunk, first, values)


def clip_chunks(name: str, values: NDArray[Any]) -> dict[str, bytes]:
    """The chunks of a whole column of `clips/`."""
    return _chunks(f"clips/{name}", _clip_spec(name, len(values), "").chunk, 0, values)


def outcome_columns(before: dict[str, list[Any]], outcomes: Iterable[ClipOutcome]) -> dict[str, NDArray[Any]]:
    """The columns of `clips/` that preparation tells of; clips without an outcome keep the value before."""
    columns = {name: list(values) for name, values in before.items()}
    for outcome in outcomes:
        row: dict[str, Any] = {**asdict(outcome), "notes": "; ".join(outcome.notes)}  # the centres are in the windows
        for name, values in columns.items():
            if name != "n_ticks" or outcome.n_ticks:  # 0: it failed before its ticks were counted again
                values[outcome.clip] = row[name]
    return {name: typed(name, values) for name, values in columns.items()}


def typed(name: str, values: Sequence[Any]) -> NDArray[Any]:
    """A clips column as an array: by name where the type is fixed, else by its values; None becomes "", -1, NaN or False."""
    kind = _kind(name, values)
    filled = [EMPTY[kind] if value is None else str(value) if kind == "str" else value for value in values]
    return np.array(filled, object if kind == "str" else kind)


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


def decode(document: dict[str, Any], fetch: Callable[[str], bytes]) -> NDArray[Any] | None:
    """A whole small array from its metadata and its chunks (key inside the array, e.g. "c/0/0" -> bytes), text as Python strings.

    None where the metadata is not of the kind written here: zarr knows what to do then. Raises ValueError where a chunk is damaged.
    """
    try:
        shape, chunk = document["shape"], document["chunk_grid"]["configuration"]["chunk_shape"]
        text = document["data_type"] == "string"
        spec = ArraySpec("", "str" if text else document["data_type"], tuple(shape), tuple(document["dimension_names"]), chunk[0])
        if json.loads(_small_json(spec, document["attributes"])) != document:
            return None
    except (KeyError, TypeError):  # nothing that is written here lacks a key or has such a type
        return None
    values: NDArray[Any] = np.empty(shape, object if text else spec.dtype)
    for start in range(0, shape[0], chunk[0]):
        key = "/".join(map(str, ["c", start // chunk[0], *[0] * (len(shape) - 1)]))
        into = values[start : start + chunk[0]]
        straight = not text and len(into) == chunk[0] and into.nbytes and values.dtype.newbyteorder("<") == values.dtype
        try:
            if straight:
                numcodecs.zstd.decompress(fetch(key), into)
                continue
            data = numcodecs.zstd.decompress(fetch(key))
        except RuntimeError as fault:
            raise ValueError(f"chunk {key}: {fault}") from None
        part = _texts(data) if text else np.frombuffer(data, values.dtype.newbyteorder("<")).reshape(chunk)
        into[...] = part[: len(into)]
    return values


def frames_codec(spec: ArraySpec, document: dict[str, Any]) -> str | None:
    """The codec of a pixel array whose metadata is as written here, whatever the levels (what is encoded tells them itself); else None."""
    for codec, ours in PIXELS.items():
        try:
            inner = document["codecs"][0]["configuration"]["codecs"]
            same = [step["name"] for step in inner[1:]] == [step["name"] for step in ours]
            sharding = {**document["codecs"][0]["configuration"], "codecs": [inner[0], *ours]}
        except (KeyError, TypeError, IndexError):
            return None
        levelled = {**document, "attributes": {}, "codecs": [{**document["codecs"][0], "configuration": sharding}, *document["codecs"][1:]]}
        if same and json.loads(_frames_json(spec, ours)) == levelled:
            return codec
    return None


def _texts(data: bytes) -> NDArray[Any]:
    found, place = np.empty(int.from_bytes(data[:4], "little"), object), 4
    for number in range(len(found)):
        size = int.from_bytes(data[place : place + 4], "little")
        found[number] = data[place + 4 : place + 4 + size].decode()
        place += 4 + size
    return found


def _kind(name: str, values: Sequence[Any]) -> str:
    if name in CLIP_TYPES:
        return CLIP_TYPES[name]
    kinds = {np.asarray(value).dtype.kind for value in values if value is not None}
    if kinds == {"b"}:
        return "bool"
    if not kinds or kinds - set("iuf"):
        return "str"
    return "float64" if "f" in kinds else "int64"


def _clip_spec(name: str, count: int, kind: str) -> ArraySpec:
    return ArraySpec(name, kind, (count,), ("clip",), min(CLIP_CHUNK, max(1, count)))


def _pixels(layout: Layout) -> list[dict[str, Any]]:
    if layout.codec != "jpeg":
        return PIXELS[layout.codec]
    return [{"name": "hfprep.jpeg", "configuration": {"height": layout.height, "width": layout.width, "quality": layout.quality}}]


def _frames_json(spec: ArraySpec, codecs: list[dict[str, Any]]) -> bytes:
    rest = list(spec.shape[1:])
    sharding = {
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": [spec.chunk, *rest],
            "codecs": [{"name": "bytes"}, *codecs],
            "index_codecs": [LITTLE, {"name": "crc32c"}],
            "index_location": "end",
        },
    }
    return _array_json(spec, "uint8", [spec.shard, *rest], 0, [sharding], {})


def _small_json(spec: ArraySpec, attributes: dict[str, Any]) -> bytes:
    chunk = [spec.chunk, *spec.shape[1:]]
    if spec.dtype == "str":
        return _array_json(spec, "string", chunk, "", [{"name": "vlen-utf8"}, SMALL], attributes)
    fill: Any = np.zeros((), spec.dtype).item()
    return _array_json(
        spec, spec.dtype, chunk, fill, [LITTLE if np.dtype(spec.dtype).itemsize > 1 else {"name": "bytes"}, SMALL], attributes
    )


def _array_json(
    spec: ArraySpec, data_type: str, chunk: list[int], fill: Any, codecs: list[dict[str, Any]], attributes: dict[str, Any]
) -> bytes:
    return _json(
        {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(spec.shape),
            "data_type": data_type,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": fill,
            "codecs": codecs,
            "dimension_names": list(spec.dims),
            "attributes": attributes,
        }
    )


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, indent=2, sort_keys=True, allow_nan=False).encode()


def _chunks(name: str, chunk: int, first: int, values: NDArray[Any]) -> dict[str, bytes]:
    """Chunk files of rows first, first + 1, ...; every chunk is a file, also one of zeros: a file that is not there means damage."""
    files: dict[str, bytes] = {}
    for start in range(0, len(values), chunk):
        part = values[start : start + chunk]
        key = "/".join(map(str, [(first + start) // chunk, *[0] * (values.ndim - 1)]))
        files[f"{name}/c/{key}"] = bytes(
            Zstd(SMALL_LEVEL, True).encode(_text(part, chunk) if values.dtype == object else _numbers(part, chunk))
        )
    return files


def _numbers(values: NDArray[Any], chunk: int) -> bytes:
    whole = np.zeros((chunk, *values.shape[1:]), values.dtype.newbyteorder("<"))  # the last chunk has its full size, too
    whole[: len(values)] = values
    return whole.tobytes()


def _text(values: NDArray[Any], chunk: int) -> bytes:
    """Zarr's vlen-utf8: the number of texts, then each with its length in front."""
    texts = [text.encode("utf-8", "replace") for text in values] + [b""] * (chunk - len(values))
    return b"".join([len(texts).to_bytes(4, "little"), *(part for text in texts for part in (len(text).to_bytes(4, "little"), text))])
