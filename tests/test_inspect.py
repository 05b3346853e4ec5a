"""`hfprep inspect`: facts against what the test itself wrote, words that fit, faults in one line."""

from __future__ import annotations

import json
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from storekit import FPS, Made, make_store

from hfprep.cli.inspect import inspect
from hfprep.errors import HfprepError, StoreError, UsageError
from hfprep.report import facts, words
from hfprep.report.command import build_command

N_TICKS, CLIPS, WINDOWS = 10, 12, 3
LOST = {3: ("damaged", "12 of 30 frames do not decode")}
PARTIAL = {5: ("truncated", "the file is cut")}
MISSING = {"row": 13, "line": 14, "video": "/videos/gone.mp4", "kind": "missing_file", "message": "no such file", "warning": False}
NOTE = {"row": 1, "line": 2, "video": "/videos/v000.mp4", "kind": "note", "message": "25 frames/s assumed", "warning": True}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    path = tmp_path_factory.mktemp("inspect") / "a.zarr"
    return make_store(
        path, n_clips=CLIPS, windows=WINDOWS, n_ticks=N_TICKS, axes=("ax", "gx"), lost=LOST, partial=PARTIAL, faults=[MISSING, NOTE]
    )


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory: pytest.TempPathFactory) -> Made:
    path = tmp_path_factory.mktemp("inspect") / "half done.zarr"
    return make_store(path, unwritten=[("train", 1), ("val", 0)], interval_ms="1001/30")


@pytest.fixture(scope="module")
def found(made: Made) -> dict[str, Any]:
    return facts.facts(made.path)


def run(*args: object) -> Result:
    return CliRunner().invoke(inspect, [str(a) for a in args], standalone_mode=False)


def good(made: Made, split: str) -> np.ndarray[Any, Any]:
    return made.columns[split]["ok"]


