"""Facts of a store as one plain dict: what `hfprep inspect --json` gives, and what its words are made of."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import StoreError
from ..index import members
from ..layout import Layout
from ..records import SPLITS
from ..store import BuildingState, Store, building_state, open_store, size_bytes
from .command import build_command

QUARTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
OFTEN = 0.05  # a clip that repeats more than this share of its ticks is said to repeat: one in twenty can be chance


def facts(path: str | os.PathLike[str]) -> dict[str, Any]:
    """All that `inspect` says of a store, as values that JSON knows (no NaN, no arrays).

    Of a finished store: store, status "complete", format_version, manifest, fingerprint, versions, pipeline, layout, sizes, splits,
    classes, labels (None: one a window), sources, clamped, repeated, hotspots, sensors (None without), quarantine, partial, notes.
    Shares lie in 0..1, sizes in bytes, spans in seconds, and sizes.ratio is stored / raw. Of an unfinished one: store, status
    "building", format_version, manifest, fingerprint, versions, pipeline, layout, shards (written and total a split) and command,
    which continues the build.

    Raises StoreError where the path is no store of a format that this hfprep knows, or a column cannot be read.
    """
    state = building_state(path)
    if state is None:
        raise StoreError("no such store", where=str(path), remedy="give the folder that `hfprep build` wrote", kind="not_a_store")
    head = {
        "store": str(path),
        "status": state.status,
        "format_version": state.attrs["format_version"],
        "manifest": state.attrs.get("manifest", ""),
        "fingerprint": state.attrs.get("fingerprint", ""),
        "versions": dict(state.attrs.get("versions", {})),
        "pipeline": dict(state.attrs.get("pipeline", {})),
        "layout": sizes(state.layout, state.attrs),
    }
    if state.status != "complete":
        return {**head, **_unfinished(state, Path(path))}
    store = open_store(path)
    return {**head, **{key: plain(value) for key, value in _finished(store).items()}}


def interval_ns(attrs: dict[str, Any]) -> Fraction:
    """Time between two ticks, exact, from a store's attributes."""
    return Fraction(str(attrs.get("pipeline", {}).get("frame", {}).get("interval_ms", 100)).strip()) * 1_000_000


def sizes(layout: Layout, attrs: dict[str, Any]) -> dict[str, Any]:
    """Lengths, spans in seconds and picture size of a store's windows."""
    interval = interval_ns(attrs)
    return {
        "size": layout.size,
        "margin": layout.margin,
        "stored_ticks": layout.length,
        "interval_ms": float(interval / 1_000_000),
        "span_s": float((layout.size - 1) * interval / 1_000_000_000),
        "stored_span_s": float((layout.length - 1) * interval / 1_000_000_000),
        "height": layout.height,
        "width": layout.width,
        "layout": layout.kind,
        "codec": layout.codec,
        "windows_per_shard": layout.windows_per_shard,
        "window_bytes": layout.window_bytes,
        "axes": list(layout.axes),
    }


def _unfinished(state: BuildingState, folder: Path) -> dict[str, Any]:
    done = Counter(split for split, _ in state.written)
    per_split = {split: {"written": done[split], "total": state.layout.n_shards(split)} for split in SPLITS}
    return {
        "shards": {"written": len(state.written), "total": state.total, **per_split},
        "command": build_command(state.attrs, folder),
    }


def _finished(store: Store) -> dict[str, Any]:
    good = {split: np.asarray(store[split].columns["ok"], bool) for split in SPLITS}
    clip = {split: store[split].columns["clip"][good[split]] for split in SPLITS}
    raw = sum(store.layout.n_units(split) for split in SPLITS) * store.layout.unit_bytes
    stored = size_bytes(store.folder)
    quarantine, partial = _faults(store, set(np.concatenate(list(clip.values())).tolist()))
    return {
        "sizes": {"stored_bytes": stored, "raw_bytes": raw, "ratio": stored / raw if raw else None},
        "splits": {split: _split(store, split, good[split], clip[split]) for split in SPLITS},
        "classes": _classes(store, good, clip),
        "labels": _several(store, good),
        "sources": _sources(store),
        "loss": _loss(store),
        "clamped": _clamped(store, good),
        "repeated": _repeated(store),
        "hotspots": _hotspots(store),
        "sensors": _sensors(store, good),
        "quarantine": quarantine,
        "partial": partial,
        "notes": [_fault(f) for f in store.attrs.get("faults", []) if f.get("warning")],
    }


