"""The bundled trainer: networks, scores, checkpoints, and whole runs through the command line on tiny stores."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from storekit import make_store

from hfprep.cli import main
from hfprep.errors import HfprepError, UsageError
from hfprep.trainer import checkpoint, metrics, models, options, train


def small(form: str, t: int) -> torch.nn.Module:
    torch.manual_seed(0)
    return models.build(options.Model(width=8, features=16), form, 3, t).eval()


def test_a_stack_of_equal_frames_gives_what_one_frame_gives() -> None:
    torch.manual_seed(1)
    network = models.SmallBackbone(8).eval()
    frame = torch.randn(2, 3, 32, 32)
    alone = network(frame)
    models.inflate(network, 5)
    stacked = network(frame.repeat(1, 5, 1, 1))
    assert torch.allclose(stacked, alone, atol=1e-5)
    first = next(m for m in network.modules() if isinstance(m, torch.nn.Conv2d))
    right = first(frame.repeat(1, 5, 1, 1))
    with torch.no_grad():
        first.weight.mul_(5)  # as without the division by T: that layer's answer is T times too large
    assert torch.allclose(first(frame.repeat(1, 5, 1, 1)), 5 * right, atol=1e-4)


@pytest.mark.parametrize("form", ["sequence", "stacked", "frame"])
def test_every_form_gives_a_logit_a_class(form: str) -> None:
    t = 1 if form == "frame" else 5
    frames = torch.randn(2, t, 3, 32, 32)
    network = small(form, t)
    x = frames if form == "sequence" else frames.flatten(1, 2)
    assert network(x).shape == (2, 3)


def test_sequence_sees_the_order_of_frames() -> None:
    frames = torch.randn(1, 6, 3, 32, 32)
    network = small("sequence", 6)
    assert not torch.allclose(network(frames), network(frames.flip(1)), atol=1e-4)


def test_scores_are_those_of_clips() -> None:
    # clip 7: two windows, one wrong but weak; clip 9: wrong
    logits = np.array([[2.0, 0.0], [0.4, 0.5], [0.0, 3.0]], np.float32)
    told = metrics.score(logits, np.array([0, 0, 0]), np.array([7, 7, 9]), 0.5)
    assert told.clips == 2 and told.accuracy == 0.5


def test_a_checkpoint_comes_back_and_a_strange_one_is_refused(tmp_path: Path) -> None:
    one, other = small("frame", 1), small("frame", 1)
    with torch.no_grad():
        for weight in other.parameters():
            weight.add_(1)
    checkpoint.save(tmp_path / "c.safetensors", one, {"epoch": 3})
    assert checkpoint.load(tmp_path / "c.safetensors", other)["epoch"] == 3
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values()))
    wide = models.build(options.Model(width=16, features=16), "frame", 3, 1)
    with pytest.raises(HfprepError):
        checkpoint.load(tmp_path / "c.safetensors", wide)


def test_learning_rate_warms_up_and_falls() -> None:
    rates = [train.learning_rate(step, 100, 0.1) for step in range(100)]
    assert rates[0] < rates[5] < rates[9] <= 1.0 and max(rates) == pytest.approx(1.0, abs=0.02)
    assert all(a >= b for a, b in pairwise(rates[12:])) and rates[-1] < 0.01


def run(*args: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(args))
    assert isinstance(ended.value.code, int)
    return ended.value.code


QUICK = ["--set", "model.width=8", "--set", "model.features=16", "--set", "train.batch=8", "--seed", "1"]


@pytest.mark.parametrize("form", ["sequence", "stacked"])
def test_motion_is_learnt_through_the_command_line(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = make_store(tmp_path / "s.zarr", n_clips=18, windows=4, size=32, margin=0)
    assert run("train", str(store.path), "-o", str(tmp_path / "run"), "--form", form, "--epochs", "8", *QUICK) == 0
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    epochs = [r["loss"] for r in records if r["kind"] == "epoch"]
    assert len(epochs) == 8 and epochs[-1] < epochs[0]
    assert [r["clips"] > 0 for r in records if r["kind"] == "test"] == [True]
    assert "accuracy" in capsys.readouterr().out
    told = json.loads((tmp_path / "run" / "config.json").read_text())
    assert told["options"]["form"] == form


def test_same_seed_same_run(tmp_path: Path) -> None:
    store = make_store(tmp_path / "s.zarr", n_clips=6)
    for name in ("a", "b"):
        assert run("train", str(store.path), "-o", str(tmp_path / name), "--form", "frame", "--epochs", "2", *QUICK) == 0
    steps = [
        [json.loads(line)["loss"] for line in (tmp_path / n / "metrics.jsonl").read_text().splitlines() if '"step"' in line] for n in "ab"
    ]
    assert steps[0] == steps[1] and len(steps[0]) > 1
    assert (tmp_path / "a" / "last.safetensors").read_bytes() == (tmp_path / "b" / "last.safetensors").read_bytes()


def test_bad_wishes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = make_store(tmp_path / "s.zarr", n_clips=6)
    out = str(tmp_path / "run")
    assert run("train", str(tmp_path / "none.zarr"), "-o", out) == 1
    assert run("train", str(store.path), "-o", out, "--set", "train.epoch=3") == 2
    assert "train.epochs" in capsys.readouterr().err
    assert run("train", str(store.path), "-o", out, "--form", "stacked", "--set", "model.t=4") == 2
    with pytest.raises(UsageError):
        options.frames_taken(options.Model(t=4), "stacked", 16)
