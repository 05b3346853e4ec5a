"""Where the action of one clip is: from its frames where they are in memory, else from a first pass that holds a few at a time."""

from __future__ import annotations

import numpy as np

from . import camera, decode, hotspot
from .errors import ClipError
from .records import F32, I64, U8, Bool, Frames, Hotspot, Timeline

ENERGY_BATCH = 16  # ticks whose small grey pictures are computed at once in a first pass


def in_frames(frames: Frames, size: int, moving: bool = False) -> tuple[Hotspot, F32]:
    """Hotspot of a clip whose frames (T,H,W,3) are at hand, for windows of `size` ticks, and the energy (T,) that it was found in.

    moving: take the camera's own movement out first.

    Damaged ticks do not count as motion: they show the last whole one before them.
    """
    each = np.zeros(len(frames.ok), np.float32)
    each[frames.ok], _ = _changes(hotspot.luma(frames.frames)[frames.ok], None, moving)
    return _found(each, np.arange(len(each)), size)


def in_file(timeline: Timeline, shown: I64, geometry: decode.Geometry, size: int, moving: bool = False) -> tuple[Hotspot, F32, Bool]:
    """Hotspot of a clip too long to be held, its energy, and whether each tick's frame decodes whole; shown (T,): frame of each tick.

    The same result as `in_frames`; holds ENERGY_BATCH pictures, however long the clip. Raises ClipError (no_frames).
    """
    wanted, back = np.unique(shown, return_inverse=True)
    each, ok = np.zeros(len(wanted), np.float32), np.zeros(len(wanted), np.bool_)
    before: F32 | None = None
    batch: list[U8] = []
    where: list[int] = []
    for frame, picture, whole in decode.shown(timeline, wanted, geometry):
        if whole:
            batch.append(picture)
            where.append(int(np.searchsorted(wanted, frame)))
        if len(batch) == ENERGY_BATCH:
            each[where], before = _changes(hotspot.luma(np.stack(batch)), before, moving)
            ok[where] = True
            batch, where = [], []
    if batch:
        each[where], _ = _changes(hotspot.luma(np.stack(batch)), before, moving)
        ok[where] = True
    if not ok.any():
        raise ClipError("no frame could be decoded", where=timeline.path, remedy="check the file in a player", kind="no_frames")
    return *_found(each, back, size), ok[back]


def _changes(luma: F32, before: F32 | None, moving: bool) -> tuple[F32, F32]:
    """How much each picture differs from the one before it, 0 for the very first; and the last picture."""
    measure = camera.energy if moving else hotspot.motion_energy
    if before is not None:
        return measure(np.concatenate([before, luma]))[1:], luma[-1:]
    energy = measure(luma)
    energy[:1] = 0
    return energy, luma[-1:]


def _found(each: F32, back: I64, size: int) -> tuple[Hotspot, F32]:
    """The hotspot, and the energy of the ticks: a tick has its frame's where the frame is new, 0 where it is shown again."""
    energy = np.where(np.diff(back, prepend=-1) != 0, each[back], np.float32(0))
    if len(energy) > 1:
        energy[0] = energy[1:3].min()  # no picture before it
    return hotspot.find(energy, size), energy