def _loss(store: Store) -> dict[str, Any] | None:
    """How far the stored pixels are from what was decoded: JPEG quality, PSNR in dB on average and at least; None: not at all."""
    if store.layout.codec != "jpeg":
        return None
    parts = []
    for split in SPLITS:
        once = store.layout.kind == "frames"
        held = store[split].ticks if once else store[split].columns
        psnr, ok = held["psnr"], held["tick_ok" if once else "ok"]
        parts.append(psnr[ok & np.isfinite(psnr)])
    db = np.concatenate(parts)
    known = {"psnr_mean_db": float(db.mean()), "psnr_min_db": float(db.min())} if len(db) else {"psnr_mean_db": None, "psnr_min_db": None}
    return {"quality": store.layout.quality, **known}


def _split(store: Store, split: str, good: NDArray[np.bool_], clip: NDArray[Any]) -> dict[str, int]:
    return {
        "windows": int(good.sum()),
        "lost_windows": int((~good).sum()),
        "clips": len(np.unique(clip)),
        "shards": store.layout.n_shards(split),
    }


def _classes(store: Store, good: dict[str, NDArray[np.bool_]], clip: dict[str, NDArray[Any]]) -> list[dict[str, Any]]:
    """Per class: windows and clips of each split, the train windows that it would have had without balancing, its loss weight."""
    weights = list(store.attrs.get("class_weight", []))
    before = _unbalanced(store)
    rows = []
    for number, name in enumerate(store.classes):
        here = {split: _of_class(store, split, number)[good[split]] for split in SPLITS}
        rows.append(
            {
                "label": name,
                "windows": {split: int(here[split].sum()) for split in SPLITS},
                "clips": {split: len(np.unique(clip[split][here[split]])) for split in SPLITS},
                "unbalanced_train_windows": None if before is None else before[name],
                "weight": weights[number] if number < len(weights) else None,
            }
        )
    return rows


def _of_class(store: Store, split: str, number: int) -> NDArray[np.bool_]:
    """Which windows of a split are of a class."""
    columns = store[split].columns
    return np.asarray(columns["labels"][:, number] if store.layout.label_classes else columns["label"] == number, bool)


def _several(store: Store, good: dict[str, NDArray[np.bool_]]) -> dict[str, Any] | None:
    """Of a store whose windows may be of several classes: how many they have; None: one each."""
    if not store.layout.label_classes:
        return None
    counts = np.concatenate([store[split].columns["labels"][good[split]].sum(axis=1) for split in SPLITS])
    many = {"mean": float(counts.mean()), "most": int(counts.max())} if len(counts) else {"mean": None, "most": None}
    return {**many, "windows": int(np.count_nonzero(counts > 1)), "positive_weight": list(store.attrs.get("positive_weight", []))}


def _unbalanced(store: Store) -> Counter[str] | None:
    if "n_windows_unbalanced" not in store.clips:
        return None
    counts: Counter[str] = Counter()
    windows = np.where(store.clips["split"] == "train", store.clips["n_windows_unbalanced"], 0)
    of = members(store.clips["label"], store.attrs, store.layout)
    for number, n in zip(of.label.tolist(), windows[of.clip].tolist()):
        counts[store.classes[number]] += n
    return counts


def _column(store: Store, name: str, default: Any) -> NDArray[Any]:
    return store.clips[name] if name in store.clips else np.full(len(store.clips["id"]), default)


def _used(store: Store) -> NDArray[np.bool_]:
    """Clips that gave at least one tick."""
    return np.asarray(_column(store, "n_ticks", 0) > 0)


def _sources(store: Store) -> dict[str, Any]:
    """Frame rates of the clips' videos, most frequent first, and what the files are."""
    used = _used(store)
    rates = _column(store, "source_fps", 0.0)[used]
    rates = rates[rates > 0]
    sizes = zip(_column(store, "width", 0)[used], _column(store, "height", 0)[used])
    return {
        "fps_min": float(rates.min()) if len(rates) else None,
        "fps_max": float(rates.max()) if len(rates) else None,
        "fps": [{"fps": fps, "clips": n} for fps, n in _frequent(round(float(rate), 2) for rate in rates)],
        "vfr_clips": int(np.count_nonzero(_column(store, "vfr", False)[used])),
        "rotated_clips": int(np.count_nonzero(_column(store, "rotation", 0)[used])),
        "codecs": [{"codec": codec, "clips": n} for codec, n in _frequent(str(c) for c in _column(store, "codec", "")[used] if c)],
        "sizes": [{"width": w, "height": h, "clips": n} for (w, h), n in _frequent((int(w), int(h)) for w, h in sizes if w and h)],
    }


