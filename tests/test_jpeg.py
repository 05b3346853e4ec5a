"""The lossy codec: what is stored is what every reader gives, how far it is from the frames is told, damage is seen."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from storekit import make_store

from hfprep import jpeg, store
from hfprep.errors import StoreError, UsageError
from hfprep.report.facts import facts
from hfprep.report.verify import verify


def test_psnr_is_its_definition() -> None:
    a = np.zeros((3, 2, 2, 3), np.uint8)
    b = a.copy()
    b[1] = 1  # mean squared error 1: 20 log10(255) = 48.13 dB
    b[2] = 255  # and 255^2: 0 dB
    assert jpeg.psnr(a, b) == pytest.approx([np.inf, 48.1308, 0.0], abs=1e-3)


def test_frames_come_back_alone_and_together() -> None:
    y, x = np.mgrid[:37, :51]
    frames = np.stack([np.stack([x * 4, y * 5, np.full_like(x, 20 * k)], -1) for k in range(5)]).astype(np.uint8)
    chunk = jpeg.encode(frames, 95)
    whole = np.empty_like(frames)
    jpeg.decode(chunk, whole)
    assert (jpeg.psnr(frames, whole) > 30).all()
    part = np.empty((2, 37, 51, 3), np.uint8)
    jpeg.decode(chunk, part, first=1, step=3)
    assert np.array_equal(part, whole[[1, 4]])
    for cut in (b"", chunk[:3], chunk[:30], chunk[: len(chunk) // 2], b"\xff" * 40):
        with pytest.raises(ValueError, match=r"."):
            jpeg.decode(cut, np.empty_like(frames))


def test_a_store_says_its_loss_and_all_readers_agree(tmp_path: Path) -> None:
    made = make_store(tmp_path / "s.zarr", codec="jpeg", height=40, width=56)
    reader = store.open_store(made.path)["train"]
    got = reader.read(range(len(reader)))
    assert got["psnr"] == pytest.approx(jpeg.psnr(made.frames["train"], got["frames"])) and (got["psnr"] > 25).all()
    group: Any = zarr.open_group(made.path, mode="r")
    assert np.array_equal(group["train/frames"][:], got["frames"])
    part = np.empty((2, 2, 40, 56, 3), np.uint8)
    reader.read_frames(np.array([3, 0]), part, np.array([1, 0]), step=2)
    assert np.array_equal(part[0], got["frames"][3, 1:4:2]) and np.array_equal(part[1], got["frames"][0, 0:3:2])
    loss = facts(made.path)["loss"]
    every = np.concatenate([store.open_store(made.path)[s].columns["psnr"] for s in ("train", "val", "test")])
    assert loss == {"quality": 90, "psnr_mean_db": pytest.approx(every.mean()), "psnr_min_db": pytest.approx(every.min())}
    assert verify(made.path).good
    shard = made.path / made.layout.shard_key("train", 0)
    data = bytearray(shard.read_bytes())
    data[200:230] = bytes(30)
    shard.write_bytes(data)
    assert not verify(made.path).good


def test_without_the_library_there_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_store(tmp_path / "s.zarr", codec="jpeg", height=40, width=56)
    monkeypatch.setitem(sys.modules, "simplejpeg", None)
    with pytest.raises(UsageError, match=r"hfprep\[jpeg\]"):
        make_store(tmp_path / "t.zarr", codec="jpeg")
    assert not (tmp_path / "t.zarr").exists()
    with pytest.raises((UsageError, StoreError), match=r"hfprep\[jpeg\]"):
        store.open_store(made.path)["train"].read([0])
