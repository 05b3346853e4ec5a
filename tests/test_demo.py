"""The drawn clips: what they promise, and that a build of them finds it again."""

from __future__ import annotations

import csv
import importlib.util
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import av
import numpy as np
import pytest

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
