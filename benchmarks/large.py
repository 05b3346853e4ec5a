"""Large stores: opening one of 100,000 windows, giving another 10,000 windows anew, and memory over many batches.

usage: python benchmarks/large.py [--windows 100000] [--rewound 10000] [--batches 2000] [--folder DIR]

The pixels are small (8x8) and mostly holes in the files, since it is the tables that these ask about. Each opening runs in a process
of its own; memory is what it adds to a process that has imported hfprep. Targets: 100 ms and 100 MB; 2 s; no growth.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from hfprep import pipeline, store
from hfprep.layout import Layout
from hfprep.records import ClipOutcome, ShardData
from hfprep.rewindow import rewindow


def write(path: Path, windows: int, kind: str, size: int = 16, margin: int = 2, per_clip: int = 8, n_ticks: int = 60) -> None:
    """A store of clips of n_ticks ticks with per_clip windows each, all in train."""
    side, clips = 8, windows // per_clip
    rows = clips * per_clip
    recipe = pipeline.load(None, (f"frame.height={side}", f"frame.width={side}", f"store.layout={kind}", "store.codec=raw"))
    ticks, per_shard = ((clips * n_ticks, 0, 0), 32 * size) if kind == "frames" else ((0, 0, 0), 0)
    layout = Layout(size, margin, side, side, (), "raw", 32, (rows, 0, 0), kind, ticks, per_shard)
    number = list(range(clips))
    table = {
        "id": [f"c{k}" for k in number],
        "split": ["train"] * clips,
        "label": ["ab"[k % 2] for k in number],
        "n_windows": [per_clip] * clips,
    }
    table |= {"n_ticks": [n_ticks] * clips, "first_tick": [k * n_ticks for k in number], "n_windows_unbalanced": [per_clip] * clips}
    attrs = {"classes": ["a", "b"], "class_weight": [1.0, 1.0], "axes": [], "pipeline": recipe.model_dump(mode="json")}
    store.create(path, layout, attrs, table)
    centers = tuple(range(10, 10 + 4 * per_clip, 4))
    rng = np.random.default_rng(0)
    for split, index in layout.shards():
        first, last = layout.shard_units(split, index)
        names = [s for s in layout.unit_columns(split) if s.name not in layout.written_columns]
        columns = {s.name: np.zeros((last - first, *s.shape[1:]), s.dtype) for s in names}
        unit = np.arange(first, last)
        if kind == "frames":
            columns |= {"tick_ok": np.ones(len(unit), bool), "tick_clip": (unit // n_ticks).astype(np.int32)}
            columns |= {"time_ns": unit % n_ticks * 100_000_000, "energy": rng.random(len(unit), np.float32)}
            here = range(first // n_ticks, (last - 1) // n_ticks + 1)
        else:
            columns |= {"ok": np.ones(len(unit), bool), "clip": (unit // per_clip).astype(np.int32)}
            here = range(first // per_clip, (last - 1) // per_clip + 1)
        told = tuple(ClipOutcome(k, n_ticks, centers=centers if kind == "frames" else ()) for k in here)
        frames = np.broadcast_to(np.uint8(0), (last - first, *layout.unit_shape))
        store.write_shard(path, layout, ShardData(split, index, np.ascontiguousarray(frames), columns, told))
    store.finish(path)


def opened(path: Path) -> tuple[float, float]:
    """Milliseconds to open the store and read one window, and MB that this added."""
    code = (
        "import json, resource, sys, time, hfprep, numpy as np\n"
        "from hfprep import store\n"
        "def held(): return int(open('/proc/self/statm').read().split()[1]) * resource.getpagesize() / 2**20\n"
        "before = held()\n"
        "begin = time.perf_counter()\n"
        "opened = hfprep.open_store(sys.argv[1])\n"
        "reader = opened['train']\n"
        "out = np.empty((1, *opened.layout.window_shape), np.uint8)\n"
        "reader.read_frames(np.array([len(reader) // 2]), out)\n"
        "took = time.perf_counter() - begin\n"
        "print(json.dumps([took * 1000, held() - before]))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True)
    took, added = json.loads(ran.stdout)
    return float(took), float(added)


def grows(path: Path, batches: int) -> tuple[float, float]:
    """MB of this process after a tenth of the batches and after all."""
    from hfprep.dataset import HyperframeDataset

    data = HyperframeDataset(path, "train")
    rng = np.random.default_rng(0)
    early = 0.0
    for turn in range(batches):
        data.read(rng.integers(0, len(data), 16).tolist())
        if turn == batches // 10:
            early = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return early, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", type=int, default=100_000)
    parser.add_argument("--rewound", type=int, default=10_000)
    parser.add_argument("--batches", type=int, default=2_000)
    parser.add_argument("--folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hfprep-large-", dir=options.folder) as folder:
        for kind in ("windows", "frames"):
            path = Path(folder, f"{kind}.zarr")
            write(path, options.windows, kind)
            found = [opened(path) for _ in range(5)]
            took, added = (statistics.median(values) for values in zip(*found))
            print(f"{kind}: open and read one of {options.windows} windows: {took:.0f} ms, {added:.0f} MB (medians of 5)")
        path = Path(folder, "small.zarr")
        write(path, options.rewound, "frames")
        times = []
        for turn in range(5):
            begin = time.perf_counter()
            made = rewindow(path, Path(folder, f"new{turn}.zarr"), ("window.size=12", "window.stride=2"))
            times.append(time.perf_counter() - begin)
        print(f"rewindow to {made.windows} windows: {statistics.median(times):.2f} s (median of 5), {made.copied_bytes} bytes copied")
        early, late = grows(path, options.batches)
        print(f"{options.batches} batches in a row: {early:.0f} MB after a tenth, {late:.0f} MB after all")


if __name__ == "__main__":
    main()
