"""Running `hfprep build` on one awkward-input case and reading the store back with plain zarr (no hfprep reader)."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

SPLITS = ("train", "val", "test")
HEIGHT, WIDTH = 96, 128  # the whole picture, at the size of most sources: the strip has cells of 8 pixels
CLIP_COLUMNS = ("row", "label", "start_ns", "error", "error_kind")
WINDOW_COLUMNS = ("clip", "label", "ok", "time_ns", "clamped")
Case = dict[str, Any]


# ---------------------------------------------------------------- the folder of cases
def index_of(folder: Path) -> list[Case]:
    """The cases that `cases.toml` of a folder lists."""
    return list(tomllib.loads((folder / "cases.toml").read_text(encoding="utf-8"))["case"])


class Inputs:
    """Where the inputs of each case lie: beside the index, or written once by the folder's own `make_cases.py`.

    Written inputs are kept in pytest's cache, by the hash of the scripts. Group `store` holds the one costly input, so it is written
    by a second process at the same time.
    """

    def __init__(self, folder: Path, keep: Path) -> None:
        self.index = index_of(folder)
        self.ready = all((folder / case["manifest"]).exists() for case in self.index)
        self.folder, self.parts, self.running = folder, {}, {}
        if self.ready:
            return
        scripts = [p for p in (folder / "make_cases.py", folder / "casekit.py") if p.is_file()]
        if not scripts:
            pytest.skip(f"{folder} holds neither the inputs that its cases.toml lists nor make_cases.py to write them")
        key = hashlib.sha256(b"".join(p.read_bytes() for p in scripts)).hexdigest()[:16]
        for part in ("store", "rest"):
            ids = [c["id"] for c in self.index if (c["group"] == "store") == (part == "store")]
            self.parts[part] = keep / f"{key}-{part}"
            if ids and not (self.parts[part] / "written").exists():
                self.running[part] = self._start(self.parts[part], ids)

    def _start(self, out: Path, ids: Sequence[str]) -> subprocess.Popen[str]:
        shutil.rmtree(out, ignore_errors=True)
        only = [word for name in ids for word in ("--only", name)]
        command = [sys.executable, "-B", "-W", "ignore", str(self.folder / "make_cases.py"), str(out), *only]
        return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def root(self, case: Case) -> Path:
        """The folder to which this case's paths are relative; waits until its inputs are written."""
        if self.ready:
            return self.folder
        part = "store" if case["group"] == "store" else "rest"
        process = self.running.pop(part, None)
        if process is not None:
            out, err = process.communicate()
            assert process.returncode == 0, f"make_cases.py failed:\n{out}\n{err}"
            (self.parts[part] / "written").touch()
        return self.parts[part]

    def close(self) -> None:
        """End writers that nothing waited for."""
        for process in self.running.values():
            process.kill()
            process.communicate()


# ---------------------------------------------------------------- the command line
@dataclass(frozen=True)
class Ran:
    """What one command did: exit code, all that it printed, wall seconds."""

    code: int
    text: str
    seconds: float


def options(case: Case, *, height: int = HEIGHT, width: int = WIDTH, stride: int = 1, size: int = 0) -> list[str]:
    """Settings under which every grid point of every row is stored with its whole picture."""
    keys = {
        "frame.interval_ms": case["step_ms"], "frame.height": height, "frame.width": width, "frame.fit": "stretch",
        "window.size": size or case["window"], "window.placement": "cover", "window.eval": "cover", "window.stride": stride,
        "window.margin": 0, "balance.method": "none",
    }  # fmt: skip
    return [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]


def hfprep(*words: str | Path, cwd: Path | None = None) -> Ran:
    """Run the command line in this process (an interpreter for each of a hundred builds takes minutes); a traceback is a failure."""
    from hfprep.cli import main

    out, code, before, begun = io.StringIO(), 0, Path.cwd(), time.monotonic()
    try:
        if cwd is not None:
            os.chdir(cwd)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            try:
                main([str(word) for word in words])
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        os.chdir(before)
    return Ran(code, out.getvalue(), time.monotonic() - begun)


