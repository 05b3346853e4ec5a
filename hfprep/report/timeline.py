"""A clip over time as a picture: motion energy, hotspot, where its windows lie and what they repeat, and frames at some of the centres."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UsageError
from ..records import F32, I64, U8, Bool
from ..store import Store
from .facts import plain
from .strip import CENTRE, CLAMP, FAINT, INK, MISSING, shorten, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_SHOTS = 8
MOST_BARS = 40  # windows drawn one below the other; of more the first ones, which lie nearest to the hotspot
WIDTH, SHOTS, ENERGY, BAR, SIDES = 12.0, 1.5, 1.6, 0.16, (0.9, 0.3)


@dataclass(frozen=True, slots=True, eq=False)
class ClipTimeline:
    """What the picture of a clip shows; times in ns from the video's first frame.

    rows (N,): rows of the clip's usable windows in its split, in row order; first_ns, last_ns, center_ns (N,): first and last tick of
    each window, and its centre; clamped (N,): frames that repeat an end. hotspot_ns None where none was looked for.
    energy_ns, energy (T,): motion energy by tick, empty in a store of whole windows, which keeps none.
    shots u8 (S,H,W,3) at shots_ns (S,).
    """

    title: str
    subtitle: str
    split: str
    rows: I64
    first_ns: I64
    last_ns: I64
    center_ns: I64
    clamped: I64
    hotspot_ns: int | None
    hotspot_score: float
    energy_ns: I64
    energy: F32
    shots_ns: I64
    shots: U8
    trouble: str


def clip_number(store: Store, name: str) -> int:
    """Row of `clips/` of a clip named by its id, or by its number as "#12"; raises UsageError (bad_clip)."""
    ids = [str(i) for i in store.clips["id"]]
    if name in ids:
        return ids.index(name)
    if name.startswith("#") and name[1:].isdecimal() and int(name[1:]) < len(ids):
        return int(name[1:])
    from difflib import get_close_matches

    near = get_close_matches(name, ids, n=3)
    remedy = (
        f"there are {', '.join(near)}" if near else f'ids are in clips/id, e.g. {ids[0]}; "#0" is the first clip' if ids else "it has none"
    )
    raise UsageError(f"no clip {name!r}", where=str(store.folder), remedy=remedy, kind="bad_clip")


def clip(store: Store, number: int) -> ClipTimeline:
    """One clip with all that is known of it, ready to be drawn or told. Raises StoreError where its bytes are damaged."""
    facts = {name: store.clips[name][number] for name in ("id", "video", "split", "label", "hotspot_ns", "hotspot_score", "error")}
    split, layout = str(facts["split"]), store.layout
    reader = store[split]
    rows = np.flatnonzero((reader.columns["clip"] == number) & reader.columns["ok"])
    inner = slice(layout.margin, layout.length - layout.margin)
    times = np.asarray(reader.columns["time_ns"])[rows][:, inner] if len(rows) else np.zeros((0, 1), np.int64)
    clamped: Bool = np.asarray(reader.columns["clamped"])[rows][:, inner] if len(rows) else np.zeros((0, 1), np.bool_)
    centers = np.asarray(reader.columns["center_ns"])[rows]
    energy_ns, energy = _energy(store, split, number)
    shown = _spread(centers)
    shots = np.empty((len(shown), 1, *layout.window_shape[1:]), np.uint8)
    if len(shown):
        middle = np.full(len(shown), layout.margin + layout.size // 2, np.int64)
        reader.read_frames(rows[shown], shots, middle)
    hotspot_ns = int(facts["hotspot_ns"])
    return ClipTimeline(
        title=f"{facts['label']} · clip {facts['id']} · {split}",
        subtitle=f"{len(rows)} windows of {layout.size} frames · {facts['video']}",
        split=split,
        rows=rows,
        first_ns=times.min(axis=1, initial=2**62) if len(rows) else np.zeros(0, np.int64),
        last_ns=times.max(axis=1, initial=-1) if len(rows) else np.zeros(0, np.int64),
        center_ns=centers,
        clamped=clamped.sum(axis=1),
        hotspot_ns=hotspot_ns if hotspot_ns >= 0 else None,
        hotspot_score=float(facts["hotspot_score"]),
        energy_ns=energy_ns,
        energy=energy,
        shots_ns=centers[shown],
        shots=shots[:, 0],
        trouble=str(facts["error"]),
    )


def _energy(store: Store, split: str, number: int) -> tuple[I64, F32]:
    if store.layout.kind != "frames" or int(store.clips["first_tick"][number]) < 0:
        return np.zeros(0, np.int64), np.zeros(0, np.float32)
    first, ticks = int(store.clips["first_tick"][number]), store[split].ticks
    mine = slice(first, first + int(store.clips["n_ticks"][number]))
    return np.asarray(ticks["time_ns"][mine]), np.asarray(ticks["energy"][mine])


def _spread(centers: I64) -> I64:
    """At most MOST_SHOTS windows, evenly over the clip, in time order; of windows with one centre one."""
    _, order = np.unique(centers, return_index=True)
    return order[np.unique(np.linspace(0, len(order) - 1, MOST_SHOTS).round().astype(int))] if len(order) else order


def clip_facts(found: ClipTimeline) -> dict[str, Any]:
    """The same as plain values: title, subtitle, trouble, hotspot, and per window its row, first and last tick, centre, clamped frames."""
    windows = zip(found.rows, found.first_ns, found.last_ns, found.center_ns, found.clamped, strict=True)
    return {
        "title": found.title,
        "subtitle": found.subtitle,
        "split": found.split,
        "trouble": found.trouble,
        "hotspot_ns": found.hotspot_ns,
        "hotspot_score": plain(found.hotspot_score),
        "windows": [
            {"row": int(row), "first_ns": int(first), "last_ns": int(last), "center_ns": int(center), "clamped": int(clamped)}
            for row, first, last, center, clamped in windows
        ],
        "energy": [{"time_ns": int(t), "energy": plain(float(e))} for t, e in zip(found.energy_ns, found.energy, strict=True)],
    }


def save(found: ClipTimeline, path: str | Path) -> Path:
    """Draw a clip and write it as PNG, PDF, SVG or JPEG (by the name's ending); raises UsageError as `strip.save` does."""
    return write(lambda: draw(found), path)


def draw(found: ClipTimeline) -> Figure:
    """The sheet: frames at some centres, the energy with the hotspot, and a bar for each window, all over one time axis in seconds."""
    from matplotlib.figure import Figure

    bars = max(1, min(len(found.rows), MOST_BARS))
    heights = [SHOTS, *([ENERGY] if len(found.energy) else []), max(0.6, bars * BAR)]
    sheet = Figure(figsize=(WIDTH, sum(heights) + 1.7), layout=None)
    total, left, right = sum(heights) + 1.7, SIDES[0] / WIDTH, 1 - SIDES[1] / WIDTH
    sheet.text(left, 1 - 0.3 / total, shorten(found.title, 100), color=INK, fontsize=13, weight="bold", va="center", parse_math=False)
    sheet.text(left, 1 - 0.58 / total, shorten(found.subtitle, 140), color=FAINT, fontsize=9, va="center", parse_math=False)
    panels, top = [], total - 0.8
    for height in heights:
        panels.append(sheet.add_axes((left, (top - height) / total, right - left, height / total)))
        top -= height + 0.12
    low, high = _limits(found)
    for panel in panels:
        panel.set_xlim(low, high)
        panel.tick_params(labelbottom=False, labelsize=8, colors=INK)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    _shots(panels[0], found, (right - left) * WIDTH, SHOTS)
    if len(found.energy):
        _curve(panels[1], found)
    _bars(panels[-1], found, bars)
    for panel in panels[1:]:
        if found.hotspot_ns is not None:
            panel.axvline(found.hotspot_ns / 1e9, color=CLAMP, linewidth=1.2, linestyle="--")
    panels[-1].tick_params(labelbottom=True)
    panels[-1].set_xlabel("seconds from the video's first frame", fontsize=9, color=INK)
    return sheet


def _limits(found: ClipTimeline) -> tuple[float, float]:
    ends = np.concatenate([found.first_ns, found.last_ns, found.energy_ns[:1], found.energy_ns[-1:]]) / 1e9
    low, high = (float(ends.min()), float(ends.max())) if len(ends) else (0.0, 1.0)
    room = max(0.05, 0.02 * (high - low))
    return low - room, high + room


def _shots(ax: Axes, found: ClipTimeline, width: float, height: float) -> None:
    """Frames side by side, each with a line down to its time."""
    ax.axis("off")
    ax.set_ylim(0, 1)
    if not len(found.shots):
        ax.text(
            0.5, 0.5, shorten(found.trouble or "no usable window", 120), transform=ax.transAxes, ha="center", color=CLAMP, parse_math=False
        )
        return
    low, high = ax.get_xlim()
    side = min(width / len(found.shots) * 0.94, 0.85 * height * found.shots.shape[2] / found.shots.shape[1])
    share, tall = side / width * (high - low), side / height * found.shots.shape[1] / found.shots.shape[2]
    for number, (picture, time_ns) in enumerate(zip(found.shots, found.shots_ns, strict=True)):
        middle = low + (number + 0.5) / len(found.shots) * (high - low)
        ax.imshow(picture, extent=(middle - share / 2, middle + share / 2, 1 - tall, 1), aspect="auto", interpolation="antialiased")
        ax.plot([middle, time_ns / 1e9], [1 - tall, 0], color=FAINT, linewidth=0.6)
    ax.set_xlim(low, high)
    ax.set_ylim(0, 1)


def _curve(ax: Axes, found: ClipTimeline) -> None:
    seconds = found.energy_ns / 1e9
    ax.set_ylabel("motion energy", fontsize=9, color=INK)
    if np.isnan(found.energy).all():
        ax.text(0.5, 0.5, "no energy was measured", transform=ax.transAxes, ha="center", color=FAINT)
        return
    ax.fill_between(seconds, found.energy, color=CENTRE, alpha=0.25, linewidth=0)
    ax.plot(seconds, found.energy, color=CENTRE, linewidth=1)
    ax.set_ylim(bottom=0)
    if found.hotspot_ns is not None:
        ax.text(
            found.hotspot_ns / 1e9, 1.0, f" hotspot, score {found.hotspot_score:.2f}",
            transform=ax.get_xaxis_transform(), va="top", color=CLAMP, fontsize=8,
        )  # fmt: skip


def _bars(ax: Axes, found: ClipTimeline, bars: int) -> None:
    """Windows in row order from the top: a bar from the first to the last tick, a dot at the centre; orange where frames repeat an end."""
    ax.set_ylim(bars - 0.4, -0.6)
    ax.set_yticks([])
    more = len(found.rows) - bars
    ax.set_ylabel(f"windows\n(+{more} more)" if more > 0 else "windows", fontsize=9, color=INK)
    for place in range(min(bars, len(found.rows))):
        first, last, center = (float(values[place]) / 1e9 for values in (found.first_ns, found.last_ns, found.center_ns))
        ax.barh(
            place,
            last - first,
            left=first,
            height=0.62,
            color=CLAMP if found.clamped[place] else MISSING,
            alpha=0.5 if found.clamped[place] else 1,
        )
        ax.plot(center, place, marker="o", markersize=3.2, color=CENTRE)
        ax.annotate(
            f"{found.split}:{found.rows[place]}", (first, place), xytext=(2, 0), textcoords="offset points",
            ha="left", va="center", fontsize=6, color=INK,
        )  # fmt: skip
