"""One window of a store: found by its name, told frame by frame, handed to the picture."""

from __future__ import annotations

from typing import Any

from ..errors import UsageError
from ..records import SPLITS
from ..store import Store
from .facts import plain, sizes
from .strip import Strip, milliseconds


def place(store: Store, text: str) -> tuple[str, int]:
    """Split and row of a window named like "train:12"; raises UsageError that says which there are."""
    split, colon, number = text.partition(":")
    rows = {name: store.layout.n_rows(name) for name in store.splits}
    if split not in rows or not colon or not number.isdecimal() or int(number) >= rows[split]:
        what = f"no window {text!r}" if split in SPLITS and colon else f"{text!r} names no window"
        there = ", ".join(f"{name}:0 to {name}:{n - 1}" for name, n in rows.items())
        raise UsageError(what, where=str(store.folder), remedy=f"there are {there}" if there else "the store is empty", kind="bad_window")
    return split, int(number)


def window(store: Store, split: str, row: int) -> Strip:
    """One window with all that is known of it, ready to be drawn or told. Raises StoreError where its bytes are damaged."""
    read = store[split].read([row])
    layout, clip = store.layout, int(read["clip"][0])
    table = {name: str(store.clips[name][clip]) for name in ("id", "video", "error")}
    span = sizes(layout, store.attrs)
    return Strip(
        title=f"{store.label(split, row)} · clip {table['id']} · {split}:{row}",
        subtitle=(
            f"{layout.size} frames, {span['interval_ms']:g} ms apart, {span['span_s']:g} s from first to last · "
            f"centre at {milliseconds(int(read['center_ns'][0]))} ms · {table['video']}"
        ),
        frames=read["frames"][0],
        time_ns=read["time_ns"][0],
        source_ns=read["source_ns"][0],
        clamped=read["clamped"][0],
        margin=layout.margin,
        axes=layout.axes,
        imu=read["imu"][0] if layout.axes else None,
        trouble="" if read["ok"][0] else table["error"] or "its frames could not be decoded",
    )


def window_facts(strip: Strip) -> dict[str, Any]:
    """A window as plain values: title, subtitle, trouble, and per frame time_ns, source_ns, clamped, margin, centre and, with
    sensors, one value (None where unknown) per axis."""
    n = len(strip.time_ns)
    frames: list[dict[str, Any]] = [
        {
            "time_ns": int(strip.time_ns[i]),
            "source_ns": int(strip.source_ns[i]),
            "clamped": bool(strip.clamped[i]),
            "margin": not strip.margin <= i < n - strip.margin,
            "centre": i == strip.centre,
        }
        for i in range(n)
    ]
    if strip.imu is not None:
        for i, frame in enumerate(frames):
            frame["imu"] = {axis: plain(float(value)) for axis, value in zip(strip.axes, strip.imu[i], strict=True)}
    return {"title": strip.title, "subtitle": strip.subtitle, "trouble": strip.trouble, "frames": frames}
