"""The action is found where it is, whatever the light, the source's rate and the clip's ends do."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hfprep import hotspot, windows
from hfprep.records import F32, U8, Aligned

SIZE = 8


def scene(n: int, at: list[int], height: int = 48, width: int = 64) -> U8:
    """A textured room with a white square, which steps to the right at the ticks named."""
    room = np.random.default_rng(5).integers(40, 160, (height // 4, width // 4, 3), dtype=np.uint8)
    frames = np.repeat(np.repeat(room, 4, axis=0), 4, axis=1)[None].repeat(n, axis=0)
    for tick in range(n):
        x = 2 + 3 * sum(t <= tick for t in at) % (width - 14)
        frames[tick, 20:32, x : x + 12] = 250
    return frames


def energy(frames: U8) -> F32:
    return hotspot.motion_energy(hotspot.luma(frames))


def found(frames: U8, size: int = SIZE) -> int:
    return hotspot.find(energy(frames), size).tick


def test_examples() -> None:
    assert doctest.testmod(hotspot).failed == 0


@pytest.mark.parametrize("shape", [(160, 160), (40, 40), (8, 8), (41, 97), (256, 30), (4096, 12)])
def test_luma_is_the_mean_over_blocks(shape: tuple[int, int]) -> None:
    frames = np.random.default_rng(1).integers(0, 256, (2, *shape, 3), dtype=np.uint8)
    small = hotspot.luma(frames)
    down, across = -(-shape[0] // 40), -(-shape[1] // 40)
    h, w = shape[0] // down, shape[1] // across
    assert small.shape == (2, h, w) and small.dtype == np.float32 and max(h, w) <= 40
    grey = frames.astype(np.float64) @ [0.299, 0.587, 0.114]
    blocks = grey[:, : h * down, : w * across].reshape(2, h, down, w, across)
    assert np.allclose(small, blocks.mean(axis=(2, 4)), atol=1e-3)


def test_luma_of_brightest_and_darkest() -> None:
    assert np.all(hotspot.luma(np.full((1, 160, 160, 3), 255, dtype=np.uint8)) == 255)
    assert not hotspot.luma(np.zeros((1, 160, 160, 3), dtype=np.uint8)).any()
    assert hotspot.luma(np.zeros((0, 160, 160, 3), dtype=np.uint8)).shape == (0, 40, 40)


def test_frames_that_lie_apart_in_memory() -> None:
    frames = scene(6, [2, 3])
    assert np.array_equal(hotspot.luma(frames[::-1, ::-1]), hotspot.luma(np.ascontiguousarray(frames[::-1, ::-1])))


@settings(max_examples=30, deadline=None)
@given(cut=st.integers(1, 19), length=st.integers(1, 20))
def test_a_clip_in_parts_gives_the_same_bits(cut: int, length: int) -> None:
    """A long clip is read in parts that overlap by one tick; only the first tick of a part is unknown."""
    frames = np.random.default_rng(length).integers(0, 256, (20, 44, 52, 3), dtype=np.uint8)
    small = hotspot.luma(frames)
    assert np.array_equal(np.concatenate([hotspot.luma(frames[:cut]), hotspot.luma(frames[cut:])]), small)
    whole, part = hotspot.motion_energy(small), hotspot.motion_energy(small[cut - 1 : cut + length])
    assert part[1:].tobytes() == whole[cut : cut + length].tobytes()


@settings(max_examples=30, deadline=None)
@given(frames=hnp.arrays(np.uint8, st.tuples(st.integers(1, 6), st.integers(8, 50), st.integers(8, 50), st.just(3))))
def test_energy_of_any_pictures_is_finite(frames: U8) -> None:
    got = energy(frames)
    assert got.shape == (len(frames),) and got.dtype == np.float32
    assert np.all(np.isfinite(got)) and np.all(got >= 0)
    spot = hotspot.find(got, SIZE)
    assert 0 <= spot.tick < len(frames) and 0 <= spot.score <= 1


def test_still_clip() -> None:
    for frames in (scene(21, []), np.zeros((21, 48, 64, 3), dtype=np.uint8), np.full((21, 48, 64, 3), 200, dtype=np.uint8)):
        assert not energy(frames).any()
        assert hotspot.find(energy(frames), SIZE) == hotspot.Hotspot(10, 0.0)
    assert hotspot.find(energy(scene(1, [])), SIZE) == hotspot.Hotspot(0, 0.0)


@pytest.mark.parametrize("start", [3, 10, 20, 33])
def test_short_action_is_centred(start: int) -> None:
    frames = scene(41, list(range(start, start + 5)))
    assert abs(found(frames) - (start + 2)) <= 1


def test_flicker_and_fades_are_not_motion() -> None:
    """A slow movement beside a lamp that goes from full to a third and back, and a fade to black at the end."""
    moving = list(range(30, 36))
    light = np.ones(60)
    light[8:20] = np.where(np.arange(12) % 2, 1.0, 0.33)
    light[45:60] = np.linspace(1, 0, 15)
    frames = scene(60, moving)
    lit = np.rint(frames * light[:, None, None, None]).astype(np.uint8)
    assert abs(found(lit) - 33) <= 2
    got = energy(lit)
    assert got[[*range(8, 21), *range(45, 60)]].max() < got[moving].min() / 4

    plain = np.abs(np.diff(hotspot.luma(lit), axis=0)).mean(axis=(1, 2))  # what the difference alone would say
    assert 8 <= int(plain.argmax()) + 1 <= 20


def test_a_shift_of_brightness_is_not_motion() -> None:
    frames = scene(30, [20, 21, 22, 23])
    frames[5:12] = np.minimum(frames[5:12], 235) + 20
    assert abs(found(frames) - 21) <= 2


def test_noise_in_the_dark_is_not_motion() -> None:
    generator = np.random.default_rng(3)
    frames = scene(60, list(range(40, 46)))
    frames[:25] = generator.integers(0, 3, frames[:25].shape, dtype=np.uint8)
    assert abs(found(frames) - 42) <= 2


@pytest.mark.parametrize("n", [25, 41, 100])
def test_action_at_the_ends(n: int) -> None:
    """All movement in the last, or first, half second: a window around the moved hotspot holds all of it."""
    for at in (list(range(n - 5, n)), list(range(1, 6))):
        spot = found(scene(n, at))
        (centre,) = windows.place(n, spot, size=SIZE, count=1, stride=0, max_clamped=0.25).tolist()
        index, _ = windows.clamp(np.array([centre]), SIZE, n)
        assert set(at) <= set(index[0].tolist())


def test_the_few_ticks_of_an_end_do_not_win_by_chance() -> None:
    """Steady noise with one strong tick at the end, and a true action of middling strength: means over the part of a window
    inside the clip would choose the end."""
    got = np.full(60, 0.1, dtype=np.float32)
    got[59] = 1.0
    got[20:28] = 0.3
    assert 20 <= hotspot.find(got, SIZE).tick <= 28


@pytest.mark.parametrize("held", [1, 2, 3, 5])
@pytest.mark.parametrize("size", [8, 15, 16])
def test_a_source_slower_than_the_grid(held: int, size: int) -> None:
    """Steady movement shown at a half, a third or a fifth of the grid's rate is flat, and its middle is the clip's middle."""
    room = scene(1, [])[0]
    frames = np.stack([np.roll(room, 3 * (tick // held), axis=1) for tick in range(60)])
    got = energy(frames)
    assert (got == 0).sum() >= 59 - 60 // held, "repeats carry no energy of their own"
    spot = hotspot.find(got, size)
    assert abs(spot.tick - 30) <= held + 1
    assert spot.score < 0.1


def test_action_in_a_slow_source() -> None:
    frames = scene(80, [50, 52, 54, 56, 58])
    frames[::, :4, :4] = (np.arange(80) // 2 % 2 * 8)[:, None, None, None].astype(np.uint8) + 60  # something always moves a little
    assert abs(found(frames) - 54) <= 2


def test_one_change_after_a_long_still_stretch_stays_where_it_is() -> None:
    assert abs(found(scene(100, [70])) - 70) <= 1
    assert abs(found(scene(100, [20, 70, 71, 72])) - 71) <= 1
    assert abs(found(scene(100, [20, 70])) - 20) <= 1 or abs(found(scene(100, [20, 70])) - 70) <= 1


@settings(max_examples=60, deadline=None)
@given(
    got=hnp.arrays(np.float32, st.integers(1, 50), elements=st.floats(0, 8, width=32)),
    size=st.integers(1, 20),
    scale=st.sampled_from([0.5, 4.0, 1024.0]),
)
def test_find_on_any_energy(got: F32, size: int, scale: float) -> None:
    spot = hotspot.find(got, size)
    assert 0 <= spot.tick < len(got) and 0 <= spot.score < 1
    assert hotspot.find(got * np.float32(scale), size) == spot, "the unit of the energy does not matter"
    if got.min() > 0:  # without repeats the window found is one of the strongest, to 1/50

        def held(centre: int) -> float:
            first = centre - size // 2
            return float(got[max(0, first) : max(0, first + size)].sum(dtype=np.float64))

        assert held(spot.tick) >= max(map(held, range(len(got)))) * 0.98 - 1e-6


def test_ties_and_scores() -> None:
    flat = np.full(51, 0.25, dtype=np.float32)
    assert hotspot.find(flat, 8).score == 0 and abs(hotspot.find(flat, 8).tick - 25) <= 1
    twice = np.zeros(40, dtype=np.float32)
    twice[[10, 11, 30, 31]] = 1
    assert abs(hotspot.find(twice, 4).tick - 10) <= 1, "the first of two equal actions"
    sharp = np.full(1000, 0.001, dtype=np.float32)
    sharp[500] = 1
    assert hotspot.find(sharp, 4).score > 0.99


@pytest.mark.parametrize("bad", [[], [np.nan, 1], [-1.0, 1], [np.inf, 0]])
def test_energy_that_is_none(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="energy"):
        hotspot.find(np.array(bad, dtype=np.float32), 4)


@pytest.mark.parametrize("length", [1, 4, 12, 30])
@pytest.mark.parametrize("start", [3, 40, 85])
def test_width_is_how_long_the_action_lasts(length: int, start: int) -> None:
    calm = np.full(120, 0.1, np.float32)
    calm[start : start + length] = 1
    got = hotspot.find(calm, 16)
    # means over 5 ticks keep the edges where they are to half of it, and make of one tick what they average
    assert abs(got.width - max(length, 1)) <= 4
    assert start <= got.tick < start + length or length < 16


def test_width_reaches_across_a_pause_but_not_to_another_action() -> None:
    strong = np.zeros(100, np.float32)
    strong[20:28], strong[29:38], strong[70:90] = 1, 1, 0.3  # a turn at tick 28; a weaker action later
    assert 17 <= hotspot.find(strong, 16).width <= 20


@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.floats(0, 100, width=32), min_size=1, max_size=60), size=st.integers(1, 40))
def test_width_lies_within_the_clip(values: list[float], size: int) -> None:
    got = hotspot.find(np.array(values, np.float32), size)
    assert 0 <= got.width <= len(values)
    assert (got.width == 0) == (max(values) == 0)


def test_a_sensor_held_in_another_posture_does_not_move() -> None:
    values = np.tile(np.array([0, 0, 9.81, 0.3, 0, 0], np.float32), (60, 1))
    values[30:, :3] = [9.81, 0, 0]  # turned, and held so
    values[40, 3:] = [2, 1, 0]
    values[50:] = np.nan
    axes = ("ax", "ay", "az", "gx", "gy", "gz")
    got = hotspot.sensor_energy(Aligned(values, np.isfinite(values).all(axis=1)), axes)
    assert np.flatnonzero(got).tolist() == [40]
    alone = hotspot.sensor_energy(Aligned(values[:, 3:], np.zeros(60, np.bool_)), axes[3:])
    assert np.flatnonzero(alone).tolist() == [40]
    assert not hotspot.sensor_energy(Aligned(values, np.zeros(60, np.bool_)), ("mx", "my", "mz", "t1", "t2", "t3")).any()


@given(st.lists(st.floats(0, 1e6, width=32), min_size=3, max_size=50), st.floats(1e-3, 1e3))
@settings(max_examples=50, deadline=None)
def test_sources_weigh_the_same_whatever_their_unit(values: list[float], scale: float) -> None:
    first = np.array(values, np.float32)
    other = np.roll(first, 1)
    assert hotspot.together(first, other) == pytest.approx(hotspot.together(first, other * np.float32(scale)), abs=1e-6)
    if first.max() > 0:
        assert hotspot.together(first, other).sum() == pytest.approx(2, rel=1e-5)
