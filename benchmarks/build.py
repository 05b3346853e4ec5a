"""A whole build beside the ffmpeg program on the same clips, its parts as shares of the time, and what a second worker brings.

usage: python benchmarks/build.py CLIP [CLIP ...] [--clips 60] [--rounds 5] [--ffmpeg ffmpeg] [--ram /dev/shm]

The set: copies of the given clips (say 340x256, 30 fps, 10 s), --clips files with two classes. Default recipe, output on a RAM disk,
probing and planning included, probe cache empty. Beside it, two ffmpeg programs at a time decode, scale and write raw frames of the same
clips there. Runs are interleaved; figures are medians of the rounds' ratios. Parts are measured with one worker, by the clock of the
functions that do them. Exit status 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hfprep import action, build, decode, pipeline, prepare, probe, store
from hfprep.planned import BuildOptions

PARTS: dict[str, tuple[tuple[Any, str], ...]] = {  # name -> where the function is looked up
    "probe": ((probe, "probe"),),
    "decode and scale": ((decode, "frames"),),
    "energy": ((action, "in_frames"),),
    "windows": ((prepare, "_fill"),),
    "writing": ((store, "write_shard"),),
}


def make_set(sources: list[Path], count: int, folder: Path) -> Path:
    """A manifest of copies."""
    rows = ["video,label"]
    for number in range(count):
        source = sources[number % len(sources)]
        target = folder / f"{number:05d}{source.suffix}"
        shutil.copyfile(source, target)
        rows.append(f"{target.name},{'ab'[number % 2]}")
    manifest = folder / "set.csv"
    manifest.write_text("\n".join(rows) + "\n")
    return manifest


def built(manifest: Path, ram: Path, jobs: int, engine: str = "threads") -> float:
    """Seconds of one build; the store is deleted."""
    with tempfile.TemporaryDirectory(dir=ram) as folder, tempfile.TemporaryDirectory() as cache:
        clock = time.perf_counter()
        options = BuildOptions(jobs=jobs, engine=engine, cache=Path(cache))
        summary = build.build_store(manifest, Path(folder) / "s.zarr", pipeline.load(None, ()), options=options)
        seconds = time.perf_counter() - clock
        if summary.faults:
            raise SystemExit(f"a clip was quarantined: {summary.faults[0]}")
    return seconds


def programs(manifest: Path, ram: Path, ffmpeg: str, at_once: int) -> float:
    """Seconds in which so many ffmpeg programs at a time decode, scale and write raw frames of every clip."""
    clips = [manifest.parent / line.split(",")[0] for line in manifest.read_text().splitlines()[1:]]
    with tempfile.TemporaryDirectory(dir=ram) as folder:

        def one(clip: Path) -> None:
            scale = "fps=10:round=up,scale='if(gte(iw,ih),-2,160)':'if(gte(iw,ih),160,-2)':flags=bilinear,crop=160:160"
            command = [ffmpeg, "-v", "error", "-nostdin", "-threads", "1", "-i", str(clip), "-an", "-filter_threads", "1", "-vf", scale]
            command += ["-pix_fmt", "rgb24", "-fps_mode", "passthrough", "-f", "rawvideo", f"{folder}/{clip.name}.rgb"]
            subprocess.run(command, check=True)

        clock = time.perf_counter()
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(one, clips))
        return time.perf_counter() - clock


def parts(manifest: Path, ram: Path) -> dict[str, float]:
    """Part -> share of a build with one worker; "rest" is everything else, scheduling included."""
    spent: dict[str, float] = defaultdict(float)
    kept: list[tuple[Any, str, Any]] = []

    def timed(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **named: Any) -> Any:
            clock = time.perf_counter()
            try:
                return work(*args, **named)
            finally:
                spent[name] += time.perf_counter() - clock

        return run

    try:
        for name, places in PARTS.items():
            for module, attribute in places:
                kept.append((module, attribute, getattr(module, attribute)))
                setattr(module, attribute, timed(name, getattr(module, attribute)))
        whole = built(manifest, ram, 1)
    finally:
        for module, attribute, work in kept:
            setattr(module, attribute, work)
    shares = {name: spent[name] / whole for name in PARTS}
    return {**shares, "rest": 1 - sum(shares.values())}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", type=Path)
    parser.add_argument("--clips", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ffmpeg", default="ffmpeg")
    parser.add_argument("--ram", type=Path, default=Path("/dev/shm"))
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        manifest = make_set(chosen.sources, chosen.clips, Path(folder))
        runs: dict[str, Callable[[], float]] = {
            "two ffmpeg programs": lambda: programs(manifest, chosen.ram, chosen.ffmpeg, 2),
            "one ffmpeg program": lambda: programs(manifest, chosen.ram, chosen.ffmpeg, 1),
            "hfprep, 2 threads": lambda: built(manifest, chosen.ram, 2),
            "hfprep, 1 thread": lambda: built(manifest, chosen.ram, 1),
            "hfprep, 2 processes": lambda: built(manifest, chosen.ram, 2, "processes"),
            "hfprep, 1 process": lambda: built(manifest, chosen.ram, 1, "processes"),
        }
        for run in runs.values():
            run()  # compiled modules, page cache
        rounds = [{name: run() for name, run in runs.items()} for _ in range(chosen.rounds)]
        shares = [parts(manifest, chosen.ram) for _ in range(chosen.rounds)]

    def ratio(over: str, under: str) -> float:
        return statistics.median(seconds[over] / seconds[under] for seconds in rounds)

    for name in runs:
        print(f"{name:24s} {statistics.median(seconds[name] for seconds in rounds):7.2f} s")
    share = {name: statistics.median(found[name] for found in shares) for name in shares[0]}
    print("shares with one worker: " + ", ".join(f"{name} {value:.2f}" for name, value in share.items()))
    targets = {
        "build over two ffmpeg programs": (ratio("two ffmpeg programs", "hfprep, 2 threads"), 1.0),
        "two threads over one": (ratio("hfprep, 1 thread", "hfprep, 2 threads"), 1.6),
        "two processes over one": (ratio("hfprep, 1 process", "hfprep, 2 processes"), 1.8),
        "all but energy, windows and writing": (1 - share["energy"] - share["windows"] - share["writing"], 0.75),
    }
    machine = ratio("one ffmpeg program", "two ffmpeg programs")
    print(f"two ffmpeg programs over one: {machine:.2f}, which is what this machine's second core brings")
    for name, (value, wanted) in targets.items():
        print(f"{name:38s} {value:5.2f}  (target {wanted}){'' if value >= wanted else '  missed'}")
    return any(value < wanted for value, wanted in targets.values())


if __name__ == "__main__":
    sys.exit(main())