def hfprep_apart(*words: str | Path, timeout: float = 1500, **kwargs: Any) -> Ran:
    """Run the command line in a process of its own."""
    begun = time.monotonic()
    command = [sys.executable, "-m", "hfprep.cli", *(str(word) for word in words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, **kwargs)
    return Ran(done.returncode, done.stdout + done.stderr, time.monotonic() - begun)


# ---------------------------------------------------------------- the number strip
def read_codes(frames: np.ndarray) -> np.ndarray:
    """Frame numbers in pictures u8 (N,H,W,3): int64 (N,), -1 where the strip is not whole.

    The strip lies along the top quarter: 16 cells, white, black, 12 bits (high bit first), number of ones modulo 4 in 2 bits.
    """
    height, width = frames.shape[1:3]
    strip = frames[:, int(height * 0.06) : max(int(height * 0.06) + 1, int(height * 0.19))].mean(axis=(1, 3), dtype=np.float64)
    edges = np.linspace(0, width, 17)
    cells = np.empty((len(frames), 16))
    for i in range(16):
        quarter = (edges[i + 1] - edges[i]) / 4  # the middle half of a cell: its edges are blurred by coding and resizing
        first = int(edges[i] + quarter)
        cells[:, i] = strip[:, first : max(first + 1, int(np.ceil(edges[i + 1] - quarter)))].mean(axis=1)
    white, black = cells[:, 0], cells[:, 1]
    bits = cells > ((white + black) / 2)[:, None]
    code = bits[:, 2:14] @ (1 << np.arange(11, -1, -1))
    ones = bits[:, 2:14].sum(axis=1) % 4
    whole = (white - black > 64) & (ones == 2 * bits[:, 14] + bits[:, 15])
    return np.where(whole, code, -1)


# ---------------------------------------------------------------- the store, read back
@dataclass
class Window:
    """One stored window of a row."""

    split: str
    index: int
    ok: bool
    label: str
    codes: list[int]
    ticks: list[int]  # places on the row's grid
    clamped: list[bool]
    imu: np.ndarray | None
    imu_ok: np.ndarray | None


@dataclass
class Row:
    """All that a store holds, and all that a build said, about one manifest row."""

    row: int
    label: str = ""
    kind: str = ""
    told: str = ""
    windows: list[Window] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def good(self) -> list[Window]:
        return [w for w in self.windows if w.ok]

    def grid(self) -> dict[int, int]:
        """Place on the grid -> frame number, from all good windows."""
        return {tick: code for w in self.good for tick, code in zip(w.ticks, w.codes, strict=True)}

    def codes(self) -> list[int]:
        return [code for _, code in sorted(self.grid().items())]


class Got:
    """A built store as plain zarr shows it, with the text that the build printed."""

    def __init__(self, path: Path, ran: Ran, interval_ms: int | float | str) -> None:
        self.path, self.ran = path, ran
        self.interval = Fraction(str(interval_ms)) * 1_000_000
        self.group = zarr.open_group(str(path), mode="r")
        self.attrs = dict(self.group.attrs)
        self.classes: list[str] = list(self.attrs["classes"])
        self.axes: list[str] = list(self.attrs.get("axes") or [])
        self.clips = {name: np.asarray(self.group["clips"][name][:]) for name in CLIP_COLUMNS}
        self.rows: dict[int, Row] = {}
        for i, number in enumerate(self.clips["row"]):
            self._clip(i, int(number))
        for fault in self.attrs.get("faults", []):
            self._fault(fault)
        for split in SPLITS:
            if split in self.group:
                self._split(split)

    def row(self, number: int) -> Row:
        return self.rows.setdefault(number, Row(number))

    def _clip(self, i: int, number: int) -> None:
        row = self.row(number)
        row.label, row.kind = str(self.clips["label"][i]), str(self.clips["error_kind"][i])
        row.told += f"{self.clips['error'][i]}\n"

    def _fault(self, fault: dict[str, Any]) -> None:
        row = self.row(int(fault["row"]))
        row.told += f"row {fault['row']} (line {fault['line']}) {fault['video']}: {fault['message']}\n"
        row.kind = row.kind or ("" if fault.get("warning") else str(fault["kind"]))

    def _split(self, split: str) -> None:
        group = self.group[split]
        columns = (*WINDOW_COLUMNS, *(("imu", "imu_ok") if self.axes else ()))
        col = {name: np.asarray(group[name][:]) for name in columns}
        frames = group["frames"]
        for lo in range(0, frames.shape[0], 32):  # a shard at a time: a long clip's pictures need not fit in memory
            block = np.asarray(frames[lo : lo + 32])
            codes = read_codes(block.reshape(-1, *block.shape[2:])).reshape(block.shape[:2])
            for i, window_codes in enumerate(codes, lo):
                self._window(split, i, window_codes, col)

    def _window(self, split: str, i: int, codes: np.ndarray, col: dict[str, np.ndarray]) -> None:
        clip = int(col["clip"][i])
        row = self.row(int(self.clips["row"][clip]))
        ticks = []
        for time_ns in (int(t) - int(self.clips["start_ns"][clip]) for t in col["time_ns"][i]):
            tick = round(time_ns / self.interval)
            ticks.append(tick)
            if bool(col["ok"][i]) and time_ns != int(tick * self.interval):
                row.faults.append(f"{split}/{i}: {time_ns} ns after the start is not on the grid of {self.interval} ns")
        imu = (col["imu"][i], col["imu_ok"][i]) if "imu" in col else (None, None)
        label = self.classes[int(col["label"][i])]
        clamped = [bool(c) for c in col["clamped"][i]]
        row.windows.append(Window(split, i, bool(col["ok"][i]), label, [int(c) for c in codes], ticks, clamped, *imu))

    def picture(self, row: Row, tick: int) -> np.ndarray:
        """The stored picture at one place of a row's grid."""
        for w in row.good:
            if tick in w.ticks:
                return np.asarray(self.group[w.split]["frames"][w.index, w.ticks.index(tick)])
        raise KeyError(f"row {row.row} has no picture at tick {tick}")

    def said(self, row: Row, names: Sequence[str] = ()) -> str:
        """What the store's fault list, its clip table and the printed report say about one row."""
        keys = [rf"\brow {row.row}\b", *(re.escape(name) for name in names if name)]
        lines = [line for line in self.ran.text.splitlines() if any(re.search(key, line) for key in keys)]
        return row.told + "\n".join(lines)


def arrays_of(path: Path) -> dict[str, np.ndarray]:
    """Every array of a store, by its path: two stores of the same content give the same."""
    return dict(_arrays(zarr.open_group(str(path), mode="r"), ""))


def _arrays(group: zarr.Group, prefix: str) -> Iterator[tuple[str, np.ndarray]]:
    for name, member in group.members():
        if isinstance(member, zarr.Array):
            yield prefix + name, np.asarray(member[:])
        else:
            yield from _arrays(member, f"{prefix}{name}/")
