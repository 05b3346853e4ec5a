"""Small stores of layout "frames" whose pixels say which clip and tick they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfprep import pipeline, store, windows
from hfprep.layout import Layout
from hfprep.records import ClipOutcome, ShardData

STEP_NS = 100_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Ticks:
    """What was written; every clip is of the split train. clip, tick, ok (T,) of the ticks; sensor f32 (T,M); centers by clip."""

    path: Path
    lengths: tuple[int, ...]
    clip: NDArray[np.int64]
    tick: NDArray[np.int64]
    ok: NDArray[np.bool_]
    sensor: NDArray[np.float32]
    centers: Mapping[int, tuple[int, ...]]


def make_ticks(
    path: Path,
    lengths: Sequence[int],
    *,
    count: int = 5,
    size: int = 6,
    margin: int = 2,
    axes: tuple[str, ...] = ("ax", "ay"),
    bad: Sequence[tuple[int, int]] = (),
    placement: str = "hotspot",
    side: int = 4,
    max_clamped: float = 0.25,
) -> Ticks:
    """A store of clips of these lengths in ticks, `count` windows each (or as many as fit) around a third of the clip.

    bad  (clip, tick) whose pictures are missing
    Pixel = (clip, tick, 255 - tick); axis j of the sensor is 1000 j + 10 clip + tick, unknown where tick % 5 == j.
    """
    number = len(lengths)
    clip = np.repeat(np.arange(number), lengths)
    tick = np.concatenate([np.arange(n) for n in lengths])
    first = np.cumsum([0, *lengths[:-1]]).tolist()
    centers = {
        k: tuple(windows.place(n, n // 3, size=size, count=count, stride=0, max_clamped=max_clamped).tolist())
        for k, n in enumerate(lengths)
    }
    counts = [len(centers[k]) for k in range(number)]
    layout = Layout(size, margin, side, side, axes, "raw", 4, (sum(counts), 0, 0), "frames", (len(tick), 0, 0), 16)
    recipe = pipeline.check({"window": {"size": size, "margin": margin, "placement": placement, "max_clamped": max_clamped}})
    attrs = {"classes": ["a", "b"], "class_weight": [1.0, 2.0], "axes": list(axes), "pipeline": recipe.model_dump(mode="json")}
    clips: dict[str, list[Any]] = {
        "id": [f"c{k}" for k in range(number)],
        "split": ["train"] * number,
        "label": ["ab"[k % 2] for k in range(number)],
        "n_ticks": list(lengths),
        "n_windows": counts,
        "first_tick": first,
    }
    ok = np.array([(c, t) not in set(bad) for c, t in zip(clip.tolist(), tick.tolist())])
    sensor = np.stack([np.where(tick % 5 == j, np.nan, 1000 * j + 10 * clip + tick) for j in range(len(axes))] or [tick], axis=-1).astype(
        np.float32
    )
    pixels = np.stack([clip, tick, 255 - tick], axis=-1).astype(np.uint8)[:, None, None].repeat(side, 1).repeat(side, 2)
    columns: dict[str, Any] = {"time_ns": tick * STEP_NS, "source_ns": tick * STEP_NS, "tick_clip": clip.astype(np.int32), "tick_ok": ok}
    columns["energy"] = np.zeros(len(tick), np.float32)
    if axes:
        columns |= {"imu": sensor, "imu_ok": np.isfinite(sensor).all(axis=1)}
    store.create(path, layout, attrs, clips)
    for split, index in layout.shards():
        low, high = layout.shard_units(split, index)
        told = tuple(ClipOutcome(k, lengths[k], centers=centers[k]) for k in np.unique(clip[low:high]).tolist())
        part = {name: values[low:high] for name, values in columns.items()}
        store.write_shard(path, layout, ShardData(split, index, np.ascontiguousarray(pixels[low:high]), part, told))
    store.finish(path)
    return Ticks(path, tuple(lengths), clip, tick, ok, sensor, centers)
