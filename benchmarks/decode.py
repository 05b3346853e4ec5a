"""How fast frames at a fixed interval come out of video files, and whether they are the right ones: hfprep and others.

usage: python benchmarks/decode.py FILE... [--large FILE] [--rounds 5] [--interval-ms 100] [--side 160] [--ffmpeg ffmpeg] [--only NAME ...]

The work of every reader: the frame on the screen at t0, t0 + interval, ..., scaled to the short side and its centre cut out, as one
uint8 array (T,side,side,3), on one core. A figure is the time of the ffmpeg program over the reader's, each the median of the rounds'
ratios; readers run one after the other in every round, in an order drawn anew. "wrong" counts ticks that show another frame than the
one with the largest presentation time at or before the tick, as every frame of the file decoded in turn shows it. --large makes
re-encodes of a file (480p without B-frames, 720p with, 1080p HEVC) and adds them. Peers: pip install 'hfprep[bench]'; the ffmpeg program.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from hfprep import decode, probe, resample

Pictures = NDArray[np.uint8]
TARGET_B, TARGET_ALL = 1.3, 0.95  # of the ffmpeg program: on H.264 and HEVC with B-frames, and on every file


@dataclass(frozen=True)
class Job:
    """One file and what is wanted of it: times in seconds from its first frame."""

    path: Path
    interval_ms: int
    side: int
    ffmpeg: str

    def scaled(self, width: int, height: int) -> tuple[int, int]:
        short = min(width, height)
        return max(self.side, round(width * self.side / short)), max(self.side, round(height * self.side / short))

    def cut(self, picture: Pictures) -> Pictures:
        top, left = (picture.shape[0] - self.side) // 2, (picture.shape[1] - self.side) // 2
        return picture[top : top + self.side, left : left + self.side]


def ffmpeg_program(job: Job) -> Pictures:
    """The program, its pictures through a pipe."""
    rate = Fraction(1000, job.interval_ms)
    scale = f"scale='if(gte(iw,ih),-2,{job.side})':'if(gte(iw,ih),{job.side},-2)':flags=bilinear,crop={job.side}:{job.side}"
    command = [job.ffmpeg, "-v", "error", "-nostdin", "-threads", "1", "-i", str(job.path), "-an", "-sn", "-dn", "-filter_threads", "1"]
    command += ["-vf", f"fps={rate}:round=up,{scale}", "-pix_fmt", "rgb24", "-fps_mode", "passthrough", "-f", "rawvideo", "pipe:1"]
    done = subprocess.run(command, check=True, capture_output=True)
    return np.frombuffer(done.stdout, np.uint8).reshape(-1, job.side, job.side, 3)


def pyav_naive(job: Job) -> Pictures:
    """PyAV as most scripts use it: every frame converted, one taken by its number and the average rate."""
    with av.open(str(job.path)) as file:
        stream = file.streams.best("video")
        stream.codec_context.thread_count = 1
        width, height = job.scaled(stream.width, stream.height)
        found = [job.cut(frame.to_ndarray(width=width, height=height, format="rgb24")) for frame in file.decode(stream)]
        rate = float(stream.average_rate)
    return np.stack([found[int(t * rate)] for t in np.arange(0, len(found) / rate - 1e-6, job.interval_ms / 1000)])


def opencv(job: Job) -> Pictures:
    """OpenCV, frame by frame, retrieved where its own clock says that the next tick has come."""
    import cv2

    cv2.setNumThreads(1)
    file = cv2.VideoCapture(str(job.path), cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
    found, tick, held = [], 0, None
    while file.grab():
        now = file.get(cv2.CAP_PROP_POS_MSEC)
        while held is not None and now > tick * job.interval_ms + 1e-3:
            found.append(held)
            tick += 1
        if held is None or now + 1000 / file.get(cv2.CAP_PROP_FPS) > tick * job.interval_ms:
            picture = file.retrieve()[1]
            size = job.scaled(picture.shape[1], picture.shape[0])
            held = job.cut(cv2.cvtColor(cv2.resize(picture, size, interpolation=cv2.INTER_LINEAR), cv2.COLOR_BGR2RGB))
    return np.stack([*found, held])


def decord(job: Job) -> Pictures:
    """decord, frames by their own time stamps."""
    import decord as package

    look = package.VideoReader(str(job.path), ctx=package.cpu(0), num_threads=1)
    height, width = look[0].shape[:2]
    size = job.scaled(width, height)
    reader = package.VideoReader(str(job.path), ctx=package.cpu(0), width=size[0], height=size[1], num_threads=1)
    begins = np.asarray(reader.get_frame_timestamp(np.arange(len(reader))))[:, 0]
    times = np.arange(begins[0], begins[-1] + np.median(np.diff(begins)) - 1e-6, job.interval_ms / 1000)
    chosen = np.searchsorted(begins, times + 1e-4, side="right") - 1
    return np.stack([job.cut(picture) for picture in reader.get_batch(chosen).asnumpy()])


def torchcodec(job: Job) -> Pictures:
    """torchcodec, exact seeking, frames on the screen at the ticks, resized by it."""
    from torchcodec import transforms
    from torchcodec.decoders import VideoDecoder

    facts = VideoDecoder(str(job.path), seek_mode="approximate").metadata
    width, height = job.scaled(facts.width, facts.height)
    steps = [transforms.Resize((height, width)), transforms.CenterCrop((job.side, job.side))]
    reader = VideoDecoder(str(job.path), num_ffmpeg_threads=1, dimension_order="NHWC", transforms=steps)
    begin, end = reader.metadata.begin_stream_seconds or 0.0, reader.metadata.end_stream_seconds
    times = [float(t) + 1e-6 for t in np.arange(begin, end - 1e-6, job.interval_ms / 1000)]
    return reader.get_frames_played_at(times).data.numpy()


def hfprep_chosen(job: Job, *, trusted: bool = True) -> Pictures:
    """hfprep's own choice of the way, the probe of the file included."""
    timeline = probe.probe(str(job.path))
    if not trusted:
        timeline = replace(timeline, trusted=False)
    ticks = resample.ticks(timeline.last_ns, 0, None, Fraction(job.interval_ms * 1_000_000))
    return decode.frames(timeline, ticks, decode.Geometry(job.side, job.side)).frames