def _frequent(values: Iterable[Any]) -> list[tuple[Any, int]]:
    return sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))


def _clamped(store: Store, good: dict[str, NDArray[np.bool_]]) -> dict[str, Any]:
    """Repeats of clip ends, in the windows proper (margins are not looked at)."""
    inner = slice(store.layout.margin, store.layout.length - store.layout.margin)
    frames = windows = total = 0
    for split in SPLITS:
        clamped = store[split].columns["clamped"][good[split], inner]
        frames += int(clamped.sum())
        windows += int(clamped.any(axis=1).sum())
        total += clamped.size
    return {"share": frames / total if total else 0.0, "windows": windows}


def _repeated(store: Store) -> dict[str, Any]:
    """Ticks that show the same frame as the tick before, because the source is slower than the grid."""
    used = _used(store)
    shares, ticks = _column(store, "repeated_share", 0.0)[used], _column(store, "n_ticks", 0)[used]
    return {
        "share": float((shares * ticks).sum() / ticks.sum()) if len(ticks) else 0.0,
        "clips": int((shares > OFTEN).sum()),
        "highest": float(shares.max()) if len(shares) else 0.0,
    }


def _hotspots(store: Store) -> dict[str, Any]:
    scores = _column(store, "hotspot_score", math.nan)[_column(store, "hotspot_ns", -1) >= 0]
    scores = scores[np.isfinite(scores)]
    return {"clips": len(scores), "quartiles": [float(q) for q in np.quantile(scores, QUARTILES)] if len(scores) else None}


def _sensors(store: Store, good: dict[str, NDArray[np.bool_]]) -> dict[str, Any] | None:
    """Units and rates found, share of the clips' ticks inside the sensors' cover, how files were read; share of frames in the windows
    without a measured value: of each axis, and with any axis missing."""
    axes = store.layout.axes
    if not axes:
        return None
    unknown, masked, total = np.zeros(len(axes), np.int64), 0, 0
    for split in SPLITS:
        columns = store[split].columns
        unknown += np.isnan(columns["imu"][good[split]]).sum(axis=(0, 1))
        masked += int((~columns["imu_ok"][good[split]]).sum())
        total += columns["imu_ok"][good[split]].size
    shares = [int(n) / total if total else 0.0 for n in unknown]
    units = store.attrs.get("axis_units", {})
    hz = _column(store, "imu_hz", 0.0)
    cover = _column(store, "imu_cover", 0.0)[hz > 0]
    return {
        "axes": [{"axis": axis, "unit": units.get(axis, ""), "masked_share": share} for axis, share in zip(axes, shares, strict=True)],
        "masked_share": masked / total if total else 0.0,
        "clips": len(cover),
        "hz": [float(hz[hz > 0].min()), float(hz[hz > 0].max())] if len(cover) else None,
        "cover": float(cover.mean()) if len(cover) else None,
        "formats": store.attrs.get("sensor_formats", {}),
    }


def _faults(store: Store, kept: set[int]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows that gave no window, with the reason, and rows of which only a part is in the store; both in the manifest's order."""
    lost: dict[int, dict[str, Any]] = {int(f["row"]): _fault(f) for f in store.attrs.get("faults", []) if not f.get("warning")}
    partial: list[dict[str, Any]] = []
    error, kind = _column(store, "error", ""), _column(store, "error_kind", "")
    short = np.zeros(len(error), np.int64)
    for split in SPLITS:
        columns = store[split].columns
        np.add.at(short, columns["clip"][~np.asarray(columns["ok"], bool)], 1)
    notes = _column(store, "notes", "")
    for number in np.flatnonzero((error != "") | (short > 0)):
        told: dict[str, Any] = {
            "row": int(_column(store, "row", 0)[number]),
            "line": int(_column(store, "line", 0)[number]),
            "video": str(store.clips["video"][number]),
            "kind": str(kind[number]) or "partial",
            "reason": str(error[number]) or f"{notes[number] or 'damaged'} ({short[number]} windows left out)",
        }
        if int(number) in kept:
            partial.append(told)
        else:
            lost.setdefault(told["row"], told)
    return sorted(lost.values(), key=lambda f: int(f["row"])), sorted(partial, key=lambda f: int(f["row"]))


def _fault(fault: dict[str, Any]) -> dict[str, Any]:
    named = {name: fault.get(name, default) for name, default in (("row", 0), ("line", 0), ("video", ""), ("kind", ""))}
    return {**named, "reason": fault.get("message", "")}


def plain(value: Any) -> Any:
    """NaN and infinities as None: JSON has no word for them."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
