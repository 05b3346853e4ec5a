"""Small stores written directly through `hfprep.store`, with frames drawn here: what a test wrote, it knows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfprep import pipeline, store
from hfprep.layout import Layout
from hfprep.records import SPLITS, ClipOutcome, ShardData

FPS = (25.0, 30.0, 12.5)  # of clip 0, 1, 2, and again
Faults = Mapping[int, tuple[str, str]]  # clip -> (kind, reason)


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """What was written: `frames` and `columns` (digest excepted) of each split in row order, `clips` as given to create."""

    path: Path
    layout: Layout
    attrs: dict[str, Any]
    clips: dict[str, list[Any]]
    outcomes: tuple[ClipOutcome, ...]
    frames: dict[str, NDArray[np.uint8]]
    columns: dict[str, dict[str, NDArray[Any]]]

    def rows_of(self, clip: int) -> tuple[str, list[int]]:
        """Split and rows of a clip's windows."""
        split = self.clips["split"][clip]
        return split, np.flatnonzero(self.columns[split]["clip"] == clip).tolist()


def make_store(
    path: Path,
    *,
    n_clips: int = 8,
    windows: int | Sequence[int] = 3,
    size: int = 4,
    margin: int = 1,
    height: int = 16,
    width: int = 24,
    n_ticks: int = 10,
    interval_ms: int | str = 100,
    axes: tuple[str, ...] = (),
    codec: str = "lz4",
    windows_per_shard: int = 4,
    classes: tuple[str, ...] = ("left", "right"),
    splits: Sequence[str] = ("train", "train", "val", "train", "test"),
    lost: Faults | None = None,
    partial: Faults | None = None,
    faults: Sequence[dict[str, Any]] = (),
    unwritten: Collection[tuple[str, int]] = (),
    finish: bool = True,
    folder: str = "/videos",
) -> Made:
    """Write a store of drawn clips: a square moves to the left or right before a slope of its clip's own colour.

    Clip k has label k mod classes, split splits[k mod len], `windows` windows (or windows[k]) of evenly placed centres, a video
    of FPS[k mod 3] frames/s, and with axes a sensor that measures axis j as 10 j + seconds, the first tenth of each clip excepted.
    lost: no window of the clip is ok; partial: its last window is not; faults: root attribute; unwritten: shards left out, the
    store then stays unfinished, as with finish=False.
    """
    counts = [windows] * n_clips if isinstance(windows, int) else list(windows)
    of_split = {split: [k for k in range(n_clips) if splits[k % len(splits)] == split] for split in SPLITS}
    rows = tuple(sum(counts[k] for k in of_split[split]) for split in SPLITS)
    quality = 90 if codec == "jpeg" else 0
    layout = Layout(size, margin, height, width, axes, codec, windows_per_shard, rows, quality=quality)  # type: ignore[arg-type]
    recipe = pipeline.check(
        {
            "frame": {"interval_ms": interval_ms, "height": height, "width": width},
            "window": {"size": size, "margin": margin},
            "store": {"codec": codec, "windows_per_shard": windows_per_shard},
        }
    )
    attrs: dict[str, Any] = {
        "versions": {"hfprep": "0.0.test", "zarr": "3.test"},
        "pipeline": recipe.model_dump(mode="json"),
        "fingerprint": pipeline.fingerprint(recipe),
        "plan_digest": "0" * 16,
        "manifest": "drawn.csv",
        "classes": list(classes),
        "class_weight": [1.0 + 0.5 * number for number in range(len(classes))],
        "axes": list(axes),
        "faults": list(faults),
    }
    lost, partial = lost or {}, partial or {}
    told = tuple(_outcome(k, n_ticks, {**lost, **partial}.get(k)) for k in range(n_clips))
    clips = _clips(n_clips, counts, classes, splits, n_ticks, axes, folder)
    frames: dict[str, NDArray[np.uint8]] = {}
    columns: dict[str, dict[str, NDArray[Any]]] = {}
    interval = int(recipe.frame.interval_ns)
    for split in SPLITS:
        parts = [_windows(layout, k, counts[k], n_ticks, interval, k % len(classes), bad=_bad(k, lost, partial)) for k in of_split[split]]
        frames[split] = np.concatenate([part.pop("frames") for part in parts]) if parts else np.zeros(layout.frames(split).shape, np.uint8)
        specs = [spec for spec in layout.columns(split) if spec.name not in layout.written_columns]
        columns[split] = {
            s.name: np.concatenate([p[s.name] for p in parts]).astype(s.dtype) if parts else np.zeros(s.shape, s.dtype) for s in specs
        }
    store.create(path, layout, attrs, clips)
    for split, index in layout.shards():
        first, last = layout.shard_units(split, index)
        if (split, index) in unwritten:
            continue
        piece = {name: values[first:last] for name, values in columns[split].items()}
        here = tuple(told[k] for k in np.unique(piece["clip"]).tolist())
        store.write_shard(path, layout, ShardData(split, index, frames[split][first:last], piece, here))
    if finish and not unwritten:
        store.finish(path)
    return Made(Path(path), layout, attrs, clips, told, frames, columns)