def hfprep_plain(job: Job) -> Pictures:
    """hfprep, every packet decoded."""
    return hfprep_chosen(job, trusted=False)


READERS: dict[str, Callable[[Job], Pictures]] = {
    "ffmpeg program": ffmpeg_program,
    "hfprep": hfprep_chosen,
    "hfprep, plain": hfprep_plain,
    "PyAV, naive": pyav_naive,
    "OpenCV": opencv,
    "decord": decord,
    "torchcodec": torchcodec,
}


def small(pictures: Pictures) -> NDArray[np.float32]:
    """Grey pictures of 16 x 16 blocks, brought to mean 0 and spread 50, as readers differ in colour matrices: (T,h,w,3) -> (T,256)."""
    grey = pictures.astype(np.float32).mean(axis=3)
    t, side, _ = grey.shape
    block = side // 16
    blocks = grey[:, : 16 * block, : 16 * block].reshape(t, 16, block, 16, block).mean(axis=(2, 4)).reshape(t, -1)
    centred = blocks - blocks.mean(axis=1, keepdims=True)
    return 50 * centred / np.maximum(centred.std(axis=1, keepdims=True), 1e-3)


@dataclass(frozen=True)
class Truth:
    """Every frame of a file as small pictures, in presentation order, and the frame of each tick.

    Two kinds of pictures, as readers differ in where they cut: scaled and then cut, or cut (to a square on the screen) and then scaled.
    """

    kinds: tuple[NDArray[np.float32], NDArray[np.float32]]
    at: NDArray[np.int64]

    @classmethod
    def of(cls, job: Job) -> Truth:
        scaled, squared, stamps = [], [], []
        with av.open(str(job.path)) as file:
            stream = file.streams.best("video")
            width, height = job.scaled(stream.width, stream.height)
            graph = square(stream, job.side)
            for frame in file.decode(stream):
                scaled.append(small(job.cut(frame.to_ndarray(width=width, height=height, format="rgb24"))[None])[0])
                stamps.append(frame.dts if file.format.name == "avi" else frame.pts)  # AVI has no presentation times
                graph.push(frame)
                squared.append(small(graph.pull().to_ndarray()[None])[0])
            base = float(stream.time_base or 1)
        for number in range(1, len(stamps)):  # the last ones of an AVI come out of the decoder without a packet
            stamps[number] = stamps[number - 1] + 1 if stamps[number] is None else stamps[number]
        times = np.array([(s - min(stamps)) * base for s in stamps])
        order = np.argsort(times, kind="stable")
        last = times[order][-1] + (times[order][-1] / max(1, len(times) - 1))
        ticks = np.arange(0, last - 1e-6, job.interval_ms / 1000)
        at = np.searchsorted(times[order], ticks + 1e-6, side="right") - 1
        return cls((np.stack(scaled)[order], np.stack(squared)[order]), at)

    def wrong(self, pictures: Pictures) -> tuple[int, int]:
        """Ticks where another frame of the file is plainly nearer to the picture than the right one; ticks too many or too few."""
        seen = small(pictures)[: len(self.at)]
        at = self.at[: len(seen)]
        off = min((np.abs(seen[:, None] - kind[None]).mean(axis=2) for kind in self.kinds), key=lambda off: float(off.min(axis=1).mean()))
        own, best = off[np.arange(len(seen)), at], off.min(axis=1)
        return int(np.sum((own > best + 0.5) & (own > 2 * best))), len(pictures) - len(self.at)


