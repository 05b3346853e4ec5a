"""Every row of a store, planned before any pixel: splits, counts, order, shards, blocks."""

from __future__ import annotations

import dataclasses
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hfprep import plan, windows
from hfprep.pipeline import Split as Shares
from hfprep.pipeline import check
from hfprep.records import SPLITS, Clip

CLASSES = ("jump", "run", "walk")


def clip(i: int, label: str = "run", **given: object) -> Clip:
    row = {"row": i + 1, "line": i + 2, "id": f"c{i}", "video": f"/data/v{i}.mp4", "label": label, "group": f"v{i}.mp4", **given}
    return Clip(**row)  # type: ignore[arg-type]


def made(clips: list[Clip], n_ticks: list[int] | int = 60, table: dict[str, object] | None = None) -> plan.Plan:
    ticks = np.full(len(clips), n_ticks, dtype=np.int64) if isinstance(n_ticks, int) else np.array(n_ticks, dtype=np.int64)
    return plan.make(clips, CLASSES, ticks, check(table or {}))


def many(n: int, **given: object) -> list[Clip]:
    """Clips of three classes, one of them rare."""
    return [clip(i, CLASSES[(0, 1, 1, 1, 1, 2, 2)[i % 7]], **given) for i in range(n)]


ROWS = st.lists(st.tuples(st.sampled_from(CLASSES), st.sampled_from(("", *SPLITS)), st.integers(0, 90)), min_size=1, max_size=60)
TABLES = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 3),
        "window": st.fixed_dictionaries(
            {
                "size": st.integers(1, 20),
                "per_clip": st.integers(1, 12),
                "placement": st.sampled_from(["hotspot", "cover"]),
                "eval": st.sampled_from(["quartiles", "cover", "hotspot"]),
            }
        ),
        "balance": st.fixed_dictionaries({"method": st.sampled_from(["none", "sqrt", "full"])}),
        "store": st.fixed_dictionaries({"windows_per_shard": st.integers(1, 40)}),
    }
)


@settings(max_examples=30, deadline=None)
@given(rows=ROWS, table=TABLES, per_block=st.integers(1, 6))
def test_pieces_cover_every_row_once_in_order(rows: list[tuple[str, str, int]], table: dict[str, object], per_block: int) -> None:
    clips = [clip(i, label, split=split) for i, (label, split, _) in enumerate(rows)]
    p = made(clips, [n for *_, n in rows], table)
    per_shard = p.layout.windows_per_shard
    covered = {split: [] for split in SPLITS}  # type: dict[str, list[tuple[int, int]]]
    for shard in p.shards:
        n = sum(piece.count for piece in shard.pieces)
        assert shard.index == len(covered[shard.split]) // per_shard and all(piece.count > 0 for piece in shard.pieces)
        assert n == per_shard or shard.index == p.layout.n_shards(shard.split) - 1
        for piece in shard.pieces:
            assert p.splits[piece.clip] == shard.split
            covered[shard.split] += [(piece.clip, piece.first + i) for i in range(piece.count)]
    for split in SPLITS:
        got = covered[split]
        assert len(got) == p.layout.n_rows(split)
        order = list(dict.fromkeys(k for k, _ in got))
        assert got == [(k, i) for k in order for i in range(int(p.counts[k]))], "rows of a clip together, in order"
        assert sorted(order) == [k for k in range(len(clips)) if p.splits[k] == split and p.counts[k]]
    assert [s.split for s in p.shards] == sorted((s.split for s in p.shards), key=SPLITS.index)
    blocks = p.blocks(per_block)
    assert [s for b in blocks for s in b.shards] == list(p.shards)
    assert all(1 <= len(b.shards) <= per_block and len({s.split for s in b.shards}) == 1 for b in blocks)


@settings(max_examples=30, deadline=None)
@given(rows=ROWS, table=TABLES)
def test_counts(rows: list[tuple[str, str, int]], table: dict[str, object]) -> None:
    p = made([clip(i, label, split=split) for i, (label, split, _) in enumerate(rows)], [n for *_, n in rows], table)
    window = p.pipeline.window
    for k, (label, given_split, n) in enumerate(rows):
        split = p.splits[k]
        assert split == given_split or not given_split
        assert [p.classes[n] for n in p.members.label[p.members.clip == k]] == [label]
        assert p.base_counts[k] == windows.base_count(n, window, split)
        assert p.base_counts[k] <= p.counts[k] <= windows.capacity(n, window, split)
        if split != "train" or window.placement == "cover" or p.pipeline.balance.method == "none":
            assert p.counts[k] == p.base_counts[k], "only training windows around hotspots are balanced"
        if n == 0:
            assert p.counts[k] == 0


def test_rare_classes_get_more_in_train_only() -> None:
    clips = [clip(i, "run", split=split) for i, split in enumerate(["train"] * 4 + ["val"] * 4)]
    clips += [clip(8, "walk", split="train"), clip(9, "walk", split="val")]
    p = made(clips, 100)
    assert p.counts.tolist() == [8, 8, 8, 8, 3, 3, 3, 3, 32, 3]
    assert p.class_weight.tolist() == [0, 1, 1]
    assert made(clips, 100, {"balance": {"method": "none"}}).class_weight.tolist() == [0, 0.625, 2.5]


