"""Damaged videos and manifests: every row ends as built, partial or quarantined; nothing crashes, hangs or eats memory."""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import drawn
import numpy as np
import pytest

import hfprep
from hfprep import isolate, manifest, probe
from hfprep.build import build_store
from hfprep.errors import ClipError, HfprepError, ManifestError
from hfprep.pipeline import load
from hfprep.planned import BuildOptions

RECIPE = load(
    None, ("frame.height=32", "frame.width=32", "window.size=4", "window.per_clip=2", "window.margin=0", "split.val=0", "split.test=0")
)
CLIP_DEADLINE_S = 600.0  # the clips here last at most 36 s: a decoder that needs longer hangs, on a slow machine too
MEMORY_KB = 1_500_000
LIMIT_MB = 2  # larger files are not mutated: the time goes into mutants, not into copies


def mutants(data: bytes, count: int, rng: np.random.Generator) -> Iterator[bytes]:
    """Copies of a file with flipped bytes, a damaged header, cut, with a hole, a repeated or a moved stretch."""
    for k in range(count):
        raw = np.frombuffer(data, np.uint8).copy()
        n = len(raw)
        a, b = sorted(rng.integers(0, n, 2).tolist())
        b = min(b, a + n // 8)
        match k % 6:
            case 0:
                raw[rng.integers(0, n, max(1, n // 500))] = rng.integers(0, 256, max(1, n // 500))
            case 1:
                raw[rng.integers(0, min(n, 400), 6)] = rng.integers(0, 256, 6)
            case 2:
                raw = raw[: max(1, b)]
            case 3:
                raw[a:b] = 0
            case 4:
                raw = np.concatenate([raw[:b], raw[a:b], raw[b:]])
            case _:
                raw = np.concatenate([raw[:a], raw[b:], raw[a:b]])
        yield raw.tobytes()


def check_ends(folder: Path, tmp_path: Path) -> Counter[str]:
    """Build a folder of mutants; how many rows end in which way."""
    files = sorted(folder.iterdir())
    table = tmp_path / "mutants.csv"
    table.write_text("video,label\n" + "".join(f"{file},{'ab'[k % 2]}\n" for k, file in enumerate(files)))
    options = BuildOptions(engine="processes", jobs=2, clip_timeout_s=CLIP_DEADLINE_S, cache=tmp_path / "cache")
    summary = build_store(table, tmp_path / "mutants.zarr", RECIPE, options=options)
    isolate.end_idle()
    ends = Counter(fault.kind for fault in summary.faults)
    clips = hfprep.open_store(tmp_path / "mutants.zarr").clips
    assert len(clips["id"]) == len(files)
    for error, windows, kind in zip(clips["error"], clips["n_windows"], clips["error_kind"]):
        assert bool(error) == bool(kind) and (error or windows > 0)  # a row is in the store, or its reason is
    assert not ends.keys() & {"crashed", "timeout", "internal"}, summary.faults
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < MEMORY_KB
    return ends


def test_mutants_of_drawn_videos(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    (tmp_path / "m").mkdir()
    sources = [
        drawn.write(tmp_path / "a.mp4", drawn.steady(20, 40), b_frames=2),
        drawn.write(tmp_path / "b.avi", drawn.steady(20, 1), time_base=drawn.MS * 40, codec="mpeg4"),
        drawn.write(tmp_path / "c.ts", drawn.steady(20, 3600), time_base=drawn.MS / 90),
        drawn.write(tmp_path / "d.mkv", drawn.steady(20, 40)),
    ]
    for source in sources:
        for k, data in enumerate(mutants(source.read_bytes(), 6, rng)):
            (tmp_path / "m" / f"{source.stem}{k}{source.suffix}").write_bytes(data)
    drawn.write(tmp_path / "m" / "good.mp4", drawn.steady(20, 40))
    check_ends(tmp_path / "m", tmp_path)


@pytest.mark.long
@pytest.mark.timeout(14400)
def test_two_thousand_mutants_of_real_clips(shared: Path, tmp_path: Path) -> None:
    clips = [
        file for file in sorted((shared / "real" / "clips").iterdir()) if file.suffix != ".csv" and file.stat().st_size < LIMIT_MB << 20
    ]
    rng = np.random.default_rng(2)
    per_clip = -(-2000 // len(clips))
    ends: Counter[str] = Counter()
    for source in clips:
        folder = tmp_path / source.name
        (folder / "m").mkdir(parents=True)
        for k, data in enumerate(mutants(source.read_bytes(), per_clip, rng)):
            (folder / "m" / f"{k}{source.suffix}").write_bytes(data)
        try:
            ends += check_ends(folder / "m", folder)
        except ManifestError as fault:  # not one mutant of this clip can be used
            assert fault.kind == "no_rows"
    print(f"{per_clip * len(clips)} mutants of {len(clips)} clips, quarantined: {dict(ends)}")


def test_mutants_of_headers_are_probed_or_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    source = drawn.write(tmp_path / "a.mp4", drawn.steady(8, 40)).read_bytes()
    for k in range(120):
        raw = np.frombuffer(source, np.uint8).copy()
        at = rng.integers(max(0, len(raw) - 900), len(raw), 4) if k % 2 else rng.integers(0, 80, 4)  # moov lies at the end
        raw[at] = rng.integers(0, 256, 4)
        (tmp_path / "m.mp4").write_bytes(raw.tobytes())
        try:
            assert len(probe.probe(str(tmp_path / "m.mp4")).pts_ns) > 0
        except ClipError as fault:
            assert fault.kind and "m.mp4" in str(fault)


def test_mutants_of_manifests_are_read_or_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    text = "video,label,start,end,split\n" + "".join(f'"clips/v {k}.mp4",walk,{k}.5,0:0{k + 1}:00.25,train\n' for k in range(8))
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        for data in mutants(text.encode(encoding), 100, rng):
            (tmp_path / "m.csv").write_bytes(data)
            try:
                listed = manifest.read(tmp_path / "m.csv")
            except HfprepError as fault:
                assert str(fault)
                continue
            assert listed.clips or listed.faults
