"""Where the action is: motion energy from small grey pictures, and the tick around which a window holds the most of it.

All sums that decide are sums of integers, or run over one picture alone, so that neither threads nor the way a clip is cut into
runs of frames change a bit of the result.
"""

from __future__ import annotations

import numpy as np

from .records import F32, I64, U8, Aligned, Hotspot

SIDE = 40  # largest side of the small picture: blocks average sensor noise and compression away, a hand's movement stays
FLAT = 4.0  # grey levels: a picture whose spread is about this or less shows too little to tell motion from noise
NEARLY = 50  # windows within 1/50 of the strongest count as tied with it: less than that is noise, and the middle is the better guess


def luma(frames: U8) -> F32:
    """Small grey pictures of RGB frames: u8 (T,H,W,3) -> float32 (T,h,w), h and w at most 40, grey levels 0 to 255.

    Each value is the mean of the Rec. 601 luma of one block of pixels, from whole-number sums; rows and columns that fill no
    whole block at the far edge are left out. Frames may be up to 10 000 pixels high.
    """
    t, height, width, _ = frames.shape
    down, across = -(-height // SIDE), -(-width // SIDE)
    h, w = height // down, width // across
    weights = np.tile(np.array([299, 587, 114], dtype=np.int64), across)
    small = np.empty((t, h, w), dtype=np.float32)
    for i in range(t):  # frame by frame: what is summed stays in the processor's cache
        rows = frames[i, : h * down].reshape(h, down, width * 3).sum(axis=1, dtype=np.uint16)  # at most 255 x 257 rows fit
        small[i] = rows[:, : w * across * 3].reshape(h, w, across * 3).astype(np.int64) @ weights / (1000.0 * down * across)
    return small


def motion_energy(luma: F32) -> F32:
    """How much each picture differs from the one before: float32 (T,h,w) -> float32 (T,), at least 0.

    The mean absolute difference of two pictures, each first brought to mean 0 and spread 1, so that flicker and fades, which
    scale or shift all grey levels alike, are not motion. Where one of the two is nearly flat (black, fog) the difference counts
    for little: what is left of such a picture is noise. The first tick has no picture before it and gets the smaller value of the
    two ticks after it. A picture shown twice has energy 0.
    """
    t = len(luma)
    energy = np.zeros(t, dtype=np.float32)
    flat = np.ascontiguousarray(luma, dtype=np.float32).reshape(t, -1)
    before = None
    for i in range(t):  # one picture at a time, so that the order of its sums never depends on how many there are
        centered = flat[i] - flat[i].mean(dtype=np.float64)
        spread = float(np.sqrt(np.mean(centered * centered, dtype=np.float64)))
        now = centered / max(spread, 1e-3), spread
        if before is not None:
            weaker = min(spread, before[1]) ** 2
            energy[i] = weaker / (weaker + FLAT**2) * np.mean(np.abs(now[0] - before[0]), dtype=np.float64)
        before = now
    if t > 1:
        energy[0] = energy[1:3].min()
    return energy


def sensor_energy(sensor: Aligned, axes: tuple[str, ...]) -> F32:
    """How much a worn or held sensor moves at each tick: values (T,M) of M named axes -> float32 (T,), at least 0.

    Of an accelerometer, how far the length of its vector is from its usual (median) length, which is gravity in any posture; of
    linear acceleration and of a gyroscope, the length of the vector without its usual value, which is bias. Where several are
    there each counts alike, see `together`. Ticks without values have energy 0, and so have other axes.
    """
    energies = []
    for group in (("ax", "ay", "az"), ("lin_ax", "lin_ay", "lin_az"), ("gx", "gy", "gz")):
        values = sensor.values[:, [axes.index(axis) for axis in group if axis in axes]].astype(np.float64)
        use = np.isfinite(values).all(axis=1)  # sensor by sensor: a clip may lack the other
        if not use.any() or not values.shape[1]:
            continue
        values = values[use]
        if group[0] == "ax":
            values = np.sqrt((values**2).sum(axis=1, keepdims=True))
        energy = np.zeros(len(sensor.values), np.float32)
        energy[use] = np.sqrt(((values - np.median(values, axis=0)) ** 2).sum(axis=1))
        energies.append(energy)
    return together(*energies) if energies else np.zeros(len(sensor.values), np.float32)


def together(*energies: F32) -> F32:
    """Energies (T,) of several sources as one, float32 (T,): each is brought to the same total first, and weighs the same."""
    total = np.zeros(len(energies[0]))
    for energy in energies:
        if energy.max(initial=0) > 0:
            units = np.rint(energy.astype(np.float64) / float(energy.max()) * 2**30)  # whole numbers: their sum is exact in any order
            total += units / units.sum()
    return total.astype(np.float32)


def find(energy: F32, size: int) -> Hotspot:
    """The tick around which a window of `size` ticks holds the most energy, and how much it stands out.

    The sum over the window's ticks that lie inside the clip is compared, centre by centre. Sums and not means: a window that
    hangs over the end would otherwise win on the few ticks it has. Around the strongest centre, those next to it that hold the
    same to 1/50 count as tied and the middle of the stretch is taken: the middle of a short action, the middle of a clip in which
    all moves alike. Of several stretches the first. A still clip gives its middle tick and score 0.

    The score is 1 - mean / peak over the windows that lie wholly inside the clip: 0 flat, near 1 one sharp peak. The width is that
    of the stretch, within which the energy, averaged over about a quarter of a window, stays above half of its peak near the hotspot.
    Raises ValueError for no ticks at all or for energy that is negative or not finite.

    >>> find(np.array([0, 0, 0, 0, 0, 0, 9, 0, 0, 0], dtype=np.float32), size=3)
    Hotspot(tick=6, score=0.625, width=1)
    """
    n = len(energy)
    if n == 0 or size < 1 or not np.all(np.isfinite(energy)) or energy.min() < 0:
        raise ValueError(f"energy of {n} ticks, size {size}: at least one of each, energy finite and not negative")
    peak = float(energy.max())
    if peak == 0:
        return Hotspot(n // 2, 0.0)
    # Whole numbers: sums are exact in any order, and ties are ties.
    units = np.rint(energy.astype(np.float64) / peak * 2**30).astype(np.int64)
    units = _evened(units, size)
    total = np.concatenate([[0], np.cumsum(units)])
    first = np.arange(n) - size // 2
    sums = total[np.clip(first + size, 0, n)] - total[np.clip(first, 0, n)]
    tied = sums * NEARLY >= sums.max() * (NEARLY - 1)
    left = right = int(sums.argmax())
    while left > 0 and tied[left - 1]:
        left -= 1
    while right < n - 1 and tied[right + 1]:
        right += 1
    inside = sums[(first >= 0) & (first + size <= n)]
    score = 1 - float(inside.mean()) / float(inside.max()) if len(inside) and inside.max() > 0 else 0.0
    tick = (left + right) // 2
    return Hotspot(tick, score, _width(total, tick, size))


def _width(total: I64, tick: int, size: int) -> int:
    """Ticks of the hot region around a hotspot; total (T+1,): running sums of the energy.

    A movement pauses for a tick or two where it turns: means over about a quarter of a window reach across.
    """
    n, half = len(total) - 1, size // 8
    first, last = np.maximum(np.arange(n) - half, 0), np.minimum(np.arange(n) + half + 1, n)
    level = (total[last] - total[first]) / (last - first)
    begin = max(0, tick - size // 2)
    left = right = begin + int(level[begin : tick + size // 2 + 1].argmax())
    enough = level[left] / 2
    while left > 0 and level[left - 1] >= enough:
        left -= 1
    while right < n - 1 and level[right + 1] >= enough:
        right += 1
    return right - left + 1


def _evened(units: I64, size: int) -> I64:
    """Spread the energy of a source slower than the grid over the ticks in which its frames were held.

    Such a source shows each frame for several ticks, so its steady motion arrives in lumps, and windows would be chosen by how
    many lumps they happen to catch. Each lump is shared out over the held ticks before it, as many as usually (median) lie
    between two changes: a change after a long still stretch stays where it is. Where changes are usually further apart than a
    window, they are single events and not motion seen slowly, and nothing is spread.
    """
    changes = np.flatnonzero(units[1:]) + 1
    if len(changes) < 2:
        return units
    gaps = np.diff(changes, prepend=0)
    usual = int(np.sort(gaps[1:])[(len(gaps) - 1) // 2])
    if usual == 1 or usual > size:
        return units
    held = np.minimum(gaps, usual)
    share = units[changes] // held
    steps = np.zeros(len(units) + 1, dtype=np.int64)
    steps[0], steps[1] = units[0], -units[0]
    np.add.at(steps, changes - held + 1, share)
    np.add.at(steps, changes + 1, -share)
    return np.cumsum(steps[:-1])