def test_summary() -> None:
    clips = [clip(0, "run", split="train"), clip(1, "run", split="train"), clip(2, "walk", split="train"), clip(3, "walk", split="test")]
    p = made([*clips, clip(4, "jump", split="val")], [100, 100, 100, 100, 0], {"frame": {"height": 32, "width": 64}})
    told = p.summary()
    assert told.clips.tolist() == [[0, 2, 1], [1, 0, 0], [0, 0, 1]]
    assert told.before.tolist() == [[0, 16, 8], [0, 0, 0], [0, 0, 3]]
    assert told.after.tolist() == [[0, 16, 16], [0, 0, 0], [0, 0, 3]]
    assert told.shards == (1, 0, 1)
    assert told.raw_bytes == 35 * 20 * 32 * 64 * 3
    assert (told.interval_s, told.span_s) == (0.1, 1.5)
    assert p.empty_splits == ("val",)
    assert "5 clips, 35 windows, 2 shards" in repr(p)


def test_empty_splits_are_those_with_a_share() -> None:
    assert made([clip(0, split="train")], 60, {"split": {"train": 1, "val": 0, "test": 0.5}}).empty_splits == ("test",)


def test_nothing_to_plan() -> None:
    p = made([clip(0), clip(1)], 0)
    assert p.shards == () and p.blocks(4) == () and p.layout.rows == (0, 0, 0) and not p.class_weight.any()
    assert made([]).shards == ()


def test_label_that_is_no_class() -> None:
    with pytest.raises(ValueError, match="'c1'"):
        made([clip(0), clip(1, "swim")])


def test_rows_given_no_split_are_drawn_by_the_shares() -> None:
    shares = {"train": 0.5, "val": 0.3, "test": 0.2}
    n = 4000
    drawn = Counter(plan.assign_splits(many(n), Shares(**shares), 0))
    for split, share in shares.items():
        deviation = (n * share * (1 - share)) ** 0.5
        assert abs(drawn[split] - n * share) < 5 * deviation
    only = Counter(plan.assign_splits(many(200), Shares(train=0, val=3, test=0), 0))
    assert only == {"val": 200}


def test_split_depends_on_group_and_seed_alone() -> None:
    shares, clips = Shares(), many(300)
    alone = tuple(plan.split_of(c, shares, 7) for c in clips)
    assert plan.assign_splits(clips, shares, 7) == alone
    assert plan.assign_splits(clips[100:200], shares, 7) == alone[100:200], "whatever else the manifest holds"
    moved = [dataclasses.replace(c, video=c.video.replace("/data", "/elsewhere")) for c in clips]
    assert plan.assign_splits(moved, shares, 7) == alone, "wherever the folder lies"
    assert plan.assign_splits(clips, shares, 8) != alone
    ungrouped = [dataclasses.replace(c, group="") for c in clips]
    assert plan.assign_splits(ungrouped, shares, 7) == tuple(plan.split_of(dataclasses.replace(c, group=c.video), shares, 7) for c in clips)


def test_split_is_the_same_on_every_machine() -> None:
    """First bytes by the sha256sum program (printf '0\\0v10.mp4' | sha256sum); the shares end at cccc.. and e666.."""
    for i, split in ((0, "train"), (26, "train"), (8, "val"), (10, "val"), (3, "test"), (15, "test")):  # 4f16 c813 deb6 e347 e73c ef81
        assert plan.split_of(clip(i), Shares(), 0) == split


def test_groups_and_files_do_not_cross_splits() -> None:
    clips = [clip(i, group=f"subject{i % 40}") for i in range(400)]
    splits = plan.assign_splits(clips, Shares(), 0)
    assert len(set(splits)) == 3
    assert len({(c.group, s) for c, s in zip(clips, splits)}) == 40

    same_file = [clip(i, group=f"subject{i}", video=f"/data/v{i // 4}.mp4") for i in range(400)]
    splits = plan.assign_splits(same_file, Shares(), 0)
    assert len(set(splits)) == 3
    assert len({(c.video, s) for c, s in zip(same_file, splits)}) == 100

    chain = [clip(i, group=f"subject{i // 2}", video=f"/data/v{(i + 1) // 2}.mp4") for i in range(400)]
    for order in (chain, chain[::-1], sorted(chain, key=lambda c: c.row * 97 % 401)):
        assert len(set(plan.assign_splits(order, Shares(), 0))) == 1


def test_a_row_without_split_follows_its_group() -> None:
    clips = [clip(0, group="a", split="test"), clip(1, group="a"), clip(2, group="b", video="/data/v1.mp4")]
    for seed in range(5):
        assert plan.assign_splits(clips, Shares(), seed) == ("test", "test", "test")
    divided = [*clips, clip(3, group="a", split="train")]
    assert plan.assign_splits(divided, Shares(), 0)[::3] == ("test", "train"), "the manifest may say so explicitly"


