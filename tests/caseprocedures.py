"""What a case's `procedure` asks for beside one plain build: kills, several workers, an old output in the way, memory."""

from __future__ import annotations

import csv
import io
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from casecheck import check_case
from caserun import SPLITS, Case, Got, Ran, arrays_of, hfprep, hfprep_apart, options, read_codes

RUN_AND_TELL_PEAK = """
import re, sys
from pathlib import Path
import av, dask.threaded, numcodecs, numpy, pandas, rich, zarr
import hfprep.build, hfprep.cli.build
from hfprep.cli import main

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

before, code = peak(), 0
try:
    main(sys.argv[1:])
except SystemExit as end:
    code = end.code or 0
print(f"peak {before:.0f} {peak():.0f}")
sys.exit(code)
"""


def build(case: Case, root: Path, out: Path, *more: str, **sizes: int) -> Got:
    """Build a case's manifest into `out` and read the store back."""
    return Got(out, hfprep("build", root / case["manifest"], "-o", out, *options(case, **sizes), *more), case["step_ms"])


def fine(case: Case, got: Got) -> None:
    wrong = check_case(case, got)
    assert not wrong, "\n".join(wrong) + f"\n--- the build said:\n{got.ran.text}"


def plain(case: Case, root: Path, tmp: Path) -> None:
    fine(case, build(case, root, tmp / "out.zarr"))


def elsewhere(case: Case, root: Path, tmp: Path) -> None:
    """From another working directory, with a relative path to the manifest, in a process of its own."""
    manifest = os.path.relpath(root / case["manifest"], tmp)
    ran = hfprep_apart("build", manifest, "-o", "out.zarr", *options(case), cwd=tmp)
    fine(case, Got(tmp / "out.zarr", ran, case["step_ms"]))


def many_workers(case: Case, root: Path, tmp: Path) -> None:
    """Several workers, several windows a shard, clips that straddle shards; as often as the procedure says."""
    words = {"two": 2, "three": 3, "four": 4, "five": 5, "ten": 10}
    often = re.search(r"repeat (\w+) times", case["procedure"])
    before: dict[str, np.ndarray] = {}
    for i in range(words.get(often[1], 3) if often else 3):
        out = tmp / f"out{i}.zarr"
        fine(case, build(case, root, out, "-j", "4", "--set", "store.windows_per_shard=5"))
        now = arrays_of(out)
        assert not before or same_arrays(before, now), "two runs of one build differ"
        before = now


def any_workers(case: Case, root: Path, tmp: Path) -> None:
    one, four = (build(case, root, tmp / f"{jobs}.zarr", "-j", str(jobs), "--set", "store.windows_per_shard=4") for jobs in (1, 4))
    fine(case, one)
    fine(case, four)
    assert same_arrays(arrays_of(one.path), arrays_of(four.path))
    assert one.attrs == four.attrs


