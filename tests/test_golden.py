"""Stores of every format version, layout and codec that was ever written must read right for ever (see make_golden.py)."""

from __future__ import annotations

import tarfile
from pathlib import Path

import drawn
import numpy as np
import pytest
from make_golden import GOLDEN

import hfprep
from hfprep.layout import CODECS, FORMAT_VERSION, KINDS
from hfprep.report.verify import verify

ARCHIVES = sorted(GOLDEN.glob("*.tar.gz"))


def test_there_is_one_of_each() -> None:
    assert {f"v{FORMAT_VERSION}-{kind}-{codec}.tar.gz" for kind in KINDS for codec in CODECS} <= {a.name for a in ARCHIVES}


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda a: a.name.removesuffix(".tar.gz"))
def test_it_reads_right(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "s.zarr", filter="data")
    store = hfprep.open_store(tmp_path / "s.zarr")
    assert store.classes == ["left", "right"] and sum(store.layout.rows) >= 5
    for split, labels in (("train", {0, 1}), ("test", {0})):
        rows = store[split].read(range(len(store[split])))
        assert set(rows["label"].tolist()) == labels and rows["ok"].all()
        for k, clip in enumerate(rows["clip"].tolist()):
            numbers = [drawn.number_in(frame) for frame in rows["frames"][k]]
            assert numbers == [20 * clip + int(t) // 40_000_000 for t in rows["time_ns"][k]]
            assert np.array_equal(rows["source_ns"][k], rows["time_ns"][k] // 40_000_000 * 40_000_000)
            assert rows["imu"][k, :, 0] == pytest.approx(rows["source_ns"][k] / 1e8 + clip, abs=1e-5)  # row n at n / 10 s measures n + clip
            wanted = int(rows["center_ns"][k]) + 100_000_000 * np.arange(-3, 3)  # 4 frames and a margin of 1; ticks at 0 to 0.5 s
            assert np.array_equal(rows["clamped"][k], (wanted < 0) | (wanted > 500_000_000))
            assert np.array_equal(rows["time_ns"][k], wanted.clip(0, 500_000_000))
    assert verify(tmp_path / "s.zarr").good
