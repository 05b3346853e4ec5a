"""The windows of a store that holds each tick once: rows of tick indices, made from the centres of its clips. Numbers only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import labels, shards, windows
from .labels import Members
from .layout import Layout
from .records import F32, I64


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """The clips of one split that have windows, in the order of their ticks; every field (C,).

    clip: number in `clips/`; first: row of its first tick in the split's tick array; n_ticks; count: windows; weight: loss weight, the
    largest of its classes; members: its classes.
    """

    clip: I64
    first: I64
    n_ticks: I64
    count: I64
    weight: F32
    members: Members


def members(texts: Iterable[str], attrs: Mapping[str, Any], layout: Layout) -> Members:
    """The classes of clips from their labels as `clips/` has them. A store of one label a window may have bars in their names."""
    separator = attrs["pipeline"].get("label", {}).get("separator", "|") if layout.label_classes else ""
    return Members.of((labels.names(str(text), separator) for text in texts), attrs["classes"])


def spans(split: str, clips: Mapping[str, NDArray[Any]], attrs: Mapping[str, Any], layout: Layout) -> Spans:
    """The spans of a split from the columns of `clips/` (split, label, first_tick, n_ticks, n_windows) and the store's attributes."""
    here = np.flatnonzero((clips["split"] == split) & (clips["n_windows"] > 0))
    clip = here[np.argsort(clips["first_tick"][here], kind="stable")]
    of = members(clips["label"][clip], attrs, layout)
    weight = of.largest(np.array(attrs["class_weight"], np.float32)) if split == "train" else np.ones(len(clip), np.float32)
    return Spans(clip, clips["first_tick"][clip], clips["n_ticks"][clip], clips["n_windows"][clip], weight.astype(np.float32), of)


def window_columns(
    layout: Layout, spans: Spans, centers: Mapping[int, Sequence[int]], ticks: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Every window column of a split: index int64 (N,L) into its ticks, clamped bool (N,L), label (or labels bool (N,C)), clip,
    center_ns, weight, ok, digest.

    centers  clip -> ticks its windows are centred on; a clip that is not there gives windows that are not ok
    ticks    time_ns, tick_ok, tick_digest of the split's ticks, each (ticks,)
    """
    placed = [_centers(centers.get(clip, ()), count) for clip, count in zip(spans.clip.tolist(), spans.count.tolist())]
    center = np.concatenate(placed) if placed else np.zeros(0, np.int64)
    lost = center < 0
    of = np.repeat(np.arange(len(spans.clip)), spans.count)
    local, clamped = windows.clamp(np.maximum(center, 0), layout.size, spans.n_ticks[of], layout.margin)
    local[lost], clamped[lost] = 0, False
    index = spans.first[of][:, None] + local
    several = layout.label_classes
    found: dict[str, NDArray[Any]] = {
        "index": index,
        "clamped": clamped,
        **({"labels": spans.members.table(several)[of]} if several else {"label": spans.members.label[of].astype(np.int16)}),
        "clip": spans.clip[of].astype(np.int32),
        "center_ns": np.where(lost, 0, ticks["time_ns"][spans.first[of] + np.maximum(center, 0)]),
        "weight": spans.weight[of],
        "ok": ticks["tick_ok"][index].all(axis=1) & ~lost,
    }
    # over the digests of the ticks, not their place: a window keeps its digest wherever its ticks lie
    shown = ticks["tick_digest"][index]
    found["digest"] = shards.digests(shown, {name: values for name, values in found.items() if name != "index"})
    return found


def _centers(centers: Sequence[int], count: int) -> I64:
    """The clip's centres, -1 for each window that it has not."""
    row = np.full(count, -1, np.int64)
    row[: len(centers)] = centers[:count]
    return row
