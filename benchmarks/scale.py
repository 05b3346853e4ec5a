"""Many clips: seconds and memory per clip of 100, 1,000 and 10,000 small ones, `plan` of 10,000 rows, and a plan of a million rows.

usage: python benchmarks/scale.py [--clips 100 1000 10000] [--rows 1000000] [--folder DIR]

The clips are drawn (32x32, 12 frames, 8 kB), each a file of its own, built with 16x16 frames and windows of 4 by two threads. Each size
runs in a process of its own; memory is the most that it held at once. The plan of --rows is made of records alone, no files. Targets:
flat per clip; plan with a warm probe cache under 5 s; a million rows under 60 s and 2 GiB.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SETTINGS = ("frame.height=16", "frame.width=16", "window.size=4", "window.margin=0", "window.per_clip=2", "frame.interval_ms=40")


def draw(path: Path, number: int) -> None:
    """A small video of a square that moves."""
    import av

    with av.open(str(path), "w") as file:
        stream = file.add_stream("mpeg4", 25)
        stream.width = stream.height = 32
        stream.pix_fmt = "yuv420p"
        for tick in range(12):
            picture = np.full((32, 32, 3), 40 + number % 100, np.uint8)
            picture[8:16, tick : tick + 8] = 230
            file.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
        file.mux(stream.encode(None))


def build(folder: Path, count: int) -> dict[str, float]:
    """One build and one plan of the first clips, in this process."""
    from hfprep import pipeline, planned
    from hfprep.build import build_store
    from hfprep.planned import BuildOptions

    manifest = folder / f"{count}.csv"
    manifest.write_text("video,label\n" + "".join(f"{n:06d}.mp4,{'ab'[n % 2]}\n" for n in range(count)))
    recipe, options = pipeline.load(None, SETTINGS), BuildOptions(jobs=2, cache=folder / f"cache{count}")
    clock = time.perf_counter()
    summary = build_store(manifest, folder / f"{count}.zarr", recipe, options=options)
    seconds = time.perf_counter() - clock
    assert summary.clips == count, summary
    clock = time.perf_counter()
    planned.plan_build(manifest, recipe, options)
    return {"seconds": seconds, "plan": time.perf_counter() - clock, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def plan_rows(rows: int) -> dict[str, float]:
    """A plan from records, its blocks included."""
    from hfprep import pipeline, plan
    from hfprep.build import SHARDS_PER_BLOCK
    from hfprep.records import Clip

    recipe, names = pipeline.load(None, ()), [f"class {n}" for n in range(10)]
    clips = [Clip(n + 1, n + 2, str(n), f"/v/{n}.mp4", names[n % 10], labels=(names[n % 10],)) for n in range(rows)]
    ticks = np.random.default_rng(0).integers(20, 200, rows)
    records = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    clock = time.perf_counter()
    blocks = len(plan.make(clips, names, ticks, recipe).blocks(SHARDS_PER_BLOCK))
    seconds = time.perf_counter() - clock
    return {"seconds": seconds, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "records_mb": records, "blocks": blocks}


def apart(*args: str) -> dict[str, float]:
    """The same file in a process of its own."""
    done = subprocess.run([sys.executable, __file__, *args], check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, nargs="*", default=[100, 1000, 10000])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", help="where the clips go for the time of the run")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--planned", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(build(Path(chosen.one[0]), int(chosen.one[1]))))
        return
    if chosen.planned:
        print(json.dumps(plan_rows(chosen.planned)))
        return
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        for number in range(max(chosen.clips, default=0)):
            draw(Path(folder) / f"{number:06d}.mp4", number)
        print(f"{'clips':>9s} {'build s':>9s} {'ms a clip':>10s} {'memory MB':>10s} {'plan, warm, s':>14s}")
        for count in chosen.clips:
            got = apart("--one", folder, str(count))
            print(
                f"{count:9d} {got['seconds']:9.1f} {1000 * got['seconds'] / count:10.2f} {got['mb']:10.0f} {got['plan']:14.2f}", flush=True
            )
    if chosen.rows:
        got = apart("--planned", str(chosen.rows))
        memory = f"{got['mb']:.0f} MB at most ({got['records_mb']:.0f} before it)"
        print(f"plan of {chosen.rows} rows: {got['seconds']:.1f} s, {memory}, {got['blocks']} blocks")


if __name__ == "__main__":
    main()
