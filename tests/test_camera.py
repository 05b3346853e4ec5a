"""A camera that moves is not action: its movement is measured and taken out, and what moves by itself is left."""

from __future__ import annotations

import numpy as np
import pytest

from hfprep import action, camera, hotspot
from hfprep.records import F32, U8, Frames


def room(seed: int = 5) -> F32:
    """A smooth texture (120,120): patches of 6 pixels, blended."""
    patches = np.random.default_rng(seed).uniform(40, 160, (22, 22))
    at, part = np.arange(120) // 6, np.arange(120) % 6 / 6
    rows = patches[at] * (1 - part)[:, None] + patches[at + 1] * part[:, None]
    return (rows[:, at] * (1 - part) + rows[:, at + 1] * part).astype(np.float32)


def panned(n: int = 60, action_at: range = range(40, 48)) -> U8:
    """The camera goes 2 pixels to the side a tick during ticks 5 to 24; a square steps down during the action."""
    wide = room()
    frames = np.empty((n, 80, 80, 3), np.uint8)
    for tick in range(n):
        x = 2 * min(max(tick - 4, 0), 19)
        frames[tick] = wide[20:100, x : x + 80, None]
        y = 20 + 3 * sum(t <= tick for t in action_at)
        frames[tick, y : y + 10, 30:40] = 240
    return frames


def test_a_shift_is_measured() -> None:
    """The second picture shows the room 2 pixels further down and 3 to the right of it, so what it shows went up and left."""
    before, now = (p - p.mean() for p in (room()[40:80, 40:80].astype(float), room()[42:82, 43:83].astype(float)))
    found = camera.movement(before / before.std(), now / now.std())
    assert (found.x, found.y) == pytest.approx((-3, -2), abs=0.15) and abs(found.growth) < 0.01


def test_a_pan_does_not_hide_the_action() -> None:
    luma = hotspot.luma(panned())
    assert abs(hotspot.find(camera.energy(luma), 8).tick - 43.5) <= 2
    assert 5 <= hotspot.find(hotspot.motion_energy(luma), 8).tick <= 25, "what the motion alone says: the pan"


def test_a_cut_and_a_repeat_are_no_action() -> None:
    luma = np.stack([room(1)[:40, :40]] * 3 + [room(2)[:40, :40]] * 3)
    assert not camera.energy(luma).any()


@pytest.mark.parametrize("shape", [(0, 40, 40), (1, 40, 40), (5, 1, 1), (5, 2, 40), (5, 8, 9), (5, 7, 7)])
def test_pictures_of_any_size(shape: tuple[int, int, int]) -> None:
    found = camera.energy(np.random.default_rng(0).uniform(0, 255, shape).astype(np.float32))
    assert found.shape == shape[:1] and np.all(np.isfinite(found)) and np.all(found >= 0)


def test_parts_of_a_clip_give_the_same_bits() -> None:
    luma = hotspot.luma(panned())
    assert camera.energy(luma[19:])[1:].tobytes() == camera.energy(luma)[20:].tobytes()


def test_the_switch_reaches_the_frames() -> None:
    pictures = panned()
    times = np.arange(len(pictures), dtype=np.int64) * 100_000_000
    frames = Frames(pictures, times, times, np.ones(len(pictures), np.bool_))
    assert abs(action.in_frames(frames, 8, moving=True)[0].tick - 43.5) <= 2
    assert action.in_frames(frames, 8)[0].tick <= 25
