"""samplers: every row as often as promised, over all ranks and after a resume; ranks in step; the promise of each sampler."""

from __future__ import annotations

import doctest
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch.distributed
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from hfprep import samplers
from hfprep.errors import UsageError
from hfprep.samplers import Batches, Clips, Plain, Shards, Weighted

few = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])  # few rows cannot serve many ranks
columns = st.lists(st.integers(0, 6), min_size=1, max_size=60)  # the class, clip or shard of each row
ranks = st.integers(1, 4)
batches = st.integers(1, 7)
Make = Callable[..., Batches]


def makers(column: list[int], batch: int) -> dict[str, Make]:
    """Every sampler over these rows."""
    ordered = sorted(column)
    return {
        "plain": lambda **k: Plain(len(column), batch, **k),
        "in order": lambda **k: Plain(len(column), batch, shuffle=False, **k),
        "weighted": lambda **k: Weighted(column, batch, **k),
        "shards": lambda **k: Shards(ordered, batch, open=2, **k),
        "clips": lambda **k: Clips(column, 2 * batch, per_clip=2, **k),
    }


NAMES = list(makers([0], 1))
ONCE = ["plain", "in order", "shards"]


def epoch_of(make: Make, world: int, epoch: int = 0, **more: Any) -> list[list[list[int]]]:
    """The batches of each rank."""
    found = []
    for rank in range(world):
        sampler = make(rank=rank, world_size=world, seed=3, **more)
        sampler.set_epoch(epoch)
        found.append(list(sampler))
        assert len(found[-1]) == len(sampler)
    return found


def made(make: Make, world: int, **more: Any) -> list[list[list[int]]]:
    try:
        return epoch_of(make, world, **more)
    except UsageError as fault:
        assert fault.kind == "too_few"
        assume(False)
        raise


def test_examples_of_the_docstrings() -> None:
    assert doctest.testmod(samplers).failed == 0


@few
@given(columns, batches, ranks, st.sampled_from(ONCE), st.sampled_from(["share", "keep"]))
def test_every_row_exactly_once_over_all_ranks(column: list[int], batch: int, world: int, name: str, ends: str) -> None:
    found = made(makers(column, batch)[name], world, ends=ends)
    assert sorted(row for rank in found for rows in rank for row in rows) == list(range(len(column)))
    assert all(1 <= len(rows) <= batch for rank in found for rows in rank)
    counts = [len(rank) for rank in found]
    assert max(counts) - min(counts) <= (0 if ends == "share" else 1)
    if ends == "share":
        for step in zip(*found, strict=True):
            sizes = [len(rows) for rows in step]
            assert max(sizes) - min(sizes) <= 1


@few
@given(columns, batches, ranks, st.sampled_from(NAMES))
def test_dropping_leaves_full_batches_the_same_number_on_each_rank(column: list[int], batch: int, world: int, name: str) -> None:
    found = made(makers(column, batch)[name], world, ends="drop")
    width = batch * (2 if name == "clips" else 1)
    assert {len(rows) for rank in found for rows in rank} == {width}
    assert len({len(rank) for rank in found}) == 1
    if name in ONCE:
        seen = Counter(row for rank in found for rows in rank for row in rows)
        assert set(seen.values()) == {1}
        assert len(column) - len(seen) < batch * world


def test_what_is_refused() -> None:
    """Where the rule cannot be kept it says so: nothing is repeated or left out in silence."""
    with pytest.raises(UsageError, match="3 windows in batches of 2 cannot give 4 ranks the same number"):
        Plain(3, 2, rank=0, world_size=4)
    with pytest.raises(UsageError, match="7 windows in batches of 1"):
        Plain(7, 1, rank=0, world_size=2)
    with pytest.raises(UsageError, match="3 windows fill no batch of 4"):
        Plain(3, 4, ends="drop")
    with pytest.raises(UsageError, match="5 groups of 2 windows for 6 batches on 3 ranks"):
        Clips([0] * 8 + [1] * 2, 4, per_clip=2, rank=0, world_size=3)
    for bad in ({"batch": 0}, {"batch": 2, "ends": "wrap"}, {"batch": 2, "rank": 2, "world_size": 2}, {"batch": 2, "rank": 0}):
        with pytest.raises(UsageError):
            Plain(9, **bad)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="batch of 6 in 4 windows a clip"):
        Clips([0, 1], 6, per_clip=4)
    assert list(Plain(0, 4)) == list(Weighted([], 4)) == list(Shards([], 4)) == list(Clips([], 4)) == []


@few
@given(columns, batches, ranks, st.sampled_from(NAMES), st.integers(0, 3))
def test_the_order_depends_on_seed_and_epoch_alone(column: list[int], batch: int, world: int, name: str, epoch: int) -> None:
    make = makers(column, batch)[name]
    assert made(make, world, epoch=epoch) == made(make, world, epoch=epoch)


def test_epochs_and_seeds_differ() -> None:
    for name, make in makers(list(range(7)) * 9, 4).items():
        orders = [list(make(seed=seed)) for seed in (0, 1)] + [epoch_of(make, 1, epoch)[0] for epoch in (0, 1)]
        different = {str(order) for order in orders}
        assert len(different) == (1 if name == "in order" else 4), name