def test_splits_and_classes(made: Made, found: dict[str, Any]) -> None:
    for split in ("train", "val", "test"):
        ok, clip, label = good(made, split), made.columns[split]["clip"], made.columns[split]["label"]
        told = found["splits"][split]
        assert (told["windows"], told["lost_windows"]) == (ok.sum(), (~ok).sum())
        assert told["clips"] == len(set(clip[ok].tolist()))
        assert told["shards"] == -(-len(ok) // 4)
        for number, row in enumerate(found["classes"]):
            assert row["windows"][split] == (ok & (label == number)).sum()
            assert row["clips"][split] == len(set(clip[ok & (label == number)].tolist()))
    assert [row["label"] for row in found["classes"]] == made.attrs["classes"]
    assert [row["weight"] for row in found["classes"]] == made.attrs["class_weight"]
    train = [k for k in range(CLIPS) if made.clips["split"][k] == "train"]
    before = [sum(WINDOWS - 1 for k in train if k % 2 == number) for number in (0, 1)]
    assert [row["unbalanced_train_windows"] for row in found["classes"]] == before
    assert found["splits"]["train"]["lost_windows"] == 4  # three of the lost clip, one of the partial one


def test_layout_says_the_span_beside_k(found: dict[str, Any]) -> None:
    layout = found["layout"]
    assert (layout["size"], layout["margin"], layout["stored_ticks"]) == (4, 1, 6)
    assert (layout["interval_ms"], layout["span_s"], layout["stored_span_s"]) == (100.0, 0.3, 0.5)  # 3 and 5 steps of 0.1 s
    assert layout["window_bytes"] == 6 * 16 * 24 * 3


def test_sizes(made: Made, found: dict[str, Any]) -> None:
    on_disk = sum(file.stat().st_size for file in made.path.rglob("*") if file.is_file())
    raw = sum(frames.nbytes for frames in made.frames.values())
    assert found["sizes"] == {"stored_bytes": on_disk, "raw_bytes": raw, "ratio": on_disk / raw}


def test_sources(found: dict[str, Any]) -> None:
    told = found["sources"]
    assert (told["fps_min"], told["fps_max"]) == (min(FPS), max(FPS))
    assert {rate["fps"]: rate["clips"] for rate in told["fps"]} == dict.fromkeys(FPS, CLIPS // 3)
    assert told["vfr_clips"] == sum(k % 4 == 3 for k in range(CLIPS))
    assert told["rotated_clips"] == 1
    assert {c["codec"]: c["clips"] for c in told["codecs"]} == {"h264": 6, "mpeg4": 6}
    assert told["sizes"] == [{"width": 320, "height": 240, "clips": CLIPS}]


def test_clamped_counts_the_window_without_its_margin(made: Made, found: dict[str, Any]) -> None:
    inner = np.concatenate([made.columns[s]["clamped"][good(made, s)][:, 1:-1] for s in ("train", "val", "test")])
    everything = np.concatenate([made.columns[s]["clamped"][good(made, s)] for s in ("train", "val", "test")])
    assert inner.mean() != everything.mean()  # else the test could not tell
    assert found["clamped"] == {"share": pytest.approx(inner.mean()), "windows": inner.any(axis=1).sum()}


def test_repeats_and_hotspots(made: Made, found: dict[str, Any]) -> None:
    shares = [outcome.repeated_share for outcome in made.outcomes]
    assert found["repeated"] == {"share": pytest.approx(np.mean(shares)), "clips": sum(s > 0.05 for s in shares), "highest": max(shares)}
    scores = sorted(outcome.hotspot_score for outcome in made.outcomes)
    told = found["hotspots"]
    assert told["clips"] == CLIPS
    assert (told["quartiles"][0], told["quartiles"][-1]) == (scores[0], scores[-1])
    assert told["quartiles"][2] == pytest.approx((scores[5] + scores[6]) / 2)


def test_sensors(made: Made, found: dict[str, Any]) -> None:
    ok = np.concatenate([made.columns[s]["imu_ok"][good(made, s)] for s in ("train", "val", "test")])
    share = pytest.approx((~ok).mean())
    assert 0 < (~ok).mean() < 1
    told = {name: found["sensors"][name] for name in ("axes", "masked_share")}
    assert told == {"axes": [{"axis": a, "unit": "", "masked_share": share} for a in ("ax", "gx")], "masked_share": share}


def test_rows_that_are_not_in_the_store(found: dict[str, Any]) -> None:
    damaged = {"row": 4, "line": 5, "video": "/videos/v003.mp4", "kind": "damaged", "reason": LOST[3][1]}
    gone = {"row": 13, "line": 14, "video": "/videos/gone.mp4", "kind": "missing_file", "reason": "no such file"}
    assert found["quarantine"] == [damaged, gone]
    assert found["partial"] == [{"row": 6, "line": 7, "video": "/videos/v005.mp4", "kind": "truncated", "reason": PARTIAL[5][1]}]
    assert [note["reason"] for note in found["notes"]] == ["25 frames/s assumed"]


def test_json_is_complete_and_plain(made: Made, found: dict[str, Any]) -> None:
    result = run(made.path, "--json")
    assert json.loads(result.stdout) == found
    assert list(found) == [
        "store", "status", "format_version", "manifest", "fingerprint", "versions", "pipeline", "layout", "sizes", "splits", "classes",
        "labels", "sources", "loss", "clamped", "repeated", "hotspots", "sensors", "quarantine", "partial", "notes",
    ]  # fmt: skip
    assert result.return_value == 0
    assert found["versions"] == made.attrs["versions"]
    assert found["fingerprint"] == made.attrs["fingerprint"]


def test_words_fit_80_columns_and_lines_of_rows_stay_whole(made: Made) -> None:
    text = run(made.path).stdout
    assert "row 4 (line 5) /videos/v003.mp4: 12 of 30 frames do not decode [damaged]" in text
    assert "row 6 (line 7) /videos/v005.mp4: the file is cut [truncated]" in text
    assert "4 frames, 100 ms apart: 0.3 s from first to last" in text
    assert all(len(line) <= 80 for line in text.splitlines() if "row " not in line and str(made.path) not in line)
    assert not any(line != line.rstrip() for line in text.splitlines())
    assert "\x1b" not in text


def test_many_quarantined_rows_are_cut_unless_asked_for(tmp_path: Path) -> None:
    faults = [{**MISSING, "row": row, "line": row + 1} for row in range(100, 130)]
    path = make_store(tmp_path / "s.zarr", n_clips=2, splits=("train",), faults=faults).path
    short, long = run(path).stdout, run(path, "-v").stdout
    assert "and 10 more" in short
    assert [f"row {row} (" in short for row in (100, 119, 120, 129)] == [True, True, False, False]
    assert "row 129 (" in long and "more (" not in long
    assert "no windows in val and test" in short


def test_labels_of_any_kind_do_not_break_the_table(tmp_path: Path) -> None:
    path = make_store(
        tmp_path / "s.zarr", classes=("[bold]x[/bold]", "a very long label " * 8, "跳\n高"), n_clips=3, splits=("train",)
    ).path
    text = run(path).stdout
    assert "[bold]x[/bold]" in text and "…" in text and "跳 高" in text


def test_an_empty_store_is_told(tmp_path: Path) -> None:
    path = make_store(tmp_path / "s.zarr", n_clips=1, splits=("train",), lost={0: ("damaged", "nothing decodes")}).path
    result = run(path)
    assert result.return_value == 0
    assert "0 windows of 0 clips" in result.stdout and "no windows in train and val and test" in result.stdout


def test_unfinished_says_how_far_and_what_goes_on(unfinished: Made) -> None:
    result = run(unfinished.path)
    assert result.return_value == 1
    total = len(unfinished.layout.shards())
    assert f"not finished, {total - 2} of {total} shards are written" in result.stdout
    told = json.loads(run(unfinished.path, "--json").stdout)
    assert told["status"] == "building"
    assert told["shards"]["train"] == {"written": unfinished.layout.n_shards("train") - 1, "total": unfinished.layout.n_shards("train")}
    assert told["shards"]["val"] == {"written": unfinished.layout.n_shards("val") - 1, "total": unfinished.layout.n_shards("val")}
    assert told["command"] in result.stdout
    command = shlex.split(told["command"])
    assert command[:5] == ["hfprep", "build", "drawn.csv", "-o", str(unfinished.path)]
    assert {"frame.interval_ms=1001/30", "window.size=4", "store.windows_per_shard=4"} <= set(command)
    assert not any(word.startswith("window.per_clip") for word in command)  # at its default


def test_the_named_command_makes_the_same_recipe(unfinished: Made) -> None:
    from hfprep import pipeline

    words_ = shlex.split(build_command(unfinished.attrs, unfinished.path))
    overrides = tuple(value for option, value in pairwise(words_) if option == "--set")
    assert pipeline.load(None, overrides).model_dump(mode="json") == unfinished.attrs["pipeline"]


def test_what_is_no_store_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file.zarr").write_text("x")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.txt").write_text("x")
    for name in ("nothing.zarr", "file.zarr", "other"):
        fault = run(tmp_path / name).exception
        assert isinstance(fault, StoreError) and fault.kind == "not_a_store" and fault.exit_code == 1
        assert name in str(fault) and "\n" not in str(fault)


@pytest.mark.parametrize("name", ["train:999999", "train:-1", "foo:1", "train", "train:x", "train:", ":1", "12"])
def test_bad_windows_say_which_there_are(made: Made, name: str) -> None:
    fault = run(made.path, "--window", name).exception
    assert isinstance(fault, UsageError) and fault.exit_code == 2
    last = made.layout.n_rows("train") - 1
    assert f"train:0 to train:{last}" in str(fault) and repr(name) in str(fault)


def test_image_needs_a_window(made: Made, tmp_path: Path) -> None:
    fault = run(made.path, "--image", tmp_path / "a.png").exception
    assert isinstance(fault, HfprepError) and fault.exit_code == 2 and "--window" in str(fault)


def test_window_frame_by_frame(made: Made) -> None:
    split, rows = made.rows_of(1)
    name = f"{split}:{rows[-1]}"
    told = json.loads(run(made.path, "--window", name, "--json").stdout)
    columns = {key: values[rows[-1]] for key, values in made.columns[split].items()}
    assert [f["time_ns"] for f in told["frames"]] == columns["time_ns"].tolist()
    assert [f["source_ns"] for f in told["frames"]] == columns["source_ns"].tolist()
    assert [f["clamped"] for f in told["frames"]] == columns["clamped"].tolist()
    assert [f["margin"] for f in told["frames"]] == [True, False, False, False, False, True]
    assert [f["centre"] for f in told["frames"]] == [False, False, False, True, False, False]  # margin 1, then size // 2 = 2
    assert [f["imu"]["gx"] for f in told["frames"]] == pytest.approx(columns["imu"][:, 1])
    assert "right" in told["title"] and "clip001" in told["title"] and name in told["title"]
    text = run(made.path, "--window", name).stdout
    assert "clamped" in text and f"{columns['source_ns'][2] / 1e6:.3f}" in text


def test_a_window_that_is_not_used_says_why(made: Made) -> None:
    split, rows = made.rows_of(3)
    text = run(made.path, "--window", f"{split}:{rows[0]}").stdout
    assert "not used: 12 of 30 frames do not decode" in text


def test_unknown_sensor_values_are_null(made: Made) -> None:
    split, rows = made.rows_of(0)
    told = json.loads(run(made.path, "--window", f"{split}:{rows[0]}", "--json").stdout)
    assert told["frames"][0]["imu"] == {"ax": None, "gx": None}


@pytest.mark.parametrize(("n", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (12_345_678, "12.3 MB"), (5 * 10**15, "5e+03 TB")])
def test_sizes_in_words(n: int, text: str) -> None:
    assert words.size(n) == text


def test_spans_of_rows() -> None:
    assert words.spans([5]) == "row 5"
    assert words.spans([3, 1, 2, 9]) == "rows 1-3, 9"
    assert words.spans(range(0, 100, 2)).endswith(", ...")
