"""One build of all real clips (HFPREP_SHARED, default ../shared): how each file ends, and which frames were stored.

tests/data/real_ends.csv was filled by looking at what the ffmpeg program makes of each file, not at what hfprep makes of it: `end` is
built, partial, or the kind of fault for which the file is quarantined; `frames` is how many pictures ffmpeg decodes.
"""

from __future__ import annotations

import base64
import csv
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from caserun import SPLITS, Ran, hfprep
from make_real_frames import OUT as FRAMES
from make_real_frames import SIDE, TICK_NS, small

ENDS = {row["file"]: row for row in csv.DictReader((Path(__file__).parent / "data" / "real_ends.csv").read_text().splitlines())}
TELLING = 2.0  # grey levels between neighbouring frames from which on an error of one frame must show
SIZE = 16


def write_manifest(clips: Path, target: Path, *, labelled_only: bool) -> dict[str, str]:
    """A manifest of the real clips, from their `clips.csv`, with absolute paths; returns file name -> label."""
    facts = list(csv.DictReader((clips / "clips.csv").read_text(encoding="utf-8").splitlines()))
    labels = {row["file"]: row["label"] or "unlabelled" for row in facts if row["label"] or not labelled_only}
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["video", "label"])
        writer.writerows([str(clips / name), label] for name, label in labels.items())
    return labels


@dataclass(frozen=True)
class Built:
    """A finished store of real clips; by file: its label, its place in `clips/`, its windows as (split, row)."""

    ran: Ran
    group: zarr.Group
    labels: dict[str, str]
    clips: dict[str, np.ndarray]
    place: dict[str, int]
    windows: dict[str, list[tuple[str, int]]]
    ok: dict[str, np.ndarray]


def open_built(ran: Ran, out: Path, labels: dict[str, str]) -> Built:
    group = zarr.open_group(str(out), mode="r")
    clips = {name: np.asarray(array[:]) for name, array in group["clips"].arrays()}
    names = [Path(str(video)).name for video in clips["video"]]
    windows: dict[str, list[tuple[str, int]]] = {name: [] for name in labels}
    ok = {}
    for split in (s for s in SPLITS if s in group):
        ok[split] = np.asarray(group[split]["ok"][:])
        for row, clip in enumerate(np.asarray(group[split]["clip"][:])):
            windows[names[int(clip)]].append((split, row))
    return Built(ran, group, labels, clips, {name: i for i, name in enumerate(names)}, windows, ok)


@pytest.fixture(scope="module")
def built(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("real")
    labels = write_manifest(shared / "real" / "clips", folder / "real.csv", labelled_only=False)
    keys = {
        "frame.height": 64, "frame.width": 64, "frame.fit": "stretch", "frame.interval_ms": TICK_NS // 10**6, "window.size": SIZE,
        "window.placement": "cover", "window.eval": "cover", "window.stride": SIZE, "window.margin": 0,
    }  # fmt: skip
    settings = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
    ran = hfprep("build", folder / "real.csv", "-o", folder / "real.zarr", *settings)
    assert ran.code == 3, ran.text
    return open_built(ran, folder / "real.zarr", labels)


def end_of(built: Built, name: str) -> str:
    """built, partial or the kind of fault."""
    good = [built.ok[split][row] for split, row in built.windows[name]]
    kind = str(built.clips["error_kind"][built.place[name]])
    if good and all(good) and not kind:
        return "built"
    return "partial" if any(good) else kind


def test_every_file_ends_as_the_table_says(built: Built) -> None:
    assert set(ENDS) == set(built.labels)
    ends = {name: end_of(built, name) for name in built.labels}
    assert ends == {name: row["end"] for name, row in ENDS.items()}


def test_only_what_no_decoder_can_read_is_quarantined_and_it_is_named(built: Built) -> None:
    out = [name for name, row in ENDS.items() if row["end"] not in ("built", "partial")]
    assert all(built.labels[name] == "unlabelled" for name in out), "a labelled clip is lost"
    for name in out:
        lines = [line for line in built.ran.text.splitlines() if name in line and f"[{ENDS[name]['end']}]" in line]
        assert lines and f"row {int(built.clips['row'][built.place[name]])} " in lines[0], built.ran.text


def test_as_many_frames_are_found_as_ffmpeg_decodes(built: Built) -> None:
    found = {name: int(built.clips["source_frames"][built.place[name]]) for name in ENDS if ENDS[name]["end"] == "built"}
    assert found == {name: int(row["frames"]) for name, row in ENDS.items() if name in found}


def test_labels_are_those_of_the_manifest(built: Built) -> None:
    classes = list(built.group.attrs["classes"])
    assert classes == sorted(set(built.labels.values()))
    numbers = {split: np.asarray(built.group[split]["label"][:]) for split in built.ok}
    assert all(classes[numbers[split][row]] == built.labels[name] for name, places in built.windows.items() for split, row in places)


def unpack(text: str, kind: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), kind)