def draw(clip: int, tick: int, n_ticks: int, height: int, width: int) -> NDArray[np.uint8]:
    """Frame of a clip at a tick: even clips move to the left, odd ones to the right."""
    y, x = np.mgrid[:height, :width]
    colour = np.array([[40, 90, 160], [150, 60, 60], [60, 130, 80]])[clip % 3]
    picture = (colour + (x * 40 // width + y * 30 // height)[..., None]).astype(np.uint8)
    along = tick / max(1, n_ticks - 1)
    left = round((width - width // 4) * (along if clip % 2 else 1 - along))
    picture[height // 3 : height // 3 + height // 4, left : left + width // 4] = (250, 240, 200)
    picture[0, 0] = (clip % 256, tick % 256, clip // 256)  # no two frames are equal
    return picture


def _bad(clip: int, lost: Faults, partial: Faults) -> str:
    return "all" if clip in lost else "last" if clip in partial else ""


def _outcome(clip: int, n_ticks: int, fault: tuple[str, str] | None) -> ClipOutcome:
    kind, reason = fault or ("", "")
    return ClipOutcome(clip, n_ticks, 100_000_000 * (clip % n_ticks), (clip % 8) / 8, 0.25 if clip % 3 == 2 else 0.0, reason, kind)


def _clips(
    n: int, counts: list[int], classes: Sequence[str], splits: Sequence[str], n_ticks: int, axes: Sequence[str], folder: str
) -> dict[str, list[Any]]:
    return {
        "id": [f"clip{k:03}" for k in range(n)],
        "row": [k + 1 for k in range(n)],
        "line": [k + 2 for k in range(n)],
        "video": [f"{folder}/v{k:03}.mp4" for k in range(n)],
        "label": [classes[k % len(classes)] for k in range(n)],
        "split": [splits[k % len(splits)] for k in range(n)],
        "group": [f"v{k:03}.mp4" for k in range(n)],
        "start_ns": [0] * n,
        "end_ns": [-1] * n,
        "imu": [f"{folder}/v{k:03}.csv" if axes else "" for k in range(n)],
        "imu_offset_ns": [0] * n,
        "n_ticks": [n_ticks] * n,
        "n_windows": counts,
        "n_windows_unbalanced": [max(1, count - 1) for count in counts],
        "source_fps": [FPS[k % 3] for k in range(n)],
        "source_frames": [n_ticks * 3] * n,
        "vfr": [k % 4 == 3 for k in range(n)],
        "width": [320] * n,
        "height": [240] * n,
        "rotation": [90 if k == 0 else 0 for k in range(n)],
        "codec": ["h264" if k % 2 == 0 else "mpeg4" for k in range(n)],
        "repeated_share": [0.0] * n,
        "error": [""] * n,
        "error_kind": [""] * n,
    }


def _windows(layout: Layout, clip: int, count: int, n_ticks: int, interval: int, label: int, *, bad: str) -> dict[str, NDArray[Any]]:
    """Frames and columns of a clip's windows, indices clamped to the clip."""
    centres = np.linspace(0, n_ticks - 1, count).round().astype(np.int64)
    wanted = centres[:, None] + np.arange(layout.length) - layout.margin - layout.size // 2
    index = wanted.clip(0, n_ticks - 1)
    period = round(1e9 / FPS[clip % 3])
    time = index * interval
    drawn = np.stack([draw(clip, tick, n_ticks, layout.height, layout.width) for tick in range(n_ticks)])
    ok = np.ones(count, bool)
    ok[{"all": slice(None), "last": slice(-1, None)}.get(bad, slice(0))] = False
    found: dict[str, NDArray[Any]] = {
        "frames": drawn[index],
        "time_ns": time,
        "source_ns": time // period * period,
        "clamped": wanted != index,
        "label": np.full(count, label),
        "clip": np.full(count, clip),
        "center_ns": centres * interval,
        "weight": np.full(count, 1.0),
        "ok": ok,
    }
    if layout.axes:
        found["imu"] = np.stack([10 * axis + found["source_ns"] / 1e9 for axis in range(len(layout.axes))], axis=-1)
        found["imu"][index < max(1, n_ticks // 10)] = np.nan
        found["imu_ok"] = np.isfinite(found["imu"]).all(axis=-1)
    return found
