"""Advice about interval and window size, from lengths and rates that the tests know."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import drawn
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hfprep import advise
from hfprep.pipeline import load
from hfprep.planned import BuildOptions

SMALL = ("frame.height=16", "frame.width=16", "window.margin=0", "split.val=0", "split.test=0")


def manifest(folder: Path, rows: list[str]) -> Path:
    path = folder / "m.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 s at 25 frames a second."""
    path = tmp_path_factory.mktemp("advise") / "v.mp4"
    drawn.write(path, drawn.steady(500, 40))
    return path


def test_annotated_actions_decide_interval_and_size(video: Path, tmp_path: Path) -> None:
    """Actions of 0.4 to 1.3 s: at 40 ms the shortest last 10 ticks, at 100 ms 4, too few; 32 frames of 40 ms span 1.24 s."""
    rows = [f"{video},a,{k},{k + 0.4 + 0.1 * k}" for k in range(10)]
    path = manifest(tmp_path, ["video,label,start,end", *rows])
    got, planned = advise.advise(path, load(None, SMALL), BuildOptions(jobs=1, cache=tmp_path / "cache"))
    assert planned.faults == () and got.annotated
    assert np.allclose(got.lengths_ms, 400 + 100 * np.arange(10))
    assert got.best.interval_ms in (40, 50) and got.best.size * got.best.interval_ms >= 1000
    assert got.best.covered == np.mean(got.lengths_ms <= (got.best.size - 1) * got.best.interval_ms)
    assert [c.interval_ms for c in got.choices] == [40, 50, 100, 200, 400]
    assert all(c.repeated < 0.01 for c in got.choices)  # 25 frames a second: one every 40 ms
    assert got.rates.tolist() == [25.0] * 10


def test_without_annotation_clips_count_and_slow_sources_bound_the_interval(tmp_path: Path) -> None:
    """5 frames a second: below 200 ms the grid would show each frame again."""
    drawn.write(tmp_path / "slow.mp4", drawn.steady(30, 200))
    got, _ = advise.advise(manifest(tmp_path, ["video,label", "slow.mp4,a"]), load(None, SMALL), BuildOptions(jobs=1, cache=tmp_path / "c"))
    assert not got.annotated and got.best.interval_ms >= 200
    assert [round(c.repeated, 1) for c in got.choices] == [0.8, 0.8, 0.5, 0.0, 0.0]
    assert any("200 ms" in reason for reason in got.reasons)


def test_bytes_are_those_of_a_plan(video: Path, tmp_path: Path) -> None:
    path = manifest(tmp_path, ["video,label", f"{video},a"])
    got, _ = advise.advise(path, load(None, SMALL), BuildOptions(jobs=1, cache=tmp_path / "c"))
    for choice in got.choices:
        assert choice.bytes_windows == choice.windows * choice.size * 16 * 16 * 3
        assert choice.bytes_frames == (int(499 * 40 // choice.interval_ms) + 1) * 16 * 16 * 3


@settings(max_examples=50, deadline=None)
@given(lengths=st.lists(st.floats(1, 1e6), min_size=1, max_size=30), interval=st.sampled_from([10.0, 40.0, 100.0, 400.0]))
def test_the_size_is_the_smallest_that_holds_enough(lengths: list[float], interval: float) -> None:
    size = advise._size(np.sort(np.array(lengths)), interval)
    assert size in advise.SIZES
    smaller = [s for s in advise.SIZES if s < size]
    assert all((s - 1) * interval < np.quantile(lengths, advise.ENOUGH) for s in smaller)


def test_the_command(video: Path, tmp_path: Path) -> None:
    path = manifest(tmp_path, ["video,label", f"{video},a", "gone.mp4,a"])
    run = [sys.executable, "-m", "hfprep", "advise", str(path)]
    shown = subprocess.run(run, capture_output=True, text=True, check=False)
    assert shown.returncode == 3 and "gone.mp4" in shown.stderr
    assert "hfprep build" in shown.stdout and " * " in shown.stdout and "advised (*)" in shown.stdout
    told = json.loads(subprocess.run([*run, "--json"], capture_output=True, text=True, check=False).stdout)
    assert told["command"] in shown.stdout and told["actions"] == 1 and len(told["choices"]) == 5
    nothing = manifest(tmp_path, ["video,label", "gone.mp4,a"])
    empty = subprocess.run([*run[:-1], str(nothing), "--json"], capture_output=True, text=True, check=False)
    assert empty.returncode == 1 and json.loads(empty.stdout)["choices"] == []
