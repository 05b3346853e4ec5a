"""The whole build through Python: same bytes whatever the way, and what happens when something is in the way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import drawn
import numpy as np
import pytest
import zarr

import hfprep
from hfprep import build, prepare, store
from hfprep.build import build_store
from hfprep.errors import ManifestError, StoreError
from hfprep.pipeline import Pipeline, load
from hfprep.planned import BuildOptions

SMALL = ("frame.height=32", "frame.width=40", "frame.fit=stretch", "window.size=6", "window.per_clip=4", "window.margin=1", "split.val=0.3")


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six videos of 1 to 3 s: 25 frames a second, B-frames in some; picture numbers start at 100 x video."""
    folder = tmp_path_factory.mktemp("videos")
    for k in range(6):
        drawn.write(folder / f"v{k}.mp4", drawn.steady(25 + 10 * k, 40), first=100 * k, b_frames=2 * (k % 2))
    rows = [f"v{k}.mp4,{'ab'[k % 2 if k else 0]}" for k in range(6)]
    (folder / "m.csv").write_text("video,label\n" + "\n".join(rows) + "\n")
    return folder


def small(*more: str) -> Pipeline:
    return load(None, (*SMALL, *more))


def options(tmp_path: Path, **kwargs: Any) -> BuildOptions:
    return BuildOptions(cache=tmp_path / "cache", **kwargs)


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_every_stored_frame_is_the_one_on_the_screen(videos: Path, tmp_path: Path) -> None:
    summary = build_store(videos / "m.csv", tmp_path / "s.zarr", small(), options=options(tmp_path))
    root: Any = zarr.open_group(tmp_path / "s.zarr", mode="r")
    assert summary.windows == sum(root[s]["ok"].shape[0] for s in ("train", "val", "test") if s in root) > 12
    for split in ("train", "val", "test"):
        group = root[split]
        for row in range(group["frames"].shape[0]):
            first = 100 * int(str(root["clips"]["video"][int(group["clip"][row])])[-5])
            seen = [drawn.number_in(frame) for frame in group["frames"][row]]
            # 25 frames/s: the frame on the screen at t ms has number t // 40, by the definition of the grid
            assert seen == [first + int(t) // 40_000_000 for t in group["time_ns"][row]]


def test_same_bytes_for_one_and_two_jobs(videos: Path, tmp_path: Path) -> None:
    for jobs in (1, 2):
        build_store(videos / "m.csv", tmp_path / f"{jobs}.zarr", small("store.windows_per_shard=3"), options=options(tmp_path, jobs=jobs))
    assert files(tmp_path / "1.zarr") == files(tmp_path / "2.zarr")


@pytest.mark.parametrize("placement", ["hotspot", "cover"])
def test_a_clip_over_the_budget_gives_the_same_rows(videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, placement: str) -> None:
    recipe = small(f"window.placement={placement}", "window.eval=hotspot", "store.windows_per_shard=3")
    build_store(videos / "m.csv", tmp_path / "whole.zarr", recipe, options=options(tmp_path))
    monkeypatch.setattr(prepare, "MEGABYTE", 40)  # the default budget of 256 "MB" now holds two or three frames
    build_store(videos / "m.csv", tmp_path / "parts.zarr", recipe, options=options(tmp_path))
    whole, parts = files(tmp_path / "whole.zarr"), files(tmp_path / "parts.zarr")
    assert {k for k in whole if whole[k] != parts[k]} == set()


class Enough(Exception):  # noqa: N818
    pass


def interrupted(after: int, fault: type[BaseException]) -> Callable[..., Any]:
    """write_shard that fails for good after so many shards."""
    left, lock, real = [after], threading.Lock(), store.write_shard

    def write(*args: Any) -> None:
        with lock:
            left[0] -= 1
            if left[0] < 0:
                raise fault
        real(*args)

    return write


def test_a_build_that_broke_off_continues_to_the_same_bytes(videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = small("store.windows_per_shard=3")
    build_store(videos / "m.csv", tmp_path / "whole.zarr", recipe, options=options(tmp_path))
    out = tmp_path / "broken.zarr"
    with monkeypatch.context() as patch, pytest.raises(Enough):
        patch.setattr(store, "write_shard", interrupted(2, Enough))
        build_store(videos / "m.csv", out, recipe, options=options(tmp_path, jobs=1))
    with pytest.raises(StoreError, match="2 of"):
        hfprep.open_store(out)
    summary = build_store(videos / "m.csv", out, recipe, options=options(tmp_path))
    assert summary.continued == 2
    assert files(out) == files(tmp_path / "whole.zarr")


def test_ctrl_c_says_how_far_it_is(videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "write_shard", interrupted(1, KeyboardInterrupt))
    with pytest.raises(build.Interrupted, match=r"1 of \d+ shards") as told:
        build_store(videos / "m.csv", tmp_path / "s.zarr", small("store.windows_per_shard=3"), options=options(tmp_path, jobs=1))
    assert told.value.exit_code == 130


def test_another_build_at_the_same_place_is_refused_or_replaced_whole(videos: Path, tmp_path: Path) -> None:
    out = tmp_path / "s.zarr"
    build_store(videos / "m.csv", out, small(), options=options(tmp_path))
    before = files(out)
    with pytest.raises(StoreError, match=r"window.size: 6 -> 4.*--overwrite") as told:
        build_store(videos / "m.csv", out, small("window.size=4"), options=options(tmp_path))
    assert told.value.kind == "differs" and files(out) == before
    (videos / "fewer.csv").write_text("video,label\nv0.mp4,a\nv1.mp4,b\n")
    with pytest.raises(StoreError, match="manifest"):
        build_store(videos / "fewer.csv", out, small(), options=options(tmp_path))
    build_store(videos / "fewer.csv", out, small("window.size=4"), options=options(tmp_path, overwrite=True))
    build_store(videos / "fewer.csv", tmp_path / "new.zarr", small("window.size=4"), options=options(tmp_path))
    assert files(out) == files(tmp_path / "new.zarr")
    again = build_store(videos / "fewer.csv", out, small("window.size=4"), options=options(tmp_path))
    assert again.clips == 0 and files(out) == files(tmp_path / "new.zarr")


def test_a_folder_that_is_no_store_is_never_touched(videos: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("ten years")
    for overwrite in (False, True):
        with pytest.raises(StoreError):
            build_store(videos / "m.csv", tmp_path / "mine", small(), options=options(tmp_path, overwrite=overwrite))
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "ten years"


def test_bad_rows_are_quarantined_and_the_others_built(videos: Path, tmp_path: Path) -> None:
    (videos / "text.mp4").write_text("not a video at all")
    (videos / "some.csv").write_text("video,label\nv0.mp4,a\nabsent.mp4,a\ntext.mp4,b\nv1.mp4,b\nv2.mp4,a\n")
    summary = build_store(videos / "some.csv", tmp_path / "s.zarr", small(), options=options(tmp_path))
    assert [(f.row, f.kind) for f in summary.faults] == [(2, "missing_file"), (3, "not_a_video")]
    clips = hfprep.open_store(tmp_path / "s.zarr").clips
    assert clips["error_kind"].tolist() == ["", "missing_file", "not_a_video", "", ""]
    with pytest.raises(ManifestError, match=r"absent\.mp4"):
        build_store(videos / "some.csv", tmp_path / "t.zarr", small(), options=options(tmp_path, on_error="stop"))
    (videos / "none.csv").write_text("video,label\nabsent.mp4,a\n")
    with pytest.raises(ManifestError, match="no row can be prepared"):
        build_store(videos / "none.csv", tmp_path / "u.zarr", small(), options=options(tmp_path))
    assert not (tmp_path / "t.zarr").exists() and not (tmp_path / "u.zarr").exists()


def test_a_clip_that_breaks_in_the_middle_leaves_its_rows_marked(videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = prepare.decode.frames

    def breaks(timeline: Any, *args: Any) -> Any:
        if timeline.path.endswith("v1.mp4"):
            raise RuntimeError("a bug in a decoder")
        return real(timeline, *args)

    monkeypatch.setattr(prepare.decode, "frames", breaks)
    summary = build_store(videos / "m.csv", tmp_path / "s.zarr", small(), options=options(tmp_path))
    assert [(f.row, f.kind) for f in summary.faults] == [(2, "internal")]
    opened = hfprep.open_store(tmp_path / "s.zarr")
    for split in ("train", "val", "test"):
        columns = opened[split].columns
        assert np.array_equal(columns["ok"], columns["clip"] != 1)


def test_too_little_disk_is_told_before_any_work(videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build.shutil, "disk_usage", lambda _: SimpleNamespace(total=1000, used=990, free=10))
    with pytest.raises(StoreError, match="GB are needed") as told:
        build_store(videos / "m.csv", tmp_path / "s.zarr", small(), options=options(tmp_path))
    assert told.value.kind == "no_space" and not (tmp_path / "s.zarr").exists()


@pytest.mark.parametrize(("method", "moves_s"), [("motion", 4.5), ("imu", 1.5), ("motion+imu", 3.0)])
def test_the_hotspot_is_where_picture_or_sensor_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, moves_s: float) -> None:
    """The picture moves most at 4.5 s and the sensor at 1.5 s; at 3 s both move, each a little less."""
    rng = np.random.default_rng(3)
    still, blocks = rng.integers(60, 200, (64, 80, 3)).astype(np.uint8), rng.integers(0, 255, (200, 32, 32, 3)).astype(np.uint8)
    pictures = [still.copy() for _ in range(150)]
    for k, picture in enumerate(pictures):
        for second, side in ((3.0, 26), (4.5, 30)):
            if abs(k / 25 - second) < 0.3:
                picture[:side, :side] = blocks[k, :side, :side]
    drawn.write(tmp_path / "v.mp4", drawn.steady(150, 40), pictures=pictures)
    t = np.arange(600) / 100
    burst = [np.where(abs(t - at) < 0.3, size * np.sin(60 * t), 0) for at, size in ((1.5, 5.0), (3.0, 4.0))]
    rows = np.stack([t, np.sum(burst, axis=0), 0 * t, 9.81 + np.sum(burst, axis=0), 0.1 + np.sum(burst, axis=0)], axis=1)
    np.savetxt(tmp_path / "imu.csv", rows, delimiter=",", header="t,ax,ay,az,gx", comments="")
    (tmp_path / "m.csv").write_text("video,label,split,imu\nv.mp4,a,train,imu.csv\nv.mp4,a,train,\n")
    recipe = small(f"hotspot.method={method}", "frame.interval_ms=40", "window.eval=hotspot")
    build_store(tmp_path / "m.csv", tmp_path / "s.zarr", recipe, options=options(tmp_path))
    root: Any = zarr.open_group(tmp_path / "s.zarr", mode="r")
    with_rows, without = np.asarray(root["clips"]["hotspot_ns"][:]) / 1e9
    assert (with_rows, without) == (pytest.approx(moves_s, abs=0.4), pytest.approx(4.5, abs=0.4))
    monkeypatch.setattr(prepare, "MEGABYTE", 40)
    build_store(tmp_path / "m.csv", tmp_path / "parts.zarr", recipe, options=options(tmp_path))
    assert files(tmp_path / "s.zarr") == files(tmp_path / "parts.zarr")
