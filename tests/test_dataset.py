"""dataset: the frames asked for and no others, whole batches, memory taken again only when it is free."""

from __future__ import annotations

import gc
import multiprocessing
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from storekit import Made, make_store

from hfprep.dataset import HyperframeDataset, loader
from hfprep.errors import StoreError, UsageError

SIZE, MARGIN = 6, 2
CENTRE = MARGIN + SIZE // 2


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    path = tmp_path_factory.mktemp("dataset") / "s.zarr"
    return make_store(path, n_clips=8, windows=5, size=SIZE, margin=MARGIN, axes=("ax", "ay"), lost={1: ("damaged", "no frame decodes")})


def stored(made: Made, rows: torch.Tensor, ticks: list[int]) -> np.ndarray:
    """(n,t,3,H,W) of what the test wrote."""
    return made.frames["train"][rows.numpy()][:, ticks].transpose(0, 1, 4, 2, 3)


def test_rows_that_are_not_ok_never_appear(made: Made) -> None:
    train = HyperframeDataset(made.path, "train")
    good = np.flatnonzero(made.columns["train"]["ok"])
    assert len(good) == made.layout.n_rows("train") - 5
    assert len(train) == len(good)
    batch = train.read(range(len(train)))
    assert batch["row"].tolist() == good.tolist()
    assert 1 not in batch["clip"]
    assert np.array_equal(train.labels, made.columns["train"]["label"][good])
    assert np.array_equal(train.clips, made.columns["train"]["clip"][good])


def test_a_batch_is_what_was_stored(made: Made) -> None:
    train = HyperframeDataset(made.path, "train")
    batch = train.read([7, 0, 7])
    rows, middle = batch["row"], list(range(MARGIN, MARGIN + SIZE))
    columns = {name: values[rows.numpy()] for name, values in made.columns["train"].items()}
    assert batch["frames"].dtype == torch.uint8
    assert batch["frames"].shape == (3, SIZE, 3, 16, 24)
    assert batch["frames"].flatten(0, 1).is_contiguous(memory_format=torch.channels_last)
    assert np.array_equal(batch["frames"], stored(made, rows, middle))
    assert np.array_equal(batch["clamped"], columns["clamped"][:, middle])
    assert np.array_equal(batch["center_ns"], columns["center_ns"])
    assert np.array_equal(batch["imu_ok"], columns["imu_ok"][:, middle])
    assert np.array_equal(batch["imu"], np.nan_to_num(columns["imu"], nan=0.0).astype(np.float32)[:, middle])
    assert (batch["label"].dtype, batch["weight"].dtype, batch["imu"].dtype) == (torch.int64, torch.float32, torch.float32)
    assert not batch["imu_ok"].all()
    item = train[7]
    assert set(item) == set(batch)
    assert torch.equal(item["frames"], batch["frames"][0])
    assert int(item["label"]) == int(batch["label"][0])


@pytest.mark.parametrize(
    ("t", "step", "ticks"), [(3, 1, [4, 5, 6]), (1, 1, [5]), (3, 2, [3, 5, 7]), (4, 2, [1, 3, 5, 7]), (10, 1, list(range(10)))]
)
def test_the_middle_frames_at_every_step(made: Made, t: int, step: int, ticks: list[int]) -> None:
    train = HyperframeDataset(made.path, "train", t=t, step=step)
    batch = train.read([1, 4])
    assert np.array_equal(batch["frames"], stored(made, batch["row"], ticks))
    assert np.array_equal(batch["clamped"], made.columns["train"]["clamped"][batch["row"].numpy()][:, ticks])
    assert np.array_equal(batch["center_ns"], made.columns["train"]["center_ns"][batch["row"].numpy()])


def test_centres_move_by_epoch_and_seed_only(made: Made) -> None:
    def shifts(train: HyperframeDataset) -> list[int]:
        batch = train.read(range(len(train)))
        found = []
        for row, frame, center in zip(batch["row"], batch["frames"][:, 0], batch["center_ns"]):
            (tick,) = [s for s in range(made.layout.length) if np.array_equal(frame, made.frames["train"][row, s].transpose(2, 0, 1))][:1]
            assert int(center) == int(made.columns["train"]["time_ns"][row, tick])
            found.append(int(tick))
        return found

    train = HyperframeDataset(made.path, "train", t=1, jitter=2, seed=3)
    first = shifts(train)
    train.set_epoch(1)
    second = shifts(train)
    train.set_epoch(0)
    assert shifts(train) == first != second
    assert shifts(HyperframeDataset(made.path, "train", t=1, jitter=2, seed=4)) != first
    assert min(first + second) >= 0
    assert max(first + second) <= CENTRE + 2
    assert len(set(first)) > 2


@pytest.mark.parametrize(("t", "step", "jitter"), [(7, 1, 2), (4, 3, 0), (11, 1, 0), (0, 1, 0), (3, 0, 0), (3, 1, -1), (1, 1, 6)])
def test_what_the_stored_ticks_cannot_give_is_refused(made: Made, t: int, step: int, jitter: int) -> None:
    with pytest.raises(UsageError, match=f"t = {t}, step = {step}, jitter = {jitter} .*0 to 9, centred on 5"):
        HyperframeDataset(made.path, "train", t=t, step=step, jitter=jitter)