def test_stored_frames_are_those_that_ffmpeg_shows_at_their_times(built: Built) -> None:
    if not FRAMES.exists():
        pytest.skip(f"no table {FRAMES}")
    table: dict[str, dict[str, Any]] = json.loads(FRAMES.read_text())
    wrong, compared = [], 0
    for name in (n for n in table if n in ENDS and ENDS[n]["end"] == "built"):
        faults, telling = compare(built, name, table[name])
        wrong += [f"{name}: {fault}" for fault in faults]
        compared += telling
    assert not wrong, "\n".join(wrong)
    assert compared > 600, f"only {compared} pictures could have shown a neighbour"


def compare(built: Built, name: str, facts: dict[str, Any]) -> tuple[list[str], int]:
    """Times and pictures of all windows of one file; what is wrong, and in how many pictures a neighbour would have shown."""
    times = np.cumsum(unpack(facts["times"], "<i8"))
    want = np.cumsum(unpack(facts["pictures"], "u1").reshape(-1, SIDE, SIDE), axis=0, dtype=np.uint8)
    apart = unpack(facts["apart"], "u1") / 8
    faults, seen, telling = [], set(), 0
    for split, row in built.windows[name]:
        group = built.group[split]
        time_ns, source_ns = (np.asarray(group[column][row]) for column in ("time_ns", "source_ns"))
        ticks = time_ns // TICK_NS
        seen.update(ticks.tolist())
        if not np.array_equal(source_ns, times[np.searchsorted(times, time_ns, side="right") - 1]):
            faults.append(f"window {split}/{row} shows frames of {source_ns.tolist()} at {time_ns.tolist()}")
        error = np.abs(small(np.asarray(group["frames"][row])) - want[ticks]).mean(axis=(1, 2))
        allowed = np.where(apart[ticks] >= TELLING, np.minimum(apart[ticks] / 2, 3), 3)
        telling += int((apart[ticks] >= TELLING).sum())
        faults += [f"the picture at tick {t} differs by {e:.1f} levels" for t, e, most in zip(ticks, error, allowed) if e > most]
    if seen != set(range(int(times[-1]) // TICK_NS + 1)):
        faults.append(f"ticks {sorted(seen)}, last frame at {times[-1]} ns")
    return faults, telling


@pytest.mark.long
def test_the_main_job(shared: Path, tmp_path: Path) -> None:
    """All labelled clips with the defaults, by one command: every one is built, and the store can be inspected."""
    labels = write_manifest(shared / "real" / "clips", tmp_path / "labelled.csv", labelled_only=True)
    ran = hfprep("build", tmp_path / "labelled.csv", "-o", tmp_path / "labelled.zarr")
    assert ran.code == 0, ran.text
    made = open_built(ran, tmp_path / "labelled.zarr", labels)
    assert len(labels) == 91 and {end_of(made, name) for name in labels} == {"built"}
    looked = hfprep("inspect", tmp_path / "labelled.zarr")
    assert looked.code == 0 and all(label in looked.text for label in set(labels.values()))