def same_arrays(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(
        a[k].dtype == b[k].dtype and np.array_equal(a[k], b[k], equal_nan=a[k].dtype.kind == "f") for k in a
    )


# ---------------------------------------------------------------- an old output in the way
def output_exists(case: Case, root: Path, tmp: Path) -> None:
    """Another window and two rows fewer to the same path: refused with the old store untouched, or replaced whole."""
    out = tmp / "out.zarr"
    fine(case, build(case, root, out))
    before = arrays_of(out)
    smaller: Case = {**case, "window": case["window"] // 2, "rows": case["rows"][:-2]}
    manifest = without_last_rows(root / case["manifest"], tmp / "smaller.csv", 2)
    again = hfprep("build", manifest, "-o", out, *options(smaller))
    if again.code in (0, 3):
        fine(smaller, Got(out, again, case["step_ms"]))
    else:
        assert again.code in (1, 2) and same_arrays(before, arrays_of(out)), f"refused, but the old store is changed: {again.text}"
        assert "--overwrite" in again.text and "-o" in again.text, f"the refusal offers no way on: {again.text}"
    replaced = hfprep("build", manifest, "-o", out, "--overwrite", *options(smaller))
    fine(smaller, Got(out, replaced, case["step_ms"]))


def without_last_rows(manifest: Path, target: Path, drop: int) -> Path:
    """The manifest less its last rows, written elsewhere with absolute paths (the folder of cases is read-only)."""
    rows = list(csv.DictReader(io.StringIO(manifest.read_text(encoding="utf-8-sig"))))[:-drop]
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({**row, "video": str((manifest.parent / row["video"]).resolve())} for row in rows)
    return target


# ---------------------------------------------------------------- killed
def killed_and_resumed(case: Case, root: Path, tmp: Path) -> None:
    """SIGKILL when the first file exists, and again in another run when the first shard does; each then continues to the same store."""
    settings = [*options(case), "-j", "1", "--set", "store.windows_per_shard=4"]
    whole = hfprep("build", root / case["manifest"], "-o", tmp / "whole.zarr", *settings)
    fine(case, Got(tmp / "whole.zarr", whole, case["step_ms"]))
    for name, pattern in (("first-file", "**/*"), ("first-shard", "*/frames/c/**/*")):
        out = tmp / f"{name}.zarr"
        kill_when(["build", str(root / case["manifest"]), "-o", str(out), *settings], out, pattern)
        looked = hfprep("inspect", out)
        assert looked.code != 0 or re.search(r"building|unfinished|incomplete|not complete", looked.text), f"inspect: {looked.text}"
        trained = hfprep("train", out, "-o", tmp / f"{name}-run")
        assert trained.code == 1, f"training did not refuse an unfinished store ({trained.code}): {trained.text}"
        fine(case, Got(out, hfprep("build", root / case["manifest"], "-o", out, *settings), case["step_ms"]))
        assert same_arrays(arrays_of(tmp / "whole.zarr"), arrays_of(out)), f"{name}: another store than that of an unbroken run"
        assert files_of(out) == files_of(tmp / "whole.zarr"), f"{name}: other files or bytes than in an unbroken run"


def kill_when(words: list[str], out: Path, pattern: str) -> None:
    """Start a build in a process group of its own; SIGKILL the group as soon as a file under `out` matches."""
    process = subprocess.Popen(
        [sys.executable, "-m", "hfprep.cli", *words], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    limit = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < limit:
        if out.exists() and any(p.is_file() for p in out.glob(pattern)):
            os.killpg(process.pid, signal.SIGKILL)
            break
    _, said = process.communicate()
    assert process.returncode == -signal.SIGKILL, f"the build ended before it could be killed ({process.returncode}): {said}"


def files_of(store: Path) -> dict[str, bytes]:
    return {str(p.relative_to(store)): p.read_bytes() for p in sorted(store.rglob("*")) if p.is_file()}


# ---------------------------------------------------------------- reading with worker processes
def loader_workers(case: Case, root: Path, tmp: Path) -> None:
    """Each window exactly once in an epoch, whatever the number of worker processes, after a read in the parent."""
    torch = pytest.importorskip("torch", reason="reading with worker processes needs the extra hfprep[train]")
    from hfprep.dataset import HyperframeDataset

    got = build(case, root, tmp / "out.zarr")
    fine(case, got)
    for split in (s for s in SPLITS if any(w.split == s for row in got.rows.values() for w in row.windows)):
        stored = Counter((row.row, tuple(w.codes)) for row in got.rows.values() for w in row.good if w.split == split)
        dataset = HyperframeDataset(got.path, split)
        dataset[0]
        for workers in (0, 2, 5):
            loader = torch.utils.data.DataLoader(dataset, batch_size=4, num_workers=workers, timeout=900 if workers else 0)
            read = Counter(window for batch in loader for window in windows_of(batch, got))
            assert read == stored, f"{split} with {workers} workers: {len(read)} windows read, {len(stored)} stored"


def windows_of(batch: dict[str, Any], got: Got) -> list[tuple[int, tuple[int, ...]]]:
    """(row, codes) of each window in a batch; frames are u8 (B,K,3,H,W)."""
    frames = batch["frames"].permute(0, 1, 3, 4, 2).numpy()
    codes = read_codes(frames.reshape(-1, *frames.shape[2:])).reshape(frames.shape[:2])
    return [(int(got.clips["row"][int(clip)]), tuple(int(c) for c in run)) for clip, run in zip(batch["clip"], codes)]


# ---------------------------------------------------------------- memory
def memory(case: Case, root: Path, tmp: Path) -> None:
    """Stored at the size of the source and tiled, so that the decoded clip is as large as the video; shards are small and one
    worker runs, so that what counts is the clip. The peak is that of a process of its own, over its imports."""
    width, height = largest_picture(root / case["id"], case)
    sizes = [*options(case, height=height, width=width, stride=case["window"]), "--set", "store.windows_per_shard=4", "-j", "1"]
    command = [sys.executable, "-c", RUN_AND_TELL_PEAK, "build", root / case["manifest"], "-o", tmp / "out.zarr", *sizes]
    begun = time.monotonic()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=1500, check=False)
    ran = Ran(done.returncode, done.stdout + done.stderr, time.monotonic() - begun)
    fine(case, Got(tmp / "out.zarr", ran, case["step_ms"]))
    if not Path("/proc/self/status").exists():
        pytest.skip("rows are as expected; this system does not tell a process's peak memory")
    found = re.search(r"^peak (\d+) (\d+)$", ran.text, re.MULTILINE)
    assert found, ran.text
    extra = int(found[2]) - int(found[1])
    allowed = min(row["peak_extra_mb_max"] for row in case["rows"] if "peak_extra_mb_max" in row)
    assert extra <= allowed, f"the build took {extra} MiB over its start at {found[1]} MiB, allowed {allowed}"


def largest_picture(folder: Path, case: Case) -> tuple[int, int]:
    import av

    sizes = []
    for name in case["files"]:
        with av.open(str(folder / name)) as container:
            sizes += [(s.width * s.height, s.width, s.height) for s in container.streams.video]
    return max(sizes)[1:]
