"""The layout that holds each tick once: the same windows, pixel for pixel, as the layout of whole windows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import drawn
import numpy as np
import PIL.Image
import pytest
import zarr

import hfprep
from hfprep import prepare
from hfprep.build import build_store
from hfprep.errors import StoreError, UsageError
from hfprep.pipeline import Pipeline, load
from hfprep.planned import BuildOptions
from hfprep.report.facts import facts
from hfprep.report.verify import verify
from hfprep.rewindow import rewindow

SMALL = ("frame.height=32", "frame.width=40", "frame.fit=stretch", "window.size=6", "window.per_clip=4", "store.windows_per_shard=3")
WAYS = {"hotspots": ("window.eval=hotspot",), "quartiles": (), "cover": ("window.placement=cover", "window.eval=cover")}


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six videos of 0.3 to 3 s, one beside a sensor, one cut short by rubbish."""
    folder = tmp_path_factory.mktemp("videos")
    for k in range(6):
        drawn.write(folder / f"v{k}.mp4", drawn.steady(8 + 14 * k, 40), first=100 * k, b_frames=2 * (k % 2))
    (folder / "s.csv").write_text("t,ax,ay\n" + "".join(f"{n / 50},{n},{-n}\n" for n in range(60)))
    rows = [
        f"v{k}.mp4,{'ab'[k % 2]},{('train', 'train', 'val', 'train', 'test', 'train')[k]},{'s.csv' if k == 3 else ''}" for k in range(6)
    ]
    (folder / "m.csv").write_text("video,label,split,imu\n" + "\n".join(rows) + "\n")
    return folder


def built(videos: Path, tmp_path: Path, name: str, *more: str, **kwargs: Any) -> Path:
    recipe: Pipeline = load(None, (*SMALL, *more))
    return build_store(videos / "m.csv", tmp_path / name, recipe, options=BuildOptions(cache=tmp_path / "cache", **kwargs)).out


def rows(path: Path, split: str) -> dict[tuple[int, int], dict[str, Any]]:
    """Every window of a split by clip and centre."""
    read = hfprep.open_store(path)[split].read(range(len(hfprep.open_store(path)[split])))
    names = read.keys() - {"digest", "index", "psnr"}
    found = [{name: read[name][k] for name in names} for k in range(len(read["label"]))]
    assert len(found) == len({(row["clip"], row["center_ns"]) for row in found})
    return {(int(row["clip"]), int(row["center_ns"])): row for row in found}


@pytest.mark.parametrize("codec", ["raw", "lz4", "zstd", "jpeg"])
@pytest.mark.parametrize("way", WAYS)
def test_windows_are_equal_in_both_layouts(videos: Path, tmp_path: Path, way: str, codec: str) -> None:
    whole = built(videos, tmp_path, "w.zarr", *WAYS[way], f"store.codec={codec}")
    once = built(videos, tmp_path, "f.zarr", *WAYS[way], f"store.codec={codec}", "store.layout=frames")
    for split in ("train", "val", "test"):
        a, b = rows(whole, split), rows(once, split)
        assert a.keys() == b.keys() and len(a) >= 1
        for key, row in a.items():
            assert row.keys() == b[key].keys()
            for name, values in row.items():
                assert np.array_equal(values, b[key][name], equal_nan=values.dtype.kind == "f"), (key, name)


def test_parts_of_windows_and_ticks_are_those_of_whole_windows(videos: Path, tmp_path: Path) -> None:
    reader = hfprep.open_store(built(videos, tmp_path, "f.zarr", "store.layout=frames", "store.windows_per_shard=1"))["train"]
    order = np.array([5, 0, 5, 2])
    whole = reader.read(order)["frames"]
    part = np.empty((4, 3, 32, 40, 3), np.uint8)
    first = np.array([1, 0, 4, 2])
    reader.read_frames(order, part, first, step=2)
    for k in range(4):
        assert np.array_equal(part[k], whole[k, first[k] : first[k] + 5 : 2])
    backwards = np.arange(reader.layout.n_units("train"))[::-1].reshape(1, -1)  # through every shard, against the order
    pixels = np.empty((*backwards.shape, 32, 40, 3), np.uint8)
    reader.read_ticks(backwards, pixels)
    ticks = np.empty((backwards.size, 32, 40, 3), np.uint8)
    reader.read_units(np.arange(backwards.size), ticks)
    assert np.array_equal(pixels[0, ::-1], ticks)
    with pytest.raises(IndexError, match="ticks"):
        reader.read_ticks(np.array([[backwards.size]]), np.empty((1, 1, 32, 40, 3), np.uint8))


