"""Draw small clips of a moving shape whose class is the direction of its motion, with a sensor file for each.

    python manifests/draw.py                                the bundled demo: demo.csv and clips/ beside this file
    python manifests/draw.py OUT --clips 240 --seed 0       a larger set with equal classes: OUT/demo.csv and OUT/clips/

A shape drifts across a picture whose opposite edges are joined: what leaves on one side comes in on the other. Once in a clip
it makes a quick move (the burst). Its start is drawn evenly over the picture, so that at any one moment every place is equally
likely under every class: one frame says nothing about the class, two frames say it all. Colour, shape, size, frame rate,
length and the time of the burst are drawn without a look at the class.

The same versions of av and numpy give the same bytes. Needs av and numpy.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

DIRECTIONS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}  # x to the right, y downwards
RATES = tuple(Fraction(r) for r in (10, 15, 24, 25, Fraction(30000, 1001), 30, 50))
SIZES = ((64, 64), (72, 64), (80, 72), (72, 80))
COLOURS = ((240, 240, 240), (245, 225, 80), (90, 225, 235))  # white, yellow, cyan
SENSOR_HZ = 50
LEAD_S = 0.2  # sensor rows begin this much before the first frame and end as much after the last


@dataclass(frozen=True)
class Drawing:
    """One clip: everything that its pixels, its time stamps and its sensor rows follow from.

    width, height       of the upright picture, pixels
    drift, burst        steady speed (pictures a second), and distance of the quick move (pictures)
    burst_s, burst_len  middle and length of the quick move, seconds
    start               place at time 0, (x, y) in 0..1
    """

    name: str
    label: str
    split: str
    fps: Fraction
    seconds: float
    width: int
    height: int
    seed: tuple[int, int]
    start: tuple[float, float]
    drift: float
    burst: float
    burst_s: float
    burst_len: float
    offset_ms: int
    variable: bool = False  # irregular time stamps
    rotated: bool = False  # stored lying on its side, with a display matrix that turns it upright
    sensor_gap: bool = False  # half a second of sensor rows is missing


def draw_one(name: str, label: str, split: str, seed: tuple[int, int], rate: Fraction | None = None, **special: float | bool) -> Drawing:
    """Choose the clip's properties; nothing but the direction follows from the label. `special`: seconds and the three oddities."""
    rng = np.random.default_rng(seed)
    width, height = SIZES[rng.integers(len(SIZES))]
    fps = RATES[rng.integers(len(RATES))] if rate is None else rate
    seconds = float(special.get("seconds", round(rng.uniform(2.4, 3.6), 2)))
    return Drawing(
        name=name,
        label=label,
        split=split,
        fps=fps,
        seconds=seconds,
        width=width,
        height=height,
        seed=seed,
        start=(float(rng.random()), float(rng.random())),
        drift=float(rng.uniform(0.45, 0.7)),
        burst=0.6,
        burst_s=round(float(rng.uniform(0.4, max(0.5, seconds - 0.4))), 3),
        burst_len=0.6,
        offset_ms=int(rng.choice([0, 80, -120, 250, -40])),
        variable=bool(special.get("variable", False)),
        rotated=bool(special.get("rotated", False)),
        sensor_gap=bool(special.get("sensor_gap", False)),
    )


def demo_set(seed: int = 0) -> list[Drawing]:
    """The bundled 24: classes out of balance, every class in every split, every frame rate, and one of each oddity."""
    oddities: dict[tuple[str, int], dict[str, float | bool]] = {
        ("right", 4): {"variable": True},
        ("left", 3): {"rotated": True},
        ("up", 2): {"seconds": 0.9},  # 9 ticks of 100 ms: shorter than a window of 16
        ("right", 6): {"sensor_gap": True},
    }
    drawings: list[Drawing] = []
    for label, count in (("right", 9), ("left", 7), ("up", 5), ("down", 3)):
        for i in range(count):
            split = ("test", "val")[i] if i < 2 else "train"
            n = len(drawings)
            drawings.append(draw_one(f"{label}_{i + 1}", label, split, (seed, n), RATES[n % len(RATES)], **oddities.get((label, i), {})))
    return drawings


