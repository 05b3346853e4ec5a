"""store, reader, shardmap, shards, commit, arrays: what is written is read, and a kill anywhere loses nothing."""

from __future__ import annotations

import errno
import json
import os
import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
import xxhash
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from numcodecs.blosc import Blosc
from storekit import Made, make_store

from hfprep import commit, shards, store
from hfprep import layout as layout_module
from hfprep.errors import StoreError
from hfprep.layout import FORMAT_VERSION, Layout
from hfprep.records import SPLITS, ClipOutcome, ShardData

CODECS = ("raw", "lz4", "zstd")


class Killed(BaseException):
    """Stands for SIGKILL: no handler of faults sees it."""


@pytest.fixture(scope="module", params=CODECS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make_store(tmp_path_factory.mktemp("store") / f"{request.param}.zarr", codec=request.param, axes=("ax", "ay"), windows=5)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make_store(
        tmp_path_factory.mktemp("store") / "plain.zarr", n_clips=4, splits=("train", "val", "test", "train"), windows_per_shard=2
    )


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power is cut in these tests, and syncing each small file takes most of their time."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def shard_data(made: Made, split: str, index: int) -> ShardData:
    first, last = made.layout.shard_units(split, index)
    columns = {name: values[first:last] for name, values in made.columns[split].items()}
    told = tuple(made.outcomes[k] for k in np.unique(columns["clip"]).tolist())
    return ShardData(split, index, made.frames[split][first:last], columns, told)


def fresh(made: Made, path: Path) -> Path:
    store.create(path, made.layout, made.attrs, made.clips)
    return path


def kind(call: Any, *args: Any) -> str:
    with pytest.raises(StoreError) as caught:
        call(*args)
    assert caught.value.remedy and caught.value.where
    return caught.value.kind


def test_plain_zarr_and_reader_give_what_was_written(made: Made) -> None:
    plain, opened = zarr.open_group(made.path, mode="r"), store.open_store(made.path)
    for split in SPLITS:
        n = made.layout.n_rows(split)
        assert n > 0
        ours = opened[split].read(range(n))
        assert np.array_equal(plain[f"{split}/frames"][:], made.frames[split])
        assert np.array_equal(ours["frames"], made.frames[split])
        for name, values in made.columns[split].items():
            assert np.array_equal(plain[f"{split}/{name}"][:], values, equal_nan=name == "imu"), name
            assert np.array_equal(ours[name], values, equal_nan=name == "imu"), name
    assert opened.classes == ["left", "right"]
    assert opened.pipeline["store"]["codec"] == made.layout.codec
    assert opened.layout == made.layout


def test_metadata_names_dimensions_codecs_and_sizes(made: Made) -> None:
    frames = json.loads((made.path / "train/frames/zarr.json").read_text())
    assert frames["dimension_names"] == ["window", "frame", "y", "x", "channel"]
    (sharding,) = frames["codecs"]
    assert sharding["name"] == "sharding_indexed"
    assert sharding["configuration"]["chunk_shape"] == [1, 6, 16, 24, 3]
    names = [codec["name"] for codec in sharding["configuration"]["codecs"]]
    assert names == {"raw": ["bytes"], "lz4": ["bytes", "blosc"], "zstd": ["bytes", "zstd"]}[made.layout.codec]
    assert json.loads((made.path / "train/imu/zarr.json").read_text())["dimension_names"] == ["window", "frame", "axis"]
    root = json.loads((made.path / "zarr.json").read_text())
    assert (root["attributes"]["format_version"], root["attributes"]["status"]) == (FORMAT_VERSION, "complete")


def test_xarray_opens_every_group(made: Made) -> None:
    for split in SPLITS:
        with xarray.open_zarr(made.path, group=split, consolidated=False) as group:
            assert np.array_equal(group["frames"][1].values, made.frames[split][1])
            assert group["time_ns"].dims == ("window", "frame")
    with xarray.open_zarr(made.path, group="clips", consolidated=False) as clips:
        assert list(clips["video"].values) == made.clips["video"]


def test_an_empty_split_can_be_opened_by_all(tmp_path: Path) -> None:
    made = make_store(tmp_path / "s.zarr", splits=("train",), n_clips=2)
    opened = store.open_store(made.path)
    assert opened.splits == ("train",)
    assert len(opened["val"]) == 0
    assert opened["val"].read([])["frames"].shape == (0, 6, 16, 24, 3)
    assert zarr.open_group(made.path, mode="r")["val/frames"].shape == (0, 6, 16, 24, 3)
    with xarray.open_zarr(made.path, group="val", consolidated=False) as group:
        assert group.sizes["window"] == 0


@pytest.mark.parametrize("codec", CODECS)
def test_an_all_black_shard_is_a_file(tmp_path: Path, codec: str) -> None:
    made = make_store(tmp_path / "a.zarr", codec=codec, finish=False)
    black = replace(shard_data(made, "train", 0), frames=np.zeros_like(made.frames["train"][:4]))
    store.write_shard(made.path, made.layout, black)
    store.finish(made.path)
    assert (made.path / "train/frames/c/0/0/0/0/0").stat().st_size > 64
    assert not store.open_store(made.path)["train"].read([0, 3])["frames"].any()
    assert np.array_equal(zarr.open_group(made.path, mode="r")["train/frames"][4:], made.frames["train"][4:])


def test_digest_is_the_documented_one(made: Made) -> None:
    opened = store.open_store(made.path)["val"]
    row = opened.read([2])
    state = xxhash.xxh3_64(row["frames"][0].tobytes())
    for name in ("time_ns", "source_ns", "clamped", "label", "clip", "center_ns", "weight", "ok", "imu", "imu_ok"):
        state.update(row[name][0].tobytes())
    assert int(row["digest"][0]) == state.intdigest()


def test_order_and_repeats_do_not_change_a_byte(made: Made, tmp_path: Path) -> None:
    path = fresh(made, tmp_path / "again.zarr")
    for key in [*reversed(made.layout.shards()), made.layout.shards()[0]]:
        store.write_shard(path, made.layout, shard_data(made, *key))
    store.finish(path)
    store.finish(path)
    assert tree(path) == tree(made.path)


def test_a_kill_at_any_file_of_the_end_loses_nothing(plain: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fresh(plain, tmp_path / "s.zarr")
    for key in plain.layout.shards():
        store.write_shard(path, plain.layout, shard_data(plain, *key))
    put, keys = store._put, []

    def dying(folder: Path, key: str, parts: Any) -> None:
        if len(keys) in deaths:
            deaths.remove(len(keys))
            (folder / ".build/half.part").write_bytes(b"".join(parts)[:3])
            raise Killed
        keys.append(key)
        put(folder, key, parts)

    monkeypatch.setattr(store, "_put", dying)
    deaths = {0, 1, 9, 10, 17, 28, 29, 34}  # among the columns of each split, the outcomes, and at the very last file
    for death in sorted(deaths):
        keys.clear()
        with pytest.raises(Killed):
            store.finish(path)
        assert len(keys) == death
        state = store.building_state(path)
        assert state is not None
        assert (state.status, state.written) == ("building", set(plain.layout.shards()))
        assert kind(store.open_store, path) == "incomplete"
    keys.clear()
    store.finish(path)
    assert keys[28].startswith("clips/")
    assert keys[34:] == ["zarr.json"]
    assert tree(path) == tree(plain.path)


def test_a_kill_while_the_records_are_removed_leaves_a_complete_store(plain: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fresh(plain, tmp_path / "s.zarr")
    for key in plain.layout.shards():
        store.write_shard(path, plain.layout, shard_data(plain, *key))

    def dying(folder: Path) -> None:
        next(Path(folder).iterdir()).unlink()
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", dying)
        with pytest.raises(Killed):
            store.finish(path)
    assert len(store.open_store(path)["train"]) == plain.layout.n_rows("train")
    assert store.written(path, plain.layout) == set(plain.layout.shards())
    store.finish(path)
    assert tree(path) == tree(plain.path)


@pytest.mark.parametrize("cut", [0, 1, 20, 40, 200, -1])
def test_a_torn_record_is_no_commit(plain: Made, tmp_path: Path, cut: int) -> None:
    path = fresh(plain, tmp_path / "s.zarr")
    store.write_shard(path, plain.layout, shard_data(plain, "train", 1))
    record = path / ".build/train-00000001.commit"
    whole = record.read_bytes()
    assert store.written(path, plain.layout) == {("train", 1)}
    record.write_bytes(whole[:cut])
    assert store.written(path, plain.layout) == set()
    assert kind(store.finish, path) == "incomplete"
    record.write_bytes(whole)
    record.with_name("train-00000000.commit").write_bytes(whole)  # another shard's record
    assert store.written(path, plain.layout) == {("train", 1)}
    shard = path / "train/frames/c/1/0/0/0/0"
    shard.write_bytes(shard.read_bytes()[:-1])
    assert store.written(path, plain.layout) == set()


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_any_changed_byte_of_a_record_is_noticed(data: st.DataObject) -> None:
    columns = {"clip": np.arange(3, dtype=np.int32), "imu": np.full((3, 2), np.nan, np.float32)}
    outcome = ClipOutcome(1, 5, 7, float("nan"), 0.5, "é", "damaged", ("a", "b"))
    record = commit.encode(commit.Commit("val", 4, 99, columns, (outcome,)))
    back = commit.decode(record)
    assert (back.split, back.index, back.shard_bytes, repr(back.outcomes)) == ("val", 4, 99, repr((outcome,)))
    assert all(np.array_equal(back.columns[name], columns[name], equal_nan=True) for name in columns)
    place = data.draw(st.integers(0, len(record) - 1))
    changed = bytearray(record)
    changed[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ValueError, match="whole"):
        commit.decode(bytes(changed))


def test_an_unfinished_store_says_how_far_it_is(tmp_path: Path) -> None:
    made = make_store(tmp_path / "s.zarr", unwritten={("train", 2), ("test", 0)})
    total = len(made.layout.shards())
    with pytest.raises(StoreError, match=rf"{total - 2} of {total} shards.*same `hfprep build` command"):
        store.open_store(made.path)
    state = store.building_state(made.path)
    assert state is not None
    assert (state.status, state.total, len(state.written)) == ("building", total, total - 2)
    assert made.rows_of(4)[0] == "test"
    assert made.rows_of(5) == ("train", [9, 10, 11])  # all in the shard that is missing; clip 3 has windows in the one before, too
    assert [outcome.clip for outcome in store.outcomes(made.path)] == [0, 1, 2, 3, 6, 7]
    for key in (("train", 2), ("test", 0)):
        store.write_shard(made.path, made.layout, shard_data(made, *key))
    store.finish(made.path)
    assert [outcome.clip for outcome in store.outcomes(made.path)] == list(range(8))
    assert store.building_state(made.path).status == "complete"  # type: ignore[union-attr]


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    assert store.building_state(tmp_path / "none") is None
    assert kind(store.open_store, tmp_path / "none") == "not_a_store"
    (tmp_path / "file").write_text("x")
    assert kind(store.open_store, tmp_path / "file") == "not_a_store"
    assert kind(store.open_store, tmp_path) == "not_a_store"
    zarr.create_group(tmp_path / "foreign.zarr", attributes={"a": 1})
    assert kind(store.open_store, tmp_path / "foreign.zarr") == "not_a_store"
    assert kind(store.remove, tmp_path / "foreign.zarr") == "not_a_store"
    assert kind(store.check_target, tmp_path / "foreign.zarr") == "not_a_store"
    (tmp_path / "torn.zarr").mkdir()
    (tmp_path / "torn.zarr/zarr.json").write_text('{"attributes": {"format')
    assert kind(store.open_store, tmp_path / "torn.zarr") == "not_a_store"


def test_newer_and_damaged_stores_are_refused(tmp_path: Path) -> None:
    made = make_store(tmp_path / "s.zarr", n_clips=1)
    root = json.loads((made.path / "zarr.json").read_text())
    root["attributes"]["format_version"] = FORMAT_VERSION + 1
    (made.path / "zarr.json").write_text(json.dumps(root))
    assert kind(store.open_store, made.path) == "format"
    root["attributes"] |= {"format_version": FORMAT_VERSION, "layout": {"size": 4}}
    (made.path / "zarr.json").write_text(json.dumps(root))
    assert kind(store.open_store, made.path) == "damaged"


def test_places_where_no_store_can_be(tmp_path: Path) -> None:
    layout = Layout(4, 1, 8, 8, (), "lz4", 4, (1, 0, 0))
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/notes.txt").write_text("mine")
    assert kind(store.create, tmp_path / "file", layout, {}, {}) == "exists"
    assert kind(store.create, tmp_path / "file/s.zarr", layout, {}, {}) == "permission"
    assert kind(store.create, tmp_path / "full", layout, {}, {}) == "exists"
    assert kind(store.create, tmp_path / "big", replace(layout, height=30_000, width=30_000), {}, {}) == "too_large"
    assert tree(tmp_path) == {"file": b"x", "full/notes.txt": b"mine"}
    if os.geteuid():  # root may write anywhere
        (tmp_path / "closed").mkdir(mode=0o500)
        assert kind(store.check_target, tmp_path / "closed/s.zarr") == "permission"
    (tmp_path / "empty").mkdir()
    store.create(tmp_path / "empty", layout, {}, {"id": ["a"]})
    assert kind(store.create, tmp_path / "empty", layout, {}, {"id": ["a"]}) == "exists"
    store.create(tmp_path / "deep/er/s.zarr", layout, {}, {"id": ["a"]})
    store.remove(tmp_path / "deep/er/s.zarr")
    assert not list((tmp_path / "deep/er").iterdir())


@pytest.mark.parametrize(
    ("number", "expected"),
    [(errno.ENOSPC, "no_space"), (errno.EDQUOT, "no_space"), (errno.EROFS, "permission"), (errno.EIO, "io_error")],
)
def test_faults_of_the_disk_are_told_and_leave_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, expected: str
) -> None:
    made = make_store(tmp_path / "s.zarr", finish=False, unwritten={("train", 1)})

    def full(fd: int) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert kind(store.write_shard, made.path, made.layout, shard_data(made, "train", 1)) == expected
    assert ("train", 1) not in store.written(made.path, made.layout)
    assert not list((made.path / ".build").glob("*.part"))
    store.write_shard(made.path, made.layout, shard_data(made, "train", 1))
    store.finish(made.path)


def test_a_store_that_vanishes_is_not_half_made_again(tmp_path: Path) -> None:
    made = make_store(tmp_path / "s.zarr", finish=False)
    shutil.rmtree(made.path)
    assert kind(store.write_shard, made.path, made.layout, shard_data(made, "train", 0)) == "vanished"
    assert not made.path.exists()


def test_data_that_does_not_fit_the_layout_is_a_bug_of_the_caller(tmp_path: Path) -> None:
    made = make_store(tmp_path / "s.zarr", finish=False)
    data = shard_data(made, "train", 0)
    for wrong in (
        replace(data, frames=data.frames[:-1]),
        replace(data, frames=data.frames.astype(np.int16)),
        replace(data, columns={**data.columns, "more": data.columns["ok"]}),
        replace(data, columns={**data.columns, "clip": data.columns["clip"][:2]}),
        replace(data, columns={**data.columns, "label": data.columns["label"] + 0.5}),
        replace(data, index=99),
    ):
        with pytest.raises(ValueError, match="ShardData"):
            store.write_shard(made.path, made.layout, wrong)


def test_clips_keep_their_types_odd_names_and_letters(tmp_path: Path) -> None:
    layout = Layout(4, 0, 8, 8, (), "raw", 4, (0, 0, 0))
    columns: dict[str, list[Any]] = {
        "id": ["a", "跌倒 ü", ""],
        "end_ns": [None, None, None],
        "vfr": [True, None, False],
        "source_fps": [25, None, 29.97],
        "n_windows": [1, 2, None],
        "imu": [None, "/b.csv", None],
        "camera/left": ["x", "y", "z"],
        "camera_left": ["1", "2", "3"],
        "..": ["u", "v", "w"],
        "error": ["", "no such file", ""],
        "error_kind": ["", "missing_file", ""],
    }
    store.create(tmp_path / "s.zarr", layout, {}, columns)
    store.finish(tmp_path / "s.zarr")
    clips = store.open_store(tmp_path / "s.zarr").clips
    assert clips["id"].tolist() == columns["id"]
    assert clips["end_ns"].tolist() == [-1, -1, -1]
    assert (clips["vfr"].dtype, clips["vfr"].tolist()) == (np.bool_, [True, False, False])
    assert np.array_equal(clips["source_fps"], [25, np.nan, 29.97], equal_nan=True)
    assert clips["n_windows"].tolist() == [1, 2, -1]
    assert clips["imu"].tolist() == ["", "/b.csv", ""]
    assert (clips["camera_left"].tolist(), clips["camera_left_2"].tolist()) == (["x", "y", "z"], ["1", "2", "3"])
    assert clips["column__"].tolist() == ["u", "v", "w"]
    assert zarr.open_array(tmp_path / "s.zarr/clips/column__", mode="r").attrs["column"] == ".."
    assert clips["error"].tolist() == columns["error"]  # no outcome was told of it: it never had a window
    assert clips["hotspot_ns"].tolist() == [-1, -1, -1]


def test_outcomes_of_a_clip_in_two_shards_become_one(tmp_path: Path) -> None:
    made = make_store(tmp_path / "s.zarr", finish=False, windows=6, splits=("train",), n_clips=2)
    first, second = shard_data(made, "train", 0), shard_data(made, "train", 1)
    a = ClipOutcome(0, 10, 300, 0.5, 0.25, notes=("rate assumed",))
    b = ClipOutcome(0, 10, 300, 0.5, 0.25, "too short", "truncated", ("rate assumed", "rotated"))
    store.write_shard(made.path, made.layout, replace(first, outcomes=(a,)))
    store.write_shard(made.path, made.layout, replace(second, outcomes=(b, ClipOutcome(1, error="lost", error_kind="damaged"))))
    store.finish(made.path)
    clips = store.open_store(made.path).clips
    assert (clips["error"].tolist(), clips["error_kind"].tolist()) == (["too short", "lost"], ["truncated", "damaged"])
    assert clips["notes"].tolist()[0] == "rate assumed; rotated"
    assert (clips["hotspot_ns"][0], clips["hotspot_score"][0], clips["repeated_share"][0]) == (300, 0.5, 0.25)
    assert clips["n_ticks"].tolist() == [10, 10]  # clip 1 failed before it was counted again: the plan's number stays


@given(rows=st.lists(st.integers(0, 24), max_size=12))
@settings(max_examples=8, deadline=None)
def test_rows_in_any_order_and_repeated(made: Made, rows: list[int]) -> None:
    reader = store.open_store(made.path)["train"]
    out = np.full((len(rows), 6, 16, 24, 3), 7, np.uint8)
    read = reader.read(rows, out=out)
    assert read["frames"] is out
    assert np.array_equal(out, made.frames["train"][np.array(rows, int)])
    assert np.array_equal(read["clip"], made.columns["train"]["clip"][np.array(rows, int)])


def test_parts_of_windows(made: Made) -> None:
    reader = store.open_store(made.path)["train"]
    rows, first = np.array([3, 0, 24]), np.array([0, 2, 1])
    out = np.zeros((3, 2, 16, 24, 3), np.uint8)
    reader.read_frames(rows, out, first, step=3)
    for position, (row, start) in enumerate(zip(rows, first)):
        assert np.array_equal(out[position], made.frames["train"][row, [start, start + 3]])
    with pytest.raises(ValueError, match=r"frames 0\.\.6"):
        reader.read_frames(rows, out, first, step=4)
    with pytest.raises(IndexError, match=r"0\.\.24"):
        reader.read([25])
    with pytest.raises(ValueError, match="must be uint8"):
        reader.read([1, 2], out=out)


def test_a_reader_travels_without_what_it_has_loaded(made: Made) -> None:
    reader = store.open_store(made.path)["train"]
    reader.read(range(25))
    packed = pickle.dumps(reader)
    assert len(packed) < 4000
    assert np.array_equal(pickle.loads(packed).read([7])["frames"][0], made.frames["train"][7])


def test_damaged_shards_are_named(made: Made, tmp_path: Path) -> None:
    path = tmp_path / "s.zarr"
    shutil.copytree(made.path, path)
    shard = path / "train/frames/c/1/0/0/0/0"
    whole = shard.read_bytes()
    broken = {"empty": b"", "cut": whole[:-5], "index": whole[:-30] + bytes([whole[-30] ^ 1]) + whole[-29:]}
    for name, data in broken.items():
        shard.write_bytes(data)
        with pytest.raises(StoreError, match="shard 1 of train") as caught:
            store.open_store(path)["train"].read([4])
        assert caught.value.kind == "damaged", name
    shard.unlink()
    assert kind(store.open_store(path)["train"].read, [4]) == "damaged"
    (path / "train/clip/c/0").write_bytes(b"nonsense")
    assert kind(store.open_store(path)["train"].columns.__getitem__, "clip") == "damaged"


def test_arrays_that_others_wrote_are_read_through_zarr(made: Made, tmp_path: Path) -> None:
    path = tmp_path / "s.zarr"
    shutil.copytree(made.path, path)
    group = zarr.open_group(path / "train", mode="r+")
    group.create_array("frames", data=made.frames["train"], chunks=(2, 6, 16, 24, 3), compressors=zarr.codecs.GzipCodec(), overwrite=True)
    group.create_array("clip", data=made.columns["train"]["clip"].astype(np.int32), chunks=(3,), overwrite=True)
    reader = store.open_store(path)["train"]
    rows, first, out = np.array([9, 0, 9]), np.array([1, 0, 2]), np.zeros((3, 2, 16, 24, 3), np.uint8)
    read = reader.read(rows)
    assert np.array_equal(read["frames"], made.frames["train"][rows])
    assert np.array_equal(read["clip"], made.columns["train"]["clip"][rows])
    reader.read_frames(rows, out, first, step=2)
    assert np.array_equal(out, made.frames["train"][rows[:, None], first[:, None] + [0, 2]])


def test_columns_of_many_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout_module, "COLUMN_BYTES", 64)  # as in a store of millions of windows
    monkeypatch.setattr(layout_module, "BLOCK_ROWS", 16)
    monkeypatch.setattr(store, "BLOCK_ROWS", 16)
    made = make_store(tmp_path / "s.zarr", n_clips=9, windows=5, splits=("train",), windows_per_shard=3)
    assert len(list((made.path / "train/time_ns/c").iterdir())) == 45
    assert len(list((made.path / "train/weight/c").iterdir())) == 3
    plain, ours = zarr.open_group(made.path, mode="r")["train"], store.open_store(made.path)["train"]
    for name, values in made.columns["train"].items():
        assert np.array_equal(plain[name][:], values), name
        assert np.array_equal(ours.columns[name], values), name


def test_other_levels_are_read_directly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(shards, "encoder", lambda codec, quality: Blosc("lz4hc", 7, Blosc.SHUFFLE, 0).encode)
        made = make_store(tmp_path / "s.zarr", n_clips=2, codec="lz4")
    document = made.path / "train/frames/zarr.json"
    document.write_text(
        document.read_text().replace('"lz4"', '"lz4hc"').replace('"clevel": 1', '"clevel": 7').replace("noshuffle", "shuffle")
    )
    monkeypatch.setattr(zarr, "open_array", None)
    assert np.array_equal(store.open_store(made.path)["train"].read([3, 0])["frames"], made.frames["train"][[3, 0]])
