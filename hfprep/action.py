"""Where the action of one clip is: from its frames where they are in memory, else from a first pass that holds a few at a time."""

from __future__ import annotations

import numpy as np

from . import decode, hotspot
from .errors import ClipError
from .records import F32, I64, U8, Bool, Frames, Hotspot, Timeline

ENERGY_BATCH = 64  # ticks whose small grey pictures are computed at once in a first pass


def in_frames(frames: Frames, size: int) -> tuple[Hotspot, F32]:
    """Hotspot of a clip whose frames (T,H,W,3) are at hand, for windows of `size` ticks, and the energy (T,) that it was found in.

    Damaged ticks do not count as motion.
    """
    return _found(hotspot.luma(frames.frames), frames.ok, size)


def in_file(timeline: Timeline, shown: I64, geometry: decode.Geometry, size: int) -> tuple[Hotspot, F32, Bool]:
    """Hotspot of a clip too long to be held, its energy, and whether each tick's frame decodes whole; shown (T,): frame of each tick.

    The same result as `in_frames`. Raises ClipError (no_frames).
    """
    luma, ok = _small_pictures(timeline, shown, geometry)
    return *_found(luma, ok, size), ok


def _found(luma: F32, ok: Bool, size: int) -> tuple[Hotspot, F32]:
    last = np.maximum.accumulate(np.where(ok, np.arange(len(ok)), -1))
    still = luma[np.where(last < 0, int(np.argmax(ok)), last)]  # a damaged tick shows the last whole one before it
    energy = hotspot.motion_energy(still)
    return hotspot.find(energy, size), energy


def _small_pictures(timeline: Timeline, shown: I64, geometry: decode.Geometry) -> tuple[F32, Bool]:
    """First pass over a long clip: small grey pictures of all ticks, a batch of frames in memory at a time."""
    wanted, back = np.unique(shown, return_inverse=True)
    position = {int(frame): k for k, frame in enumerate(wanted)}
    small: F32 | None = None
    ok = np.zeros(len(wanted), np.bool_)
    batch: list[U8] = []
    where: list[int] = []

    def flush() -> None:
        nonlocal small
        if batch:
            grey = hotspot.luma(np.stack(batch))
            if small is None:
                small = np.zeros((len(wanted), *grey.shape[1:]), np.float32)
            small[where] = grey
            batch.clear()
            where.clear()

    for frame, picture, intact in decode.shown(timeline, wanted, geometry):
        batch.append(picture.copy())
        where.append(position[frame])
        ok[position[frame]] = intact
        if len(batch) == ENERGY_BATCH:
            flush()
    flush()
    if small is None:
        raise ClipError("no frame could be decoded", where=timeline.path, remedy="check the file in a player", kind="no_frames")
    return small[back], ok[back]