def test_order_is_shuffled_by_seed_and_stays_the_same() -> None:
    clips = many(200, split="train")
    table = {"balance": {"method": "none"}}
    order = [piece.clip for shard in made(clips, 60, table).shards for piece in shard.pieces]
    assert order == [piece.clip for shard in made(clips, 60, table).shards for piece in shard.pieces]
    other = [piece.clip for shard in made(clips, 60, {**table, "seed": 1}).shards for piece in shard.pieces]
    assert sorted(order) == sorted(other) == list(range(200)) and order != other and order != sorted(order)
    first_half = sum(k < 100 for k in order[:100])
    assert 30 < first_half < 70
    mixed = [len(shard.pieces) for shard in made(clips, 60, table).shards]
    assert set(mixed) == {4}  # 8 windows a clip, 32 a shard


def test_clip_ends_meet_shard_ends_and_block_ends() -> None:
    """Classes with 8, 16 and 64 windows a clip, short clips with odd numbers: as they come, a clip would be cut by most shards."""
    lengths = np.random.default_rng(0).integers(2, 120, 1500).tolist()
    p = made(many(1500, split="train"), lengths)
    ends = [p.counts[s.pieces[-1].clip] == s.pieces[-1].first + s.pieces[-1].count for s in p.shards]
    plain = np.cumsum(p.counts[p.counts > 0])
    assert np.mean(ends) > 2 * np.mean(np.isin(np.arange(1, len(p.shards)) * 32, plain))
    blocks = p.blocks(8)
    cut = sum(p.counts[last.clip] != last.first + last.count for last in (b.shards[-1].pieces[-1] for b in blocks))
    assert cut / 1500 < 0.03, "few clips are decoded twice"
    assert np.mean([len(b.shards) for b in blocks]) > 5


def test_a_clip_longer_than_a_shard() -> None:
    p = made([clip(0, split="train")], 1000, {"window": {"placement": "cover", "stride": 1, "margin": 0}})
    assert [(s.pieces[0].first, s.pieces[0].count) for s in p.shards] == [(32 * i, 32) for i in range(30)] + [(960, 25)]


def test_digest_follows_what_decides_the_rows() -> None:
    clips = many(40)
    base = made(clips).digest()
    assert base == made(clips).digest() and len(base) == 64

    def changed(**given: object) -> str:
        return made([dataclasses.replace(clips[0], **given), *clips[1:]]).digest()  # type: ignore[arg-type]

    different = [
        changed(id="other"),
        changed(label="walk"),
        changed(start_ns=5),
        changed(end_ns=5),
        changed(split={"train": "val", "val": "test", "test": "train"}[made(clips).splits[0]]),
        changed(imu="/data/i.csv"),
        changed(imu="/data/i.csv", imu_offset_ns=8),
        made(clips[::-1]).digest(),
        made(clips, [61] + [60] * 39).digest(),
        made(clips, 60, {"seed": 1}).digest(),
        made(clips, 60, {"store": {"windows_per_shard": 31}}).digest(),
        made(clips, 60, {"window": {"per_clip": 7}}).digest(),
        made(clips, 60, {"frame": {"height": 32}}).digest(),
    ]
    assert len({base, *different}) == len(different) + 1
    assert changed(video="/elsewhere/v0.mp4") == base, "a moved folder is the same plan"
    assert len(changed(id="\udcff", video="/data/\udcff.mp4", group="\udcff")) == 64, "names that are no UTF-8"


def test_digest_is_the_same_in_another_process() -> None:
    """Python's own hash of text differs from process to process; nothing here may rest on it."""
    code = """
import numpy as np
from hfprep import plan, pipeline
from hfprep.records import Clip
clips = [Clip(i + 1, i + 2, f"c{i}", f"/data/v{i}.mp4", "run", group=f"v{i}.mp4") for i in range(50)]
print(plan.make(clips, ("jump", "run", "walk"), np.full(50, 60), pipeline.Pipeline()).digest())
"""
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parent.parent)}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == made([clip(i) for i in range(50)]).digest()


@pytest.mark.long
def test_a_million_clips() -> None:
    classes = tuple(f"class{i:03d}" for i in range(400))
    clips = [Clip(i + 1, i + 2, f"id{i}", f"/data/v{i // 3}.mp4", classes[i % 400], group=f"v{i // 3}.mp4") for i in range(1_000_000)]
    n_ticks = np.random.default_rng(0).integers(0, 300, len(clips))
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    p = plan.make(clips, classes, n_ticks, check({}))
    seconds, more_gib = time.process_time() - began, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    print(f"{seconds:.1f} s, {more_gib:.2f} GiB more, {p}")
    assert seconds < 60 and more_gib < 1.5
    assert len(p.digest()) == 64 and sum(len(b.shards) for b in p.blocks(8)) == len(p.shards)