def large_set(clips: int, seed: int = 0) -> list[Drawing]:
    """As many clips as asked for, classes equal; of each class 1/8 val and 1/4 test; one in ten variable-rate, one in ten rotated."""
    labels = list(DIRECTIONS)
    drawings: list[Drawing] = []
    for i in range(clips):
        label, turn = labels[i % len(labels)], i // len(labels)
        split = "test" if turn % 4 == 3 else "val" if turn % 8 == 1 else "train"
        odd = np.random.default_rng((seed, i, 1)).random()
        drawings.append(draw_one(f"{label}_{turn + 1:03d}", label, split, (seed, i), variable=odd < 0.1, rotated=0.1 <= odd < 0.2))
    return drawings


def path_at(drawing: Drawing, t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distance gone along the direction at times t (seconds), in pictures."""
    u = np.clip((t - drawing.burst_s) / drawing.burst_len + 0.5, 0, 1)
    return drawing.drift * t + drawing.burst * u**3 * (6 * u**2 - 15 * u + 10)


def acceleration_at(drawing: Drawing, t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Second derivative of `path_at`, pictures per second squared."""
    u = np.clip((t - drawing.burst_s) / drawing.burst_len + 0.5, 0, 1)
    return drawing.burst / drawing.burst_len**2 * (120 * u**3 - 180 * u**2 + 60 * u)


def place_at(drawing: Drawing, t: float) -> tuple[float, float]:
    """Centre of the shape at time t, (x, y) in 0..1 of the upright picture; the edges are joined."""
    gone = float(path_at(drawing, np.array(t)))
    dx, dy = DIRECTIONS[drawing.label]
    return (drawing.start[0] + dx * gone) % 1.0, (drawing.start[1] + dy * gone) % 1.0


def pictures(drawing: Drawing, times: list[Fraction]) -> Iterator[NDArray[np.uint8]]:
    """The upright pictures at the times, u8 (height, width, 3) RGB."""
    rng = np.random.default_rng((*drawing.seed, 2))
    w, h = drawing.width, drawing.height
    radius = rng.uniform(0.16, 0.22) * min(w, h)
    distance = (np.add, np.hypot, np.maximum)[rng.integers(3)]  # from the centre: a diamond, a disc, a square
    colour = np.array(COLOURS[rng.integers(len(COLOURS))], dtype=float)
    ground = _background(rng, w, h)
    x, y = np.arange(w) + 0.5, np.arange(h) + 0.5
    for t in times:
        px, py = place_at(drawing, float(t))
        dx = np.abs((x - px * w + w / 2) % w - w / 2)
        dy = np.abs((y - py * h + h / 2) % h - h / 2)
        inside = np.clip(radius - distance(dx[None, :], dy[:, None]) + 0.5, 0, 1)[..., None]  # soft edge of 1 pixel
        yield np.rint(ground + (colour - ground) * inside).astype(np.uint8)


def _background(rng: np.random.Generator, w: int, h: int) -> NDArray[np.float64]:
    """Faint slow waves, still, with joined edges like the motion. Faint, because a network that can tell clips apart by their
    background learns them by heart instead of the motion."""
    y, x = np.mgrid[0:h, 0:w]
    waves = np.zeros((h, w, 3))
    for channel in range(3):
        for _ in range(2):
            kx, ky = rng.integers(-2, 3, size=2)
            waves[..., channel] += np.cos(2 * np.pi * (kx * x / w + ky * y / h + rng.random()))
    return 80 + 4 * waves


def frame_times(drawing: Drawing) -> tuple[list[int], Fraction]:
    """Time stamps of the frames and their unit in seconds; the first is 0."""
    if not drawing.variable:
        return list(range(int(drawing.seconds * drawing.fps) + 1)), 1 / drawing.fps
    rng = np.random.default_rng((*drawing.seed, 3))
    steps = rng.integers(20, 90, size=int(drawing.seconds * 50))  # milliseconds, as a telephone in changing light
    stamps = np.concatenate([[0], np.cumsum(steps)])
    return [int(s) for s in stamps[stamps <= drawing.seconds * 1000]], Fraction(1, 1000)


def write_video(drawing: Drawing, path: Path) -> None:
    """Encode one clip as H.264 in MP4."""
    stamps, unit = frame_times(drawing)
    with av.open(str(path), "w", format="mp4", options={"fflags": "+bitexact"}) as container:
        stream = container.add_stream("libx264", rate=drawing.fps)
        stream.width, stream.height = (drawing.height, drawing.width) if drawing.rotated else (drawing.width, drawing.height)
        stream.pix_fmt = "yuv420p"
        stream.time_base = stream.codec_context.time_base = unit
        stream.codec_context.thread_count = 1  # the number of threads changes the bytes
        stream.options = {"crf": "25", "preset": "medium", "flags": "+bitexact"}
        for stamp, picture in zip(stamps, pictures(drawing, [s * unit for s in stamps]), strict=True):
            lying = np.ascontiguousarray(np.rot90(picture)) if drawing.rotated else picture  # a quarter turn to the left
            frame = av.VideoFrame.from_ndarray(lying, format="rgb24")
            frame.pts, frame.time_base = stamp, unit
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    if drawing.rotated:
        _turn_right(path, stored_height=drawing.width)


def _turn_right(path: Path, stored_height: int) -> None:
    """Set the track's display matrix to a quarter turn to the right (ISO/IEC 14496-12, track header box)."""
    data = bytearray(path.read_bytes())
    at = data.index(b"tkhd") + 44  # the 36 bytes of the matrix in a version 0 box
    one = 1 << 16
    matrix = (0, one, 0, -one, 0, 0, stored_height * one, 0, 1 << 30)
    data[at : at + 36] = b"".join(value.to_bytes(4, "big", signed=True) for value in matrix)
    path.write_bytes(data)


def sensor_rows(drawing: Drawing) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Times on the video's clock (seconds) and acceleration (x, y), pictures per second squared."""
    t = np.arange(-LEAD_S, drawing.seconds + LEAD_S, 1 / SENSOR_HZ)
    if drawing.sensor_gap:
        t = t[(t < 1.0) | (t > 1.5)]
    return t, acceleration_at(drawing, t)[:, None] * np.array(DIRECTIONS[drawing.label], dtype=float)


def write_sensor(drawing: Drawing, path: Path) -> None:
    """Write the sensor rows on the sensor's own clock: sensor time = video time - offset."""
    t, values = sensor_rows(drawing)
    lines = [f"{ti - drawing.offset_ms / 1000:.3f},{ax:.4g},{ay:.4g}" for ti, (ax, ay) in zip(t, values + 0.0, strict=True)]
    path.write_text("\n".join(["t,ax,ay", *lines]) + "\n", encoding="utf-8")


def write_set(drawings: list[Drawing], out: Path) -> Path:
    """Write OUT/clips/*.mp4 and *.csv and the manifest OUT/demo.csv, whose path is returned."""
    clips = out / "clips"
    clips.mkdir(parents=True, exist_ok=True)
    manifest = out / "demo.csv"
    with manifest.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", "video", "label", "split", "group", "imu", "imu_offset_ms", "burst_s"])
        for d in drawings:
            write_video(d, clips / f"{d.name}.mp4")
            write_sensor(d, clips / f"{d.name}.csv")
            writer.writerow([d.name, f"clips/{d.name}.mp4", d.label, d.split, d.name, f"clips/{d.name}.csv", d.offset_ms, d.burst_s])
    return manifest


def main() -> None:
    """Draw what the command line asks for and say what was written."""
    parser = argparse.ArgumentParser(description="Draw clips of a moving shape whose class is the direction of its motion.")
    parser.add_argument("out", nargs="?", type=Path, default=Path(__file__).parent, help="folder to write to (default: beside this script)")
    parser.add_argument("--clips", type=int, help="clips of a larger set with equal classes; without it the 24 clips of the demo")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    drawings = demo_set(options.seed) if options.clips is None else large_set(options.clips, options.seed)
    manifest = write_set(drawings, options.out)
    size = sum(file.stat().st_size for file in (options.out / "clips").iterdir())
    print(f"{len(drawings)} clips, {size / 1000:.0f} kB, {manifest}")


if __name__ == "__main__":
    main()
