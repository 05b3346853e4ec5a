"""A clip over time: what is told and drawn against what the test wrote into the store."""

from __future__ import annotations

import json
from pathlib import Path

import drawn
import numpy as np
import pytest
from click.testing import CliRunner, Result
from storekit import Made, make_store

import hfprep
from hfprep.build import build_store
from hfprep.cli.inspect import inspect
from hfprep.errors import UsageError
from hfprep.pipeline import load
from hfprep.planned import BuildOptions
from hfprep.report import timeline


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make_store(tmp_path_factory.mktemp("timeline") / "a.zarr", lost={2: ("damaged", "nothing decodes")})


def run(*args: object) -> Result:
    return CliRunner().invoke(inspect, [str(a) for a in args], standalone_mode=False)


def test_windows_of_a_clip_are_those_written(made: Made) -> None:
    for clip in (0, 1):
        split, rows = made.rows_of(clip)
        columns, margin, size = made.columns[split], made.layout.margin, made.layout.size
        got = timeline.clip(hfprep.open_store(made.path), clip)
        assert got.rows.tolist() == rows and got.split == split
        inner = columns["time_ns"][rows][:, margin : margin + size]
        assert got.first_ns.tolist() == inner.min(axis=1).tolist() and got.last_ns.tolist() == inner.max(axis=1).tolist()
        assert got.clamped.tolist() == columns["clamped"][rows][:, margin : margin + size].sum(axis=1).tolist()
        shown = {int(t): picture for t, picture in zip(got.shots_ns, got.shots, strict=True)}
        for row in rows:
            center = int(columns["center_ns"][row])
            same = [r for r in rows if columns["center_ns"][r] == center]
            pictures = [made.frames[split][r][margin + size // 2] for r in same]
            assert any(np.array_equal(shown[center], picture) for picture in pictures)


def test_a_clip_that_failed_says_why(made: Made, tmp_path: Path) -> None:
    got = timeline.clip(hfprep.open_store(made.path), 2)
    assert len(got.rows) == 0 and "nothing decodes" in got.trouble
    assert timeline.save(got, tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


def test_clips_are_named_by_id_or_number(made: Made) -> None:
    store = hfprep.open_store(made.path)
    for number, name in enumerate(store.clips["id"]):
        assert timeline.clip_number(store, str(name)) == timeline.clip_number(store, f"#{number}") == number
    for name in ("nope", "#999", "#x", ""):
        with pytest.raises(UsageError) as fault:
            timeline.clip_number(store, name)
        assert fault.value.kind == "bad_clip"


@pytest.mark.parametrize("layout", ["windows", "frames"])
def test_the_command_draws_and_tells(layout: str, tmp_path: Path) -> None:
    """A square stands still but for ticks 20 to 26: there is the hotspot, and in a store of frames the energy."""
    pictures = [np.full((48, 64, 3), 60, np.uint8) for _ in range(50)]
    for tick, picture in enumerate(pictures):
        x = 4 + 6 * min(max(tick - 20, 0), 6)
        picture[10:30, x : x + 16] = 220
    drawn.write(tmp_path / "v.mp4", drawn.steady(50, 100), pictures=pictures, size=(64, 48))
    (tmp_path / "m.csv").write_text("video,label,split\nv.mp4,a,train\n")
    settings = ("frame.height=48", "frame.width=48", "window.size=8", "split.val=0", "split.test=0", f"store.layout={layout}")
    out = build_store(tmp_path / "m.csv", tmp_path / "s.zarr", load(None, settings), options=BuildOptions(jobs=1, cache=tmp_path / "c")).out
    told = json.loads(run(out, "--clip", "#0", "--json").output)
    assert 1_800_000_000 <= told["hotspot_ns"] <= 2_800_000_000 and told["windows"][0]["center_ns"] == told["hotspot_ns"]
    if layout == "frames":
        energy = {e["time_ns"]: e["energy"] for e in told["energy"]}
        assert len(energy) == 50 and 2_000_000_000 <= max(energy, key=lambda t: energy[t]) <= 2_700_000_000
    else:
        assert told["energy"] == []
    image = tmp_path / "clip.png"
    assert run(out, "--clip", "#0", "--image", image).return_value == 0 and image.read_bytes().startswith(b"\x89PNG")
    shown = run(out, "--clip", "#0").output
    assert "hotspot at" in shown and "train:0" in shown
    with pytest.raises(UsageError, match="two things"):
        CliRunner().invoke(inspect, [str(out), "--clip", "#0", "--window", "train:0"], standalone_mode=False, catch_exceptions=False)