def test_plain_zarr_reads_it(videos: Path, tmp_path: Path) -> None:
    path = built(videos, tmp_path, "f.zarr", "store.layout=frames")
    root: Any = zarr.open_group(path, mode="r")
    for split in ("train", "val", "test"):
        reader = hfprep.open_store(path)[split]
        group = root[split]
        assert group["frames"].metadata.dimension_names == ("tick", "y", "x", "channel")
        for row in range(len(reader)):
            index = group["index"][row]
            assert np.array_equal(group["frames"][:][index], reader.read([row])["frames"][0])
            seen = [drawn.number_in(frame) for frame in group["frames"][:][index]]
            clip = int(group["clip"][row])
            assert seen == [100 * clip + int(t) // 40_000_000 for t in group["time_ns"][:][index]]


def test_each_tick_is_stored_once_in_the_clips_order(videos: Path, tmp_path: Path) -> None:
    path = built(videos, tmp_path, "f.zarr", "store.layout=frames")
    made = hfprep.open_store(path)
    for split in ("train", "val", "test"):
        ticks = made[split].ticks
        for clip in np.unique(ticks["tick_clip"]):
            mine = np.flatnonzero(ticks["tick_clip"] == clip)
            first = int(made.clips["first_tick"][clip])
            assert np.array_equal(mine, np.arange(first, first + made.clips["n_ticks"][clip]))
            assert np.array_equal(ticks["time_ns"][mine], 100_000_000 * np.arange(len(mine)))


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("way", WAYS)
def test_the_same_bytes_whatever_the_way(videos: Path, tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = built(videos, tmp_path, "1.zarr", "store.layout=frames", *WAYS[way], jobs=1)
    two = built(videos, tmp_path, "2.zarr", "store.layout=frames", *WAYS[way], jobs=2)
    assert files(one) == files(two)
    monkeypatch.setattr(prepare, "MEGABYTE", 40)  # the default budget now holds two or three frames
    parts = files(built(videos, tmp_path, "3.zarr", "store.layout=frames", *WAYS[way], jobs=1))
    assert {name for name, data in files(one).items() if parts[name] != data} == set()


def test_verify_names_the_windows_that_show_a_damaged_tick(videos: Path, tmp_path: Path) -> None:
    path = built(videos, tmp_path, "f.zarr", "store.layout=frames", "store.codec=raw")
    assert verify(path).good
    reader = hfprep.open_store(path)["train"]
    index = np.array(reader.columns["index"])
    shard = path / reader.layout.shard_key("train", 0)
    data = bytearray(shard.read_bytes())
    tick = int(index[0, 3])
    data[tick * reader.layout.unit_bytes + 7] ^= 1
    shard.write_bytes(data)
    found = verify(path)
    assert {row for d in found.damages for row in d.rows} == set(np.flatnonzero((index == tick).any(axis=1)).tolist()) > set()
    assert any("1 ticks" in d.what and d.file == reader.layout.shard_key("train", 0) for d in found.damages)


REVISIONS = {
    "shorter": ("window.size=4", "window.margin=1"),
    "longer than some clips": ("window.size=12", "window.max_clamped=0.5"),
    "more and closer": ("window.per_clip=7", "window.stride=1"),
    "cover": ("window.placement=cover", "window.eval=cover"),
    "quartiles": ("window.eval=quartiles",),
    "no balance": ("balance.method=none",),
}


@pytest.mark.parametrize("revision", REVISIONS)
def test_rewindow_gives_what_a_new_build_gives(videos: Path, tmp_path: Path, revision: str) -> None:
    once = built(videos, tmp_path, "f.zarr", "store.layout=frames", *WAYS["hotspots"])
    before = files(once)
    made = rewindow(once, tmp_path / "new.zarr", REVISIONS[revision])
    fresh = built(videos, tmp_path, "fresh.zarr", "store.layout=frames", *WAYS["hotspots"], *REVISIONS[revision])
    for split in ("train", "val", "test"):
        a, b = rows(made.out, split), rows(fresh, split)
        assert a.keys() == b.keys() and len(a) >= 1
        for key, row in a.items():
            for name, values in row.items():
                assert np.array_equal(values, b[key][name], equal_nan=values.dtype.kind == "f"), (key, name)
    new, built_anew = hfprep.open_store(made.out), hfprep.open_store(fresh)
    for name in built_anew.clips:
        if name != "first_tick":
            a, b = new.clips[name], built_anew.clips[name]
            assert np.array_equal(a, b, equal_nan=b.dtype.kind == "f"), name
    assert new.attrs["class_weight"] == built_anew.attrs["class_weight"] and new.pipeline == built_anew.pipeline
    assert verify(made.out).good
    assert files(once) == before and made.copied_bytes == 0
    shard = new.layout.shard_key("train", 0)
    assert (made.out / shard).samefile(once / shard)


def test_rewindow_says_what_it_cannot_give(videos: Path, tmp_path: Path) -> None:
    once = built(videos, tmp_path, "f.zarr", "store.layout=frames")
    whole = built(videos, tmp_path, "w.zarr")
    with pytest.raises(StoreError, match=r"no motion was measured in val.*window.eval = hotspot"):
        rewindow(once, tmp_path / "n.zarr", ("window.eval=hotspot",))
    with pytest.raises(UsageError, match=r"frame.interval_ms: 100 -> 50.*the stored ticks cannot"):
        rewindow(once, tmp_path / "n.zarr", ("frame.interval_ms=50",))
    with pytest.raises(UsageError, match=r"window\.size"):
        rewindow(once, tmp_path / "n.zarr", ("window.siez=5",))
    with pytest.raises(StoreError, match=r"whole windows.*store.layout=frames"):
        rewindow(whole, tmp_path / "n.zarr", ("window.size=4",))
    with pytest.raises(StoreError, match="already"):
        rewindow(once, whole, ("window.size=4",))
    assert not (tmp_path / "n.zarr").exists() and not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize("kind", ["windows", "frames"])
def test_digests_are_checked_while_reading_where_asked(videos: Path, tmp_path: Path, kind: str) -> None:
    path = built(videos, tmp_path, "s.zarr", f"store.layout={kind}", "store.codec=raw")
    reader = hfprep.open_store(path)["train"]
    order = [3, 0, 3, len(reader) - 1]
    assert np.array_equal(reader.read(order, check=True)["frames"], reader.read(order)["frames"])
    shard = path / reader.layout.shard_key("train", 0)
    data = bytearray(shard.read_bytes())
    unit = 1 if kind == "windows" else int(reader.columns["index"][1, 0])
    data[unit * reader.layout.unit_bytes] ^= 1
    shard.write_bytes(data)
    fresh = hfprep.open_store(path)["train"]
    assert len(fresh.read([0, 1])["frames"]) == 2
    with pytest.raises(StoreError, match=r"windows (0, )?1 of train differ"):
        fresh.read([0, 1], check=True)


def test_rewindow_refuses_a_store_with_holes_and_a_place_inside_it(videos: Path, tmp_path: Path) -> None:
    path = built(videos, tmp_path, "f.zarr", "store.layout=frames")
    with pytest.raises(StoreError, match="inside the store"):
        rewindow(path, path / "new.zarr", ("window.size=4",))
    layout = hfprep.open_store(path).layout
    for name in (layout.shard_key("train", 0), "train/tick_clip/zarr.json", "clips/n_ticks/zarr.json"):
        whole = (path / name).read_bytes()
        (path / name).unlink()
        with pytest.raises(StoreError, match=f"{name} is missing.*hfprep verify"):
            rewindow(path, tmp_path / "new.zarr", ("window.size=4",))
        (path / name).write_bytes(whole)
    assert not (tmp_path / "new.zarr").exists() and verify(path).good


def test_windows_lost_to_a_damaged_tick_are_told(tmp_path: Path) -> None:
    (tmp_path / "walk").mkdir()
    for number in range(20):
        data = b"no picture" if number == 0 else None
        file = tmp_path / "walk" / f"{number}.png"
        file.write_bytes(data) if data else PIL.Image.fromarray(drawn.picture(number)).save(file)
    (tmp_path / "m.csv").write_text("video,label,split,fps\nwalk,a,val,10\n")
    recipe = load(None, (*SMALL, "window.eval=cover", "store.layout=frames"))
    summary = build_store(tmp_path / "m.csv", tmp_path / "s.zarr", recipe, options=BuildOptions(cache=tmp_path / "cache"))
    lost = int((~hfprep.open_store(summary.out)["val"].columns["ok"].astype(bool)).sum())
    assert lost >= 1 and summary.faults == ()
    assert [f.row for f in summary.partial] == [1] and f"({lost} windows left out)" in summary.partial[0].message
    told = facts(summary.out)["partial"]
    assert [t["row"] for t in told] == [1] and f"({lost} windows left out)" in told[0]["reason"]