@few
@given(columns, batches, ranks, st.sampled_from(NAMES), st.data())
def test_a_resumed_pass_gives_the_rest(column: list[int], batch: int, world: int, name: str, data: st.DataObject) -> None:
    make = makers(column, batch)[name]
    whole = made(make, world, epoch=2)[world - 1]
    taken = data.draw(st.integers(0, len(whole)))
    first = make(rank=world - 1, world_size=world, seed=3)
    first.set_epoch(2)
    found = [rows for _, rows in zip(range(taken), first)]
    state = first.state_dict()
    assert state["done"] == taken
    second = make(rank=world - 1, world_size=world, seed=3)
    second.load_state_dict(state)
    assert second.state_dict() == (state if taken < len(whole) else {**state, "epoch": 3, "done": 0})
    second.set_epoch(second.epoch)  # as a training loop does that sets every epoch
    rest = list(second)
    assert found + rest == whole if taken < len(whole) else rest == epoch_of(make, world, epoch=3)[world - 1]
    assert len(list(second)) == len(whole)  # only the resumed pass is shorter


def test_a_state_serves_every_rank_and_no_other_order() -> None:
    one, other = (Plain(40, 4, rank=rank, world_size=2) for rank in (0, 1))
    for _ in zip(range(3), one):
        pass
    other.load_state_dict(one.state_dict())
    assert list(other) == list(Plain(40, 4, rank=1, world_size=2))[3:]
    for wrong in (Plain(41, 4), Plain(40, 5), Plain(40, 4), Plain(40, 4, rank=0, world_size=2, shuffle=False), Weighted([0] * 40, 4)):
        with pytest.raises(UsageError, match="another order"):
            wrong.load_state_dict(one.state_dict())
    with pytest.raises(UsageError, match="world_size 2, here 1"):
        Plain(40, 4).load_state_dict(one.state_dict())


def test_ranks_together_see_what_one_process_sees() -> None:
    alone, both = epoch_of(lambda **k: Plain(60, 12, **k), 1)[0], epoch_of(lambda **k: Plain(60, 4, **k), 3)
    assert [[row for rank in both for row in rank[step]] for step in range(5)] == alone


@few
@given(columns, batches, ranks, st.integers(1, 80))
def test_classes_come_in_equal_numbers(labels: list[int], batch: int, world: int, draws: int) -> None:
    found = made(lambda **k: Weighted(labels, batch, draws=draws, **k), world)
    rows = [row for rank in found for part in rank for row in part]
    assert len(rows) == draws
    by_class = Counter(labels[row] for row in rows)
    shares = [by_class[label] for label in set(labels)]
    assert max(shares) - min(shares) <= 1
    seen = Counter(rows)
    for label in set(labels):  # each row of a class comes before any comes again
        times = [seen[row] for row in range(len(labels)) if labels[row] == label]
        assert max(times) - min(times) <= 1


def test_the_power_of_weights() -> None:
    labels = [0] * 16 + [1] * 4

    def shares(power: float) -> list[int]:
        return [sum(labels[row] == label for rows in Weighted(labels, 5, draws=30, power=power) for row in rows) for label in (0, 1)]

    assert shares(1) == [15, 15]
    assert shares(0.5) == [20, 10]  # as 4 to 2
    assert shares(0) == [24, 6]


@few
@given(columns, st.integers(1, 3), st.integers(1, 3), ranks, st.sampled_from(["share", "drop", "keep"]))
def test_windows_of_different_clips(clips: list[int], per_clip: int, many: int, world: int, ends: str) -> None:
    found = made(lambda **k: Clips(clips, per_clip * many, per_clip=per_clip, **k), world, ends=ends)
    groups: Counter[int] = Counter()
    for rank in found:
        for rows in rank:
            parts = np.array(rows).reshape(-1, per_clip)
            owners = [{clips[row] for row in part} for part in parts.tolist()]
            assert all(len(owner) == 1 for owner in owners)
            each = [owner.pop() for owner in owners]
            assert len(set(each)) == len(each) <= many
            groups.update(each)
            for part, clip in zip(parts.tolist(), each):
                if clips.count(clip) >= per_clip:
                    assert len(set(part)) == per_clip
    if ends != "drop":
        assert groups == {clip: max(1, clips.count(clip) // per_clip) for clip in set(clips)}
        seen = Counter(row for rank in found for rows in rank for row in rows)
        assert all(times == 1 for row, times in seen.items() if clips.count(clips[row]) >= per_clip)
    if ends == "share":
        assert len({len(rank) for rank in found}) == 1
        sizes = [len(rows) for rank in found for rows in rank]
        assert max(sizes) - min(sizes) <= per_clip


@few
@given(columns, batches, st.integers(1, 3), st.integers(1, 3), st.integers(0, 4))
def test_few_shards_are_open_at_a_time(shards: list[int], batch: int, few_open: int, world: int, epoch: int) -> None:
    found = made(lambda **k: Shards(shards, batch, open=few_open, **k), world, epoch=epoch)
    readers: Counter[int] = Counter()
    for rank in found:
        order = [shards[row] for rows in rank for row in rows]
        for position in range(len(order)):  # shards begun and not yet finished
            assert len(set(order[: position + 1]) & set(order[position:])) <= few_open
        readers.update(set(order))
    assert sum(readers.values()) <= len(readers) + world - 1  # each cut between two ranks goes through at most one shard


def test_shards_and_their_rows_are_shuffled() -> None:
    shards = np.repeat(np.arange(8), 8)
    order = np.array([row for rows in Shards(shards, 8, open=2) for row in rows])
    first = list(dict.fromkeys(shards[order].tolist()))
    assert first != sorted(first)
    block = shards[order[:16]]
    assert len(set(block.tolist())) == 2
    assert np.count_nonzero(np.diff(block)) > 3  # rows of the two shards are mixed


def test_rank_and_world_size_come_from_torch_distributed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 2)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 3)
    sampler = Plain(31, 5)
    assert (sampler.rank, sampler.world_size) == (2, 3)
    assert list(sampler) == list(Plain(31, 5, rank=2, world_size=3))
    assert Plain(31, 5, rank=0, world_size=1).world_size == 1
