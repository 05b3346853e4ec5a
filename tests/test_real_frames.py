"""The frames chosen from all real clips against what the ffmpeg program decodes (tests/make_real_frames.py wrote the table).

All times of all files are compared, pictures of the first 2.5 s of each; with --long all pictures.
"""

from __future__ import annotations

import base64
import json
import zlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from make_real_frames import OUT, SIDE, small
from numpy.typing import NDArray

from hfprep import decode, probe, resample

TABLE: dict[str, dict[str, Any]] = json.loads(OUT.read_text())
TICK = Fraction(100_000_000)
TELLING = 2.0  # levels between neighbours from which on an error of one frame must show
DAMAGED = ("corrupted.mp4",)


def unpack(text: str, kind: str) -> NDArray[Any]:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), kind)


@pytest.mark.parametrize("name", TABLE)
def test_frames_are_those_of_the_ffmpeg_program(name: str, shared: Path, request: pytest.FixtureRequest) -> None:
    path = shared / "real" / "clips" / name
    if not path.exists():
        pytest.skip(f"no file {path}")
    facts = TABLE[name]
    timeline = probe.probe(str(path))
    times = np.cumsum(unpack(facts["times"], "<i8"))
    assert timeline.stream == facts["stream"]
    lost = np.isin(timeline.pts_ns, times, invert=True)  # promised by the index, refused by the decoder
    np.testing.assert_array_equal(timeline.pts_ns[~lost], times)
    ticks = resample.ticks(int(times[-1]), 0, None, TICK)
    if not request.config.getoption("--long"):
        ticks = ticks[:25]
    shown = decode.frames(timeline, ticks, decode.Geometry(64, 64, "stretch"))
    assert not shown.ok[np.isin(shown.source_ns, timeline.pts_ns[lost])].any()
    want = np.cumsum(unpack(facts["pictures"], "u1").reshape(-1, SIDE, SIDE), axis=0, dtype=np.uint8)[: len(ticks)]
    apart = unpack(facts["apart"], "u1")[: len(ticks)] / 8
    seen = np.isin(shown.source_ns, times)
    error = np.where(seen & shown.ok, np.abs(small(shown.frames) - want).mean((1, 2)), 0)
    telling = apart >= TELLING
    assert error.max() < 3, f"pictures differ by {error.max():.1f} levels at tick {error.argmax()}"
    assert np.all(error[telling] < apart[telling] / 2), f"ticks {np.flatnonzero(telling & (error >= apart / 2))} show a neighbour"
    assert shown.ok.mean() >= 0.9 or name in DAMAGED


def test_the_table_can_tell_neighbours_apart() -> None:
    telling = [np.count_nonzero(unpack(f["apart"], "u1") / 8 >= TELLING) for f in TABLE.values() if "apart" in f]
    assert len(TABLE) >= 112 and sum(telling) > 600, (len(TABLE), sum(telling))