def test_splits_and_stores_that_are_not_there(made: Made, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="train, val, test"):
        HyperframeDataset(made.path, "dev")
    with pytest.raises(StoreError, match="no such store"):
        HyperframeDataset(tmp_path / "none.zarr", "train")


def test_memory_of_a_batch_is_taken_again_only_when_nothing_refers_to_it(made: Made) -> None:
    train = HyperframeDataset(made.path, "train", t=3)
    first = train.read([0, 1, 2])
    place, corner = first["frames"].data_ptr(), first["frames"][1, 2]
    before = corner.clone()
    del first
    second = train.read([3, 4, 5])
    assert second["frames"].data_ptr() != place  # `corner` still lies in the first batch
    assert torch.equal(corner, before)
    array = second["frames"].numpy()[0]
    kept, place = array.copy(), second["frames"].data_ptr()
    del second, corner
    gc.collect()
    third = train.read([6, 7, 8])
    assert third["frames"].data_ptr() != place  # an array is a reference, too
    assert np.array_equal(array, kept)
    del array, third
    places = set()
    for start in range(8):
        places.add(train.read([start, start + 1])["frames"].data_ptr())
    assert len(places) == 1


def test_batches_that_all_live_do_not_share_memory(made: Made) -> None:
    train = HyperframeDataset(made.path, "train", t=1)
    batches = [train.read([index]) for index in range(len(train))]
    assert len({batch["frames"].data_ptr() for batch in batches}) == len(train)
    for batch in batches:
        assert np.array_equal(batch["frames"], stored(made, batch["row"], [CENTRE]))


@pytest.mark.parametrize("workers", [0, 2])
def test_the_loader_gives_every_window_once_an_epoch(made: Made, workers: int) -> None:
    train = HyperframeDataset(made.path, "train", t=3, jitter=1)
    batches = loader(train, batch=4, seed=5, workers=workers)
    orders = []
    for epoch in range(2):
        train.set_epoch(epoch)
        seen = list(batches)  # all kept: memory that was taken again too early would show
        orders.append(torch.cat([batch["row"] for batch in seen]).tolist())
        for batch in seen:
            alone = train.read(np.searchsorted(train.rows, batch["row"].numpy()).tolist())
            assert torch.equal(batch["frames"], alone["frames"])  # workers that live on know the epoch
            assert batch["frames"].flatten(0, 1).is_contiguous(memory_format=torch.channels_last)
    assert sorted(orders[0]) == sorted(orders[1]) == train.rows.tolist()
    assert orders[0] != orders[1]
    train.set_epoch(0)
    assert next(iter(loader(train, batch=len(train), seed=5)))["row"].tolist() == orders[0]


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # on a machine of two cores
@pytest.mark.parametrize("start", ["fork", "forkserver", pytest.param("spawn", marks=pytest.mark.long)])  # four times the import of torch
def test_four_workers_however_they_are_started(made: Made, start: str) -> None:
    if start == "forkserver":
        multiprocessing.set_forkserver_preload(["hfprep.dataset"])  # torch is imported once and not by each worker
    train = HyperframeDataset(made.path, "train", t=3)
    train.read([0, 5])  # maps and columns are open already when the workers start
    batches = list(loader(train, batch=2, workers=4, start=start))
    assert sorted(torch.cat([batch["row"] for batch in batches]).tolist()) == train.rows.tolist()
    for batch in batches:
        assert np.array_equal(batch["frames"], stored(made, batch["row"], [4, 5, 6]))


def test_only_train_is_shuffled_by_itself(made: Made) -> None:
    val = HyperframeDataset(made.path, "val")
    assert torch.cat([batch["row"] for batch in loader(val, batch=2)]).tolist() == val.rows.tolist()
    picked = loader(HyperframeDataset(made.path, "train"), batch=2, sampler=[3, 1])  # type: ignore[arg-type]
    assert [batch["row"].tolist() for batch in picked] == [HyperframeDataset(made.path, "train").rows[[3, 1]].tolist()]


def test_a_dataset_travels_small(made: Made) -> None:
    train = HyperframeDataset(made.path, "train", t=3)
    train.read(range(8))
    packed = pickle.dumps(train)
    assert len(packed) < 20_000
    assert torch.equal(pickle.loads(packed)[2]["frames"], train[2]["frames"])


def test_without_torch_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\nimport hfprep.errors as e\ntry: import hfprep.dataset\nexcept e.UsageError as f: print(f)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'hfprep[train]'" in done.stdout


def test_a_plain_dataloader_gives_the_same_items(tmp_path: Path) -> None:
    made = make_store(tmp_path / "s.zarr")
    train = HyperframeDataset(made.path, "train")
    plain = list(torch.utils.data.DataLoader(train, batch_size=3))
    ours = list(loader(train, batch=3, shuffle=False))
    assert len(plain) == len(ours)
    for a, b in zip(plain, ours):
        assert a.keys() == b.keys()
        assert all(torch.equal(a[name], b[name]) for name in a)
