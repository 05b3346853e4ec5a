"""Batches of worker processes in shared memory that is lent and given back."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
from storekit import Made, make_store

from hfprep import buffers
from hfprep.buffers import SLABS, Slabs
from hfprep.dataset import HyperframeDataset, loader
from hfprep.passes import Loader


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make_store(tmp_path_factory.mktemp("buffers") / "s.zarr")


def slabs_of(batches: Loader) -> Slabs:
    found = batches.worker_init_fn.__self__  # type: ignore[union-attr]
    assert isinstance(found, Slabs)
    return found


def lent(batches: Loader) -> int:
    gc.collect()
    return int(slabs_of(batches)._lent.sum())


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_held_batches_keep_their_pixels_and_dropped_ones_give_their_memory_back(made: Made, start: str) -> None:
    data = HyperframeDataset(made.path, "train", jitter=1)
    batches = loader(data, batch=2, workers=2, start=start)
    held = [batch for _ in range(4) for batch in batches]  # far more than there are pieces of memory
    assert len(held) > 2 * SLABS
    for epoch in range(4):
        data.set_epoch(epoch)
        for batch in held[epoch * len(batches) :][: len(batches)]:
            known = {int(row): k for k, row in enumerate(data.rows)}
            expected = data.read([known[int(row)] for row in batch["row"]])
            assert torch.equal(batch["frames"], expected["frames"])
            assert batch["frames"].stride() == expected["frames"].stride()
    assert 0 < lent(batches) <= 2 * SLABS
    kept = held[0]["frames"][0, 0]  # a part of a batch keeps it, as it does in every tensor
    before = kept.clone()
    del held, batch
    assert lent(batches) <= 1
    for _ in batches:
        pass
    assert torch.equal(kept, before)


def test_batches_that_nobody_fetches_give_their_memory_back(made: Made) -> None:
    batches = loader(HyperframeDataset(made.path, "train"), batch=1, workers=2)
    for _ in range(3 * SLABS):
        for _batch in batches:
            break  # others are on their way
        del _batch
    for _batch in batches:
        pass
    del _batch
    assert lent(batches) == 0


def test_a_batch_that_failed_gives_its_memory_back() -> None:
    slabs = Slabs(1, 100)
    tensor = slabs.borrow(0, 60)
    assert tensor is not None and int(slabs._lent.sum()) == 1
    del tensor
    assert int(slabs._lent.sum()) == 0


def test_pieces_do_not_overlap_and_none_is_lent_twice() -> None:
    slabs = Slabs(2, 100)
    taken = [slabs.borrow(worker, 100) for worker in (0, 1) for _ in range(SLABS)]
    assert slabs.borrow(0, 100) is None and slabs.borrow(1, 1) is None  # all lent
    for number, tensor in enumerate(taken):
        assert tensor is not None
        tensor.fill_(number)
    assert [int(tensor.sum()) for tensor in taken if tensor is not None] == [100 * number for number in range(2 * SLABS)]
    assert Slabs(1, 100).borrow(0, buffers.PAGE + 1) is None  # larger than a piece: new memory is made


def test_a_batch_travels_as_its_place(made: Made) -> None:
    slabs = Slabs(1, 1000)
    tensor = slabs.borrow(0, 24)
    assert tensor is not None
    tensor.copy_(torch.arange(24, dtype=torch.uint8))
    turned = tensor.view(2, 3, 4).permute(0, 2, 1)
    on_its_way = slabs.sent(turned)
    assert on_its_way is not None
    expected = turned.numpy().copy()
    del tensor, turned
    assert int(slabs._lent.sum()) == 1  # lent until the receiver drops it
    function, arguments = on_its_way.__reduce__()
    arrived = function(*arguments)  # type: ignore[operator, misc]
    assert np.array_equal(arrived.numpy(), expected)
    del arrived
    gc.collect()
    assert int(slabs._lent.sum()) == 0


def test_where_shared_memory_is_short_nothing_is_lent(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Slabs, "fit", staticmethod(lambda workers, size: False))
    data = HyperframeDataset(made.path, "train")
    batches = loader(data, batch=2, workers=1)
    assert batches.worker_init_fn is None
    assert sorted(int(row) for batch in batches for row in batch["row"]) == data.rows.tolist()