def square(stream: av.VideoStream, side: int) -> av.filter.Graph:
    """Cut what is a square on the screen out of the middle, then scale."""
    graph = av.filter.Graph()
    shape = stream.sample_aspect_ratio or Fraction(1)
    wide = min(stream.width, round(stream.height / shape))
    high = min(stream.height, round(stream.width * shape))
    nodes = [
        graph.add_buffer(template=stream),
        graph.add("crop", f"{wide}:{high}:exact=1"),
        graph.add("scale", f"{side}:{side}:flags=bilinear"),
    ]
    nodes += [graph.add("format", "pix_fmts=rgb24"), graph.add("buffersink")]
    graph.link_nodes(*nodes).configure()
    return graph


def enlarged(source: Path, folder: Path, ffmpeg: str) -> list[Path]:
    """Re-encodes of a real file, 20 s at most."""
    kinds = {
        "480p-no-b.mp4": ["-vf", "scale=-2:480", "-c:v", "libx264", "-bf", "0", "-crf", "23"],
        "720p-b.mp4": ["-vf", "scale=-2:720", "-c:v", "libx264", "-bf", "3", "-crf", "23"],
        "1080p-hevc.mp4": ["-vf", "scale=-2:1080", "-c:v", "libx265", "-crf", "28", "-x265-params", "log-level=error"],
    }
    for name, how in kinds.items():
        command = [ffmpeg, "-v", "error", "-nostdin", "-i", str(source), "-t", "20", "-an", *how, "-pix_fmt", "yuv420p", str(folder / name)]
        subprocess.run(command, check=True)
    return [folder / name for name in kinds]


def has_b_frames(path: Path) -> bool:
    with av.open(str(path)) as file:
        stream = file.streams.best("video")
        return stream.codec_context.name in ("h264", "hevc") and stream.codec_context.has_b_frames > 0


def measure(job: Job, names: list[str], rounds: int) -> dict[str, tuple[float, str]]:
    """Name of a reader -> ratio to the ffmpeg program, and what was wrong."""
    truth = Truth.of(job)
    ratios: dict[str, list[float]] = {name: [] for name in names}
    said: dict[str, str] = {}
    for name in names:
        try:
            wrong, more = truth.wrong(READERS[name](job))
            said[name] = f"{wrong}/{len(truth.at)}" + (f" {more:+d}" if more else "")
        except Exception as fault:  # noqa: BLE001 - a peer that fails is a row of the table, not the end of the run
            said[name] = f"fails: {type(fault).__name__}"
    able = [name for name in names if not said[name].startswith("fails")]
    rng = np.random.default_rng(0)
    for _ in range(rounds):
        seconds = {}
        for name in rng.permutation(able).tolist():
            clock = time.perf_counter()
            READERS[name](job)
            seconds[name] = time.perf_counter() - clock
        for name in able:
            ratios[name].append(seconds["ffmpeg program"] / seconds[name])
    return {name: (statistics.median(ratios[name]) if name in able else 0.0, said[name]) for name in names}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--large", type=Path, help="make large re-encodes of this file too")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--interval-ms", type=int, default=100)
    parser.add_argument("--side", type=int, default=160)
    parser.add_argument("--ffmpeg", default="ffmpeg", help="the program")
    parser.add_argument(
        "--only", nargs="*", default=[], help="readers whose name holds one of these words (the ffmpeg program always runs)"
    )
    chosen = parser.parse_args()
    names = [n for n in READERS if n == "ffmpeg program" or not chosen.only or any(word in n for word in chosen.only)]
    missed: list[str] = []
    print(f"{'file':36s}" + "".join(f"{name:>24s}" for name in names[1:]))
    with tempfile.TemporaryDirectory(prefix="hfprep-decode-") as folder:
        more = enlarged(chosen.large, Path(folder), chosen.ffmpeg) if chosen.large else []
        for path in [*chosen.files, *more]:
            found = measure(Job(path, chosen.interval_ms, chosen.side, chosen.ffmpeg), names, chosen.rounds)
            cells = [f"{ratio:.2f}  {said}" if ratio else said for ratio, said in (found[name] for name in names[1:])]
            print(f"{path.name[:34]:36s}" + "".join(f"{cell:>24s}" for cell in cells), flush=True)
            ratio, said = found["hfprep"]
            target = TARGET_B if has_b_frames(path) else TARGET_ALL
            if ratio < target:
                missed.append(f"{path.name}: {ratio:.2f} of the ffmpeg program, wanted {target}")
            if not said.startswith("0/"):
                missed.append(f"{path.name}: wrong ticks {said}")
    print("figures: times as fast as the ffmpeg program, wrong ticks of all, ticks too many (+) or too few (-)")
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
