"""What is left of the change between two small grey pictures when the camera's own movement is taken out.

Each pair of pictures is judged by itself, so that neither threads nor the way a clip is cut into runs change a bit of the result.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .records import F32

FLAT = 4.0  # grey levels, as in hotspot: a picture with less spread shows too little to tell motion from noise
REACH = 4  # pixels of the halved picture: the widest pan searched for is a fifth of the picture a tick
STEPS = 4  # of the least-squares fit: the first ones find the movement, the last one no longer changes it
GRID = 64  # movements are rounded to 1/64 pixel, so that the last bit of a float does not decide
CUT = 0.7  # of the spread: two pictures that differ by more after alignment show different scenes (unrelated ones: about 1.1)
COMMON = 2.0  # times the median difference is noise and what the fit leaves over: the action is what stands out of it

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Movement:
    """Of the camera from one picture to the next: pixels to the right and down at the middle, and growth (0.01 = 1 % larger)."""

    x: float = 0.0
    y: float = 0.0
    growth: float = 0.0


def energy(luma: F32) -> F32:
    """How much each picture differs from the one before beyond the camera's movement: float32 (T,h,w) -> float32 (T,), at least 0.

    Pictures are brought to mean 0 and spread 1 first (light), aligned by `movement` (pan, shake, zoom), and only differences above
    twice their median count (noise, compression pulses). A cut is no action and gets 0, as does a picture shown twice. The first tick
    gets the smaller value of the two after it.
    """
    found = np.zeros(len(luma), np.float32)
    pictures = np.ascontiguousarray(luma, dtype=np.float32)
    before: tuple[F64, float] | None = None
    for i, picture in enumerate(pictures):
        now = _evened(picture)
        if before is not None and not np.array_equal(picture, pictures[i - 1]):
            weaker = min(now[1], before[1]) ** 2
            found[i] = weaker / (weaker + FLAT**2) * _left_over(before[0], now[0])
        before = now
    if len(found) > 1:
        found[0] = found[1:3].min()
    return found


def movement(before: F64, now: F64) -> Movement:
    """The camera's movement between two pictures (h,w) of mean 0 and spread 1: pan and zoom about the middle.

    A search over whole pixels of the halved pictures, then least squares with weights that fall with the difference (Lucas and
    Kanade 1981; weights of Cauchy), so that a mover does not pull the camera along.
    """
    h, w = now.shape
    y, x = np.mgrid[:h, :w] - np.array([(h - 1) / 2, (w - 1) / 2])[:, None, None]
    found = _coarse(before, now)
    for _ in range(STEPS):
        moved, inside = _moved(before, found)
        off = now - moved
        down, across = np.gradient(moved)
        slopes = np.stack([across, down, across * x + down * y])
        scale = float(np.median(np.abs(off[inside]))) + 0.05 if inside.any() else 1.0
        weight = inside / (1 + (off / scale) ** 2)
        left = (slopes[:, None] * slopes[None] * weight).sum(axis=(2, 3)) + np.diag([1e-3, 1e-3, 1.0])
        step = np.linalg.solve(left, -(slopes * off * weight).sum(axis=(1, 2)))
        growth = min(max(found.growth + float(step[2]), -0.2), 0.2)
        found = Movement(found.x + float(step[0]), found.y + float(step[1]), growth)
        if max(abs(found.x), abs(found.y)) > min(h, w) / 2:
            return Movement()
    return Movement(round(found.x * GRID) / GRID, round(found.y * GRID) / GRID, round(found.growth * GRID * w) / (GRID * w))


def _evened(picture: F32) -> tuple[F64, float]:
    """The picture at mean 0 and spread 1, and the spread that it had."""
    centered = picture - picture.mean(dtype=np.float64)
    spread = float(np.sqrt(np.mean(centered * centered, dtype=np.float64)))
    return centered / max(spread, 1e-3), spread


def _left_over(before: F64, now: F64) -> float:
    if min(now.shape) < 8:  # too small to tell a camera from a mover
        return float(np.mean(np.abs(now - before)))
    moved, inside = _moved(before, movement(before, now))
    still = np.abs(now - before)
    off = np.abs(now - moved)[inside] if inside.mean() > 0.5 else still.ravel()
    if off.mean() >= still.mean():  # nothing gained: the camera stands
        off = still.ravel()
    if off.mean() > CUT:
        return 0.0
    return float(np.maximum(off - COMMON * np.median(off), 0).mean())


def _coarse(before: F64, now: F64) -> Movement:
    """Of all shifts of the halved pictures by whole pixels the one with the least mean difference, counted in whole numbers."""
    a, b = (np.rint(_halved(p) * 256).astype(np.int64) for p in (before, now))
    h, w = a.shape
    best, found = (-1, 1), Movement()
    reach_y, reach_x = min(REACH, h // 3), min(REACH, w // 3)
    shifts = [(y, x) for y in range(-reach_y, reach_y + 1) for x in range(-reach_x, reach_x + 1)]
    for y, x in sorted(shifts, key=lambda shift: (abs(shift[0]) + abs(shift[1]), shift)):  # the smallest of equals
        ours = b[max(0, y) : h + min(0, y), max(0, x) : w + min(0, x)]
        theirs = a[max(0, -y) : h + min(0, -y), max(0, -x) : w + min(0, -x)]
        total, count = int(np.abs(ours - theirs).sum()), ours.size
        if best[0] < 0 or total * best[1] < best[0] * count:
            best, found = (total, count), Movement(2.0 * x, 2.0 * y)
    return found


def _halved(picture: F64) -> F64:
    h, w = picture.shape[0] // 2, picture.shape[1] // 2
    halved: F64 = picture[: 2 * h, : 2 * w].reshape(h, 2, w, 2).mean(axis=(1, 3))
    return halved


def _moved(picture: F64, by: Movement) -> tuple[F64, NDArray[np.bool_]]:
    """The picture as a camera that moved would see it (bilinear), and which of its pixels the picture shows."""
    h, w = picture.shape
    y = np.arange(h) - by.y - by.growth * (np.arange(h) - (h - 1) / 2)
    x = np.arange(w) - by.x - by.growth * (np.arange(w) - (w - 1) / 2)
    inside = ((y >= 0) & (y <= h - 1))[:, None] & ((x >= 0) & (x <= w - 1))
    y, x = np.clip(y, 0, h - 1), np.clip(x, 0, w - 1)
    top, left = np.minimum(y.astype(np.int64), h - 2), np.minimum(x.astype(np.int64), w - 2)
    part_y, part_x = (y - top)[:, None], x - left
    rows = picture[top] * (1 - part_y) + picture[top + 1] * part_y
    return rows[:, left] * (1 - part_x) + rows[:, left + 1] * part_x, inside
