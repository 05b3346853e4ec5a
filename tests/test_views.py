"""views: centres that move in stores of ticks, and sensor statistics of both layouts."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from storekit import make_store
from tickkit import STEP_NS, Ticks, make_ticks

import hfprep
from hfprep import views, windows
from hfprep.dataset import Batch, HyperframeDataset, loader
from hfprep.errors import UsageError

SIZE, MARGIN, LENGTHS = 6, 2, (40, 3, 25, 60, 7, 33)
BAD = ((2, 20), (2, 21), (2, 3), (5, 24))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Ticks:
    return make_ticks(tmp_path_factory.mktemp("views") / "t.zarr", LENGTHS, size=SIZE, margin=MARGIN, bad=BAD)


def dataset(made: Ticks, **more: Any) -> HyperframeDataset:
    return HyperframeDataset(made.path, "train", **more)


def everything(data: HyperframeDataset) -> Batch:
    return data.read(range(len(data)))


def shown(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """Clip (B,) and ticks (B,t) that the pixels of a batch say."""
    frames = batch["frames"].numpy()
    assert (frames == frames[..., :1, :1]).all() and (frames[:, :, 1].astype(int) + frames[:, :, 2] == 255).all()
    clips = frames[:, :, 0, 0, 0]
    assert (clips == clips[:, :1]).all()
    return clips[:, 0].astype(int), frames[:, :, 1, 0, 0].astype(int)


def checked(made: Ticks, batch: Batch, t: int, step: int) -> np.ndarray:
    """Centres (B,) of a batch, after all else in it was checked against what was written."""
    clips, ticks = shown(batch)
    centers = (batch["center_ns"].numpy() // STEP_NS).astype(int)
    wanted = centers[:, None] + (np.arange(t) - t // 2) * step
    lengths = np.array(made.lengths)[clips][:, None]
    assert np.array_equal(ticks, np.clip(wanted, 0, lengths - 1))
    assert np.array_equal(batch["clamped"].numpy(), (wanted < 0) | (wanted >= lengths))
    assert np.array_equal(batch["clip"].numpy(), clips)
    assert np.array_equal(batch["label"].numpy(), clips % 2)
    assert np.array_equal(batch["weight"].numpy(), 1.0 + clips % 2)
    first = np.cumsum([0, *made.lengths])[clips][:, None]
    assert made.ok[first + ticks].all()
    sensor = made.sensor[first + ticks]
    assert np.array_equal(batch["imu"].numpy(), np.nan_to_num(sensor))
    assert np.array_equal(batch["imu_ok"].numpy(), np.isfinite(sensor).all(axis=-1))
    return centers


def stored(made: Ticks, data: HyperframeDataset) -> np.ndarray:
    every = np.concatenate([made.centers[clip] for clip in range(len(made.lengths))])
    return every[data.rows]


def test_without_draws_windows_are_those_of_the_reader(made: Ticks) -> None:
    data = dataset(made, t=4, step=2)
    batch = everything(data)
    assert np.array_equal(checked(made, batch, 4, 2), stored(made, data))
    reader = hfprep.open_store(made.path)["train"]
    whole = reader.read(data.rows)
    ticks = MARGIN + SIZE // 2 + np.arange(-4, 4, 2)
    assert np.array_equal(batch["frames"].numpy(), whole["frames"][:, ticks].transpose(0, 1, 4, 2, 3))
    for name in ("clamped", "imu_ok"):
        assert np.array_equal(batch[name].numpy(), whole[name][:, ticks])
    assert np.array_equal(batch["center_ns"].numpy(), whole["center_ns"])
    assert 0 < len(data) < len(reader)  # some windows hold missing ticks


@pytest.mark.parametrize(("t", "step"), [(6, 1), (3, 2), (1, 1)])
def test_centres_shift_anywhere_in_the_clip(made: Ticks, t: int, step: int) -> None:
    data = dataset(made, t=t, step=step, jitter=100, seed=1)
    home = stored(made, data)
    clips, found = data.clips, []
    for epoch in range(120):
        data.set_epoch(epoch)
        found.append(checked(made, everything(data), t, step))
    centers = np.array(found)
    for clip in np.unique(clips):
        low, high = windows.allowed(LENGTHS[clip], SIZE, 0.25)
        here = centers[:, clips == clip]
        assert low <= here.min() and here.max() <= high
        if clip == 3:
            assert set(here.ravel().tolist()) == set(range(low, high + 1))  # 5 windows x 120 epochs reach every centre
    assert (centers != home).any(axis=0)[clips != 1].all()


def test_a_small_shift_stays_near(made: Ticks) -> None:
    data = dataset(made, t=3, jitter=3)
    home = stored(made, data)
    away = []
    for epoch in range(12):
        data.set_epoch(epoch)
        away.append(checked(made, everything(data), 3, 1) - home)
    assert {int(a) for a in np.unique(away)} == set(range(-3, 4))


def test_strides_are_drawn_by_clip_and_epoch(made: Ticks) -> None:
    data = dataset(made, stride=(2, 5), seed=7)
    strides: dict[int, set[int]] = {0: set(), 3: set()}
    for epoch in range(30):
        data.set_epoch(epoch)
        batch = everything(data)
        centers, clips = checked(made, batch, SIZE, 1), batch["clip"].numpy()
        assert np.array_equal(batch["row"].numpy(), data.rows) and len(centers) == len(data)
        for clip in (0, 1, 3, 4):  # no tick of these is missing
            here = centers[clips == clip].tolist()
            placed = {
                s: windows.place(LENGTHS[clip], made.centers[clip][0], size=SIZE, count=5, stride=s, max_clamped=0.25).tolist()
                for s in range(2, 6)
            }
            fits = [s for s, expected in placed.items() if expected == here]
            assert fits
            if clip in strides:
                strides[clip].update(fits)
    assert strides == {0: {2, 3, 4, 5}, 3: {2, 3, 4, 5}}


def test_windows_that_would_show_a_missing_tick_stay_where_they_are(made: Ticks) -> None:
    data = dataset(made, stride=(1, 6), jitter=2)
    home = stored(made, data)
    for clip in (2, 5):
        mine = np.flatnonzero(data.clips == clip)
        kept = 0
        for epoch in range(30):
            data.set_epoch(epoch)
            kept += int((checked(made, data.read(mine.tolist()), SIZE, 1) == home[mine]).sum())
        assert 0 < kept < 30 * len(mine)


def test_draws_are_the_same_whatever_the_order_and_the_workers(made: Ticks) -> None:
    data = dataset(made, t=3, stride=(1, 4), jitter=2, seed=5)
    data.set_epoch(3)
    whole = everything(data)
    again = dataset(made, t=3, stride=(1, 4), jitter=2, seed=5)
    again.set_epoch(3)
    for index in reversed(range(len(again))):
        assert torch.equal(again[index]["frames"], whole["frames"][index])
    travelled = pickle.loads(pickle.dumps(data))
    assert len(pickle.dumps(data)) < 20_000
    assert torch.equal(everything(travelled)["center_ns"], whole["center_ns"])
    for epoch in (3, 4):
        data.set_epoch(epoch)
        expected = everything(data)["center_ns"]
        data.set_epoch(epoch)
        rows = {int(row): int(ns) for batch in loader(data, 5, workers=2) for row, ns in zip(batch["row"], batch["center_ns"])}
        assert [rows[int(row)] for row in data.rows] == expected.tolist()
    other = dataset(made, t=3, stride=(1, 4), jitter=2, seed=6)
    other.set_epoch(3)
    assert not torch.equal(everything(other)["center_ns"], whole["center_ns"])


def test_what_a_store_cannot_give_is_said(made: Ticks, tmp_path: Path) -> None:
    whole = make_store(tmp_path / "w.zarr", n_clips=2)
    with pytest.raises(UsageError, match=r"stride = \(4, 8\): the store holds whole windows.*store.layout=frames"):
        HyperframeDataset(whole.path, "train", stride=(4, 8))
    for stride in ((0, 3), (4, 2), (3,)):
        with pytest.raises(UsageError, match="smallest and the largest"):
            dataset(made, stride=stride)
    covered = make_ticks(tmp_path / "c.zarr", (20, 20), placement="cover")
    with pytest.raises(UsageError, match="do not lie around hotspots"):
        dataset(covered, stride=(1, 2))
    assert len(dataset(covered, jitter=5)) == 10
    with pytest.raises(UsageError, match=r"reaches from frame -1 to 10; a window holds 0 to 9.*rewindow"):
        dataset(made, t=12)


def test_the_shard_of_each_window(made: Ticks, tmp_path: Path) -> None:
    data = dataset(made)
    first = np.cumsum([0, *LENGTHS])[data.clips]
    assert np.array_equal(data.shards, (first + stored(made, data)) // 16)
    whole = HyperframeDataset(make_store(tmp_path / "w.zarr", windows_per_shard=4, lost={0: ("damaged", "no")}).path, "train")
    assert np.array_equal(whole.shards, whole.rows // 4)


@pytest.mark.parametrize("block", [views.BLOCK, 7])
def test_sensor_statistics_are_of_what_training_shows(made: Ticks, tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "BLOCK", block)
    whole = make_store(tmp_path / "w.zarr", axes=("ax", "ay"), size=4, margin=1, lost={1: ("damaged", "no")})
    shown = {
        whole.path: whole.columns["train"]["imu"][whole.columns["train"]["ok"]][:, 1:5],
        made.path: hfprep.open_store(made.path)["train"].read(dataset(made).rows)["imu"][:, MARGIN : MARGIN + SIZE],
    }
    for path, rows in shown.items():
        values = rows.reshape(-1, 2).astype(np.float64)
        found = HyperframeDataset(path, "val").imu_stats()  # of train, whichever split asks
        assert np.isnan(values).any()
        assert np.allclose(found.mean, np.nanmean(values, axis=0), rtol=1e-12)
        assert np.allclose(found.std, np.nanstd(values, axis=0), rtol=1e-9)
        assert np.array_equal(found.known, (~np.isnan(values)).sum(axis=0))


def test_sensor_statistics_of_large_values_and_of_none(tmp_path: Path) -> None:
    made = make_ticks(tmp_path / "t.zarr", (2,), count=1, size=2, margin=0, axes=("a", "b", "c"))
    found = HyperframeDataset(made.path, "train").imu_stats()  # two ticks; a is unknown at tick 0, b at tick 1
    assert found.mean.tolist() == [1.0, 1000.0, 2000.5]
    assert found.std.tolist() == [0.0, 0.0, 0.5]
    empty = make_ticks(tmp_path / "e.zarr", (1,), count=1, size=1, margin=0, axes=("a",))
    found = HyperframeDataset(empty.path, "train").imu_stats()
    assert np.isnan(found.mean).all() and np.isnan(found.std).all() and found.known.tolist() == [0]
    assert HyperframeDataset(make_ticks(tmp_path / "n.zarr", (4,), axes=()).path, "train").imu_stats().mean.shape == (0,)
