"""The drawn clips: what they promise, and that a build of them finds it again."""

from __future__ import annotations

import csv
import importlib.util
import os
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import av
import numpy as np
import pytest

from hfprep.reader import Store, open_store

MANIFESTS = Path(__file__).resolve().parent.parent / "manifests"


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw", MANIFESTS / "draw.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["draw"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


draw = _script()
DEMO = {d.name: d for d in draw.demo_set()}


def manifest_rows() -> list[dict[str, str]]:
    with (MANIFESTS / "demo.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def upright(path: Path) -> tuple[np.ndarray, list[float]]:
    """All pictures of a file as they are to be seen, and their times in seconds."""
    with av.open(str(path)) as container:
        frames = list(container.decode(video=0))
    turns = round(frames[0].rotation / 90) % 4
    return np.stack([np.rot90(f.to_ndarray(format="rgb24"), turns) for f in frames]), [float(f.time) for f in frames]


def test_bundled_manifest_is_what_the_script_draws() -> None:
    rows = manifest_rows()
    assert [row["id"] for row in rows] == list(DEMO)
    for row in rows:
        d = DEMO[row["id"]]
        assert (row["label"], row["split"], int(row["imu_offset_ms"])) == (d.label, d.split, d.offset_ms)
        assert row["group"] == row["id"]
        assert (MANIFESTS / row["video"]).is_file()
        assert (MANIFESTS / row["imu"]).is_file()
    files = [*(MANIFESTS / "clips").iterdir()]
    assert len(files) == 2 * len(rows)
    assert sum(file.stat().st_size for file in files) < 300_000


def test_demo_holds_one_of_each_oddity() -> None:
    demo = list(DEMO.values())
    assert {d.fps for d in demo} == set(draw.RATES)
    assert [sum(getattr(d, odd) for d in demo) for odd in ("variable", "rotated", "sensor_gap")] == [1, 1, 1]
    assert sorted(d.seconds for d in demo)[0] < 1.5 < sorted(d.seconds for d in demo)[1]  # a default window spans 1.5 s
    counts = Counter(d.label for d in demo)
    assert max(counts.values()) >= 3 * min(counts.values())
    assert {(d.label, d.split) for d in demo} == {(label, split) for label in draw.DIRECTIONS for split in ("train", "val", "test")}


@pytest.mark.parametrize("name", list(DEMO))
def test_bundled_clips_show_what_was_drawn(name: str) -> None:
    d = DEMO[name]
    shown, times = upright(MANIFESTS / "clips" / f"{name}.mp4")
    stamps, unit = draw.frame_times(d)
    assert times == pytest.approx([float(s * unit) for s in stamps], abs=1e-4)
    drawn = np.stack(list(draw.pictures(d, [s * unit for s in stamps])))
    assert shown.shape == drawn.shape
    wrong = np.abs(shown.astype(int) - drawn).mean(axis=(1, 2, 3))
    assert wrong.max() < 6  # H.264 at crf 25; a shape half its size away gives 15 and more


@pytest.mark.parametrize("odd", ["plain", "variable", "rotated"])
def test_same_seed_same_bytes(tmp_path: Path, odd: str) -> None:
    d = draw.draw_one("x", "up", "train", (5, 1), seconds=0.4, **({} if odd == "plain" else {odd: True}))
    for name in ("a.mp4", "b.mp4"):
        draw.write_video(d, tmp_path / name)
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()
    other = draw.draw_one("x", "up", "train", (6, 1), seconds=0.4)
    draw.write_video(other, tmp_path / "c.mp4")
    assert (tmp_path / "c.mp4").read_bytes() != (tmp_path / "a.mp4").read_bytes()


def test_rotated_file_is_stored_on_its_side(tmp_path: Path) -> None:
    name = next(n for n, d in DEMO.items() if d.rotated)
    with av.open(str(MANIFESTS / "clips" / f"{name}.mp4")) as container:
        frame = next(container.decode(video=0))
    assert (frame.width, frame.height) == (DEMO[name].height, DEMO[name].width)
    assert abs(round(frame.rotation)) == 90


@pytest.fixture(scope="module")
def many() -> list[Any]:
    return draw.large_set(2000)


@pytest.mark.parametrize("moment", [0.0, 0.7, 2.0])
def test_one_frame_says_nothing_about_the_class(many: list[Any], moment: float) -> None:
    """The places of a class at one moment are spread evenly over the picture: no circular mean (Rayleigh), on either axis."""
    for label in draw.DIRECTIONS:
        places = np.array([draw.place_at(d, moment) for d in many if d.label == label])
        assert len(places) == 500
        for turns in (1, 2):  # once and twice around the joined edges
            length = np.abs(np.exp(2j * np.pi * turns * places).mean(axis=0))
            assert (length < 0.14).all()  # 500 even places exceed this with probability exp(-500 x 0.14^2) = 6e-5


@pytest.mark.parametrize("name", list(DEMO))
def test_two_frames_tell_the_class(name: str) -> None:
    d = DEMO[name]
    for t in np.arange(0, d.seconds - 0.1, 0.05):
        a, b = np.array(draw.place_at(d, t)), np.array(draw.place_at(d, t + 0.1))
        step = (b - a + 0.5) % 1 - 0.5
        direction = np.array(draw.DIRECTIONS[d.label])
        assert 0.02 < step @ direction < 0.4  # well under half a picture: never the other way round
        assert abs(step @ direction[::-1]) < 1e-9


def test_sensor_rows_are_the_acceleration_on_a_shifted_clock(tmp_path: Path) -> None:
    d = next(d for d in DEMO.values() if d.offset_ms == 250)
    draw.write_sensor(d, tmp_path / "imu.csv")
    table = np.loadtxt(tmp_path / "imu.csv", delimiter=",", skiprows=1)
    video_s = table[:, 0] + d.offset_ms / 1000
    assert video_s[0] <= 0
    assert video_s[-1] >= d.seconds
    h = 1e-4
    second = (draw.path_at(d, video_s + h) - 2 * draw.path_at(d, video_s) + draw.path_at(d, video_s - h)) / h**2
    expected = second[:, None] * np.array(draw.DIRECTIONS[d.label])
    assert np.abs(expected).max() > 3
    assert table[:, 1:] == pytest.approx(expected, abs=0.02)


def test_larger_set_is_even() -> None:
    drawings = draw.large_set(240)
    assert len({d.name for d in drawings}) == 240
    per_class = Counter((d.label, d.split) for d in drawings)
    for label in draw.DIRECTIONS:
        assert [per_class[label, split] for split in ("train", "val", "test")] == [37, 8, 15]
    assert any(d.variable for d in drawings)
    assert any(d.rotated for d in drawings)
    assert draw.large_set(240) == drawings
    assert draw.large_set(240, seed=1) != drawings


def test_script_writes_a_set(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["draw.py", str(tmp_path / "set"), "--clips", "4"])
    draw.main()
    assert "4 clips" in capsys.readouterr().out
    with (tmp_path / "set" / "demo.csv").open(newline="") as file:
        assert [row["label"] for row in csv.DictReader(file)] == list(draw.DIRECTIONS)


# One build of the demo through the command line, against the truth that the script knows.

STRETCHED = 64  # pixels a side: the whole picture, so that places are fractions of it
SIZE = 6


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("demo")
    keys = {"frame.height": STRETCHED, "frame.width": STRETCHED, "frame.fit": "stretch", "window.size": SIZE, "window.per_clip": 4}
    keys |= {"window.margin": 0, "window.max_clamped": 0, "balance.method": "none"}
    recipe = [part for key, value in keys.items() for part in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "hfprep", "build", str(MANIFESTS / "demo.csv"), "-o", str(folder / "demo.zarr"), *recipe]
    env = {**os.environ, "HFPREP_CACHE": str(folder / "cache")}
    done = subprocess.run(command, cwd=MANIFESTS.parent, env=env, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return open_store(folder / "demo.zarr")


def stored_windows(store: Store) -> list[tuple[Any, dict[str, Any]]]:
    """(drawing, window) of every window: frames, source_ns, imu, imu_ok."""
    ids = [str(name) for name in store.clips["id"]]
    found = []
    for split in store.splits:
        columns = store[split].columns
        for row in range(len(store[split])):
            assert columns["ok"][row]
            window = {name: columns[name][row] for name in ("source_ns", "time_ns", "imu", "imu_ok", "label")}
            found.append((DEMO[ids[columns["clip"][row]]], window | {"frames": store[split].read([row])["frames"][0]}))
    return found


def test_built_demo_shows_the_right_moments(built: Store) -> None:
    """Every stored picture is the drawn one of its source time: rotation, frame choice and time stamps are right."""
    seen = set()
    for d, window in stored_windows(built):
        assert built.classes[window["label"]] == d.label
        stamps, unit = draw.frame_times(d)
        times = [int(s * unit * 10**9) for s in stamps]
        for k in (0, SIZE - 1):
            source = int(window["source_ns"][k])
            shown = max(t for t in times if t <= window["time_ns"][k])
            assert abs(source - shown) <= 100_000  # MP4 keeps time stamps in units of the track, not in our fractions
            drawn = next(iter(draw.pictures(d, [Fraction(source, 10**9)])))
            ys = (np.arange(STRETCHED) * 2 + 1) * d.height // (2 * STRETCHED)
            xs = (np.arange(STRETCHED) * 2 + 1) * d.width // (2 * STRETCHED)
            assert np.abs(drawn[ys][:, xs].astype(int) - window["frames"][k]).mean() < 8
        seen.add(d.name)
    assert seen == set(DEMO)


def test_built_demo_finds_the_quick_move(built: Store) -> None:
    clips = built.clips
    train = [i for i, split in enumerate(clips["split"]) if split == "train"]
    assert len(train) == 16
    for i in train:
        d = DEMO[str(clips["id"][i])]
        low, high = SIZE / 20, d.seconds - SIZE / 20  # centres of whole windows
        assert clips["hotspot_ns"][i] / 1e9 == pytest.approx(min(max(d.burst_s, low), high), abs=0.25), d.name


def test_built_demo_has_the_sensor_rows_of_its_frames(built: Store) -> None:
    """Offsets undone: stored values are the shape's acceleration at the shown frame's time, or marked as unknown."""
    largest = 0.0
    unknown = set()
    for d, window in stored_windows(built):
        seconds = window["source_ns"] / 1e9
        row_s, values = draw.sensor_rows(d)  # times on the video's clock: the offset undone
        truth = np.stack([np.interp(seconds, row_s, axis) for axis in values.T], axis=1)
        ok = window["imu_ok"]
        assert np.isnan(window["imu"][~ok]).all()
        assert window["imu"][ok] == pytest.approx(truth[ok], abs=0.006)  # values are written with four digits
        largest = max(largest, float(np.abs(truth[ok]).max(initial=0)))
        if not ok.all():
            unknown.add(d.name)
    assert largest > 8
    assert unknown == {d.name for d in DEMO.values() if d.sensor_gap}
