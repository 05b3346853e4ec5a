"""passes: the DataLoader that counts what it hands out, resumes with other workers, and leaves nothing behind."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from storekit import Made, make_store
from tickkit import Ticks, make_ticks
from torch.utils.data import DistributedSampler, RandomSampler

from hfprep import samplers
from hfprep.dataset import HyperframeDataset, loader
from hfprep.errors import UsageError
from hfprep.passes import Loader

Seen = list[tuple[list[int], list[int]]]  # rows and centres of each batch


@pytest.fixture(scope="module")
def ticks(tmp_path_factory: pytest.TempPathFactory) -> Ticks:
    return make_ticks(tmp_path_factory.mktemp("passes") / "t.zarr", (30, 20, 25, 30, 20, 40), count=6)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make_store(tmp_path_factory.mktemp("passes") / "w.zarr", n_clips=8, windows=5, height=64, width=64, size=6)


def opened(ticks: Ticks, **more: Any) -> Loader:
    return loader(HyperframeDataset(ticks.path, "train", t=2, stride=(1, 3), jitter=2, seed=4), 4, seed=9, **more)


def passed(batches: Loader, most: int = 1000) -> Seen:
    found = []
    for batch in batches:
        found.append((batch["row"].tolist(), batch["center_ns"].tolist()))
        if len(found) == most:
            break
    return found


@pytest.mark.parametrize("sampler", [None, "weighted", "clips", "shards"])
@pytest.mark.parametrize(("before", "after"), [(0, 0), (2, 0), (0, 2)])
def test_a_pass_goes_on_with_another_number_of_workers(ticks: Ticks, sampler: Any, before: int, after: int) -> None:
    more = {"sampler": sampler, "per_clip": 2}
    first = opened(ticks, workers=before, **more)
    whole = [passed(first), passed(first)]  # two epochs
    first = opened(ticks, workers=before, **more)
    passed(first)
    begun = passed(first, most=3)
    assert begun == whole[1][:3]
    state = first.state_dict()
    assert (state["epoch"], state["done"]) == (1, 3)  # though workers were asked for more
    second = opened(ticks, workers=after, **more)
    second.load_state_dict(state)
    assert second.state_dict() == state
    assert second.epoch == 1
    assert passed(second) == whole[1][3:]
    assert second.state_dict()["done"] == len(second) == len(whole[1])
    second.load_state_dict(second.state_dict())  # nothing is left of that epoch: the next one comes
    assert second.epoch == 2
    third = opened(ticks, **more)
    third.set_epoch(2)
    assert passed(second) == passed(third)


@pytest.mark.parametrize("workers", [0, 2])
def test_the_state_counts_what_was_handed_out(ticks: Ticks, workers: int) -> None:
    batches = opened(ticks, workers=workers)
    assert batches.state_dict()["done"] == 0
    for number, _ in enumerate(batches, 1):
        assert batches.state_dict()["done"] == number
    assert number == len(batches)


def test_a_pass_is_the_epoch_that_was_set_or_the_next(ticks: Ticks) -> None:
    batches = opened(ticks)
    epochs = [passed(batches) for _ in range(3)]
    assert len({str(epoch) for epoch in epochs}) == 3
    batches.set_epoch(1)
    assert passed(batches) == epochs[1]
    assert passed(batches) == epochs[2]
    for _ in range(2):
        batches.dataset.set_epoch(0)  # the dataset's own word is heard, too
        assert passed(batches) == epochs[0]
    assert passed(batches, most=2) == epochs[1][:2]
    assert passed(batches) == epochs[2]  # a pass that was left is over


def test_ranks_share_an_epoch(ticks: Ticks) -> None:
    parts = [passed(opened(ticks, rank=rank, world_size=3, workers=2 * (rank == 1))) for rank in range(3)]
    rows = [row for part in parts for batch, _ in part for row in batch]
    assert sorted(rows) == HyperframeDataset(ticks.path, "train").rows.tolist()
    assert len({len(part) for part in parts}) == 1


def test_named_samplers_keep_their_promise_in_the_loader(ticks: Ticks) -> None:
    data = HyperframeDataset(ticks.path, "train", t=1)
    for batch in loader(data, 6, sampler="clips", per_clip=3, drop_last=True):
        assert batch["clip"].view(2, 3).unique(dim=1).shape == (2, 1)
        assert batch["clip"][0] != batch["clip"][3]
    labels = torch.cat([batch["label"] for batch in loader(data, 5, sampler="weighted")])
    assert abs(int((labels == 0).sum()) - int((labels == 1).sum())) <= 1
    order = data.shards[torch.cat([batch["row"] for batch in loader(data, 5, sampler="shards")]).numpy()]
    assert sorted(order.tolist()) == sorted(data.shards.tolist()) != order.tolist()
    own = samplers.Weighted(data.labels, 5, draws=7)
    assert [len(batch["row"]) for batch in loader(data, 16, sampler=own)] == [5, 2]
    with pytest.raises(UsageError, match=r"no sampler 'best'.*weighted, clips or shards"):
        loader(data, sampler="best")  # type: ignore[arg-type]
    assert [len(batch["row"]) for batch in loader(data, 8, drop_last=True)] == [8] * (len(data) // 8)


def test_samplers_of_torch_work_but_cannot_be_resumed(ticks: Ticks) -> None:
    data = HyperframeDataset(ticks.path, "train", t=1)
    foreign = loader(data, 5, sampler=RandomSampler(data))
    assert sorted(row for rows, _ in passed(foreign) for row in rows) == data.rows.tolist()
    for call in (foreign.state_dict, lambda: foreign.load_state_dict({})):
        with pytest.raises(UsageError, match="cannot say where it is"):
            call()
    theirs = DistributedSampler(data, num_replicas=2, rank=0, seed=1)
    shared = loader(data, 5, sampler=theirs)
    assert passed(shared) != passed(shared)  # it is told the epoch
    assert theirs.epoch == data.epoch


@pytest.mark.parametrize("workers", [0, 2])
def test_nothing_is_left_behind(ticks: Ticks, workers: int) -> None:
    threads, children = set(threading.enumerate()), set(multiprocessing.active_children())
    batches = opened(ticks, workers=workers)
    passed(batches)
    passed(batches, most=2)  # left in the middle
    del batches
    gc.collect()
    limit = time.monotonic() + 10
    while time.monotonic() < limit and (set(threading.enumerate()) - threads or set(multiprocessing.active_children()) - children):
        time.sleep(0.05)
    assert set(threading.enumerate()) <= threads
    assert set(multiprocessing.active_children()) <= children


ROLLUP = Path("/proc/self/smaps_rollup")


def occupied() -> float:
    """Memory of this process and its workers in MB, what they share counted once. Mapped files do not count: how much of torch's
    libraries a process is charged depends on who else on the machine has them mapped."""
    total = 0
    for process in (os.getpid(), *(child.pid for child in multiprocessing.active_children())):
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        total += sum(int(line.split()[1]) for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
    return total / 1024


@pytest.mark.skipif(not ROLLUP.exists() or "Pss_Anon" not in ROLLUP.read_text(), reason="this system does not tell a process's memory")
@pytest.mark.parametrize(
    ("workers", "number"),
    [(0, 300), (2, 120), *(pytest.param(workers, 10_000, marks=pytest.mark.long) for workers in (0, 2))],
)
def test_memory_does_not_grow(made: Made, ticks: Ticks, workers: int, number: int) -> None:
    """120 batches that stayed would be 35 MB; in 10,000 batches 10 MB are one KB a batch."""
    sets = [HyperframeDataset(made.path, "train", jitter=1), HyperframeDataset(ticks.path, "train", jitter=2, stride=(1, 3))]
    for data in sets[: 1 if workers else 2]:
        batches = loader(data, 4, workers=workers)
        before, count = 0.0, 0
        while count < number + 30:
            for _ in batches:
                count += 1
                if count == 30:  # all has been used once
                    gc.collect()
                    before = occupied()
        gc.collect()
        assert occupied() - before < 10
        del batches
