"""The picture of a window: what is drawn is read back from the figure, and the file is a picture."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from storekit import make_store

from hfprep.cli.inspect import inspect
from hfprep.errors import UsageError
from hfprep.report import strip as strips
from hfprep.report.strip import Strip

pytest.importorskip("matplotlib", reason="the extra `report` is not installed")


def strip(n: int = 8, margin: int = 2, clamped: int = 3, axes: tuple[str, ...] = ("ax", "ay", "gx"), height: int = 12) -> Strip:
    """The first `clamped` frames repeat the first tick; sensor values of frames 5 and 6 are unknown."""
    index = np.maximum(np.arange(n) - clamped, 0)
    frames = np.broadcast_to(np.arange(n, dtype=np.uint8)[:, None, None, None] * 20, (n, height, 16, 3)).copy()
    time = index * 100_000_000
    values = np.stack([time / 1e9 + 10 * axis for axis in range(len(axes))], 1).astype(np.float32) if axes else None
    if values is not None:
        values[5:7] = np.nan
    return Strip("left · train:12", "8 frames", frames, time, time // 40_000_000 * 40_000_000, np.arange(n) < clamped, margin, axes, values)


def texts(figure: Any) -> list[str]:
    return [text.get_text() for ax in figure.axes for text in ax.texts if text.get_text()]


def test_every_frame_has_its_times_and_marks() -> None:
    window = strip()
    written = texts(strips.draw(window))
    assert [t for t in written if t.startswith("t ")] == ["t 0", "t 0", "t 0", "t 0", "t 100", "t 200", "t 300", "t 400"]
    assert [t for t in written if t.startswith("src ")] == ["src 0", "src 0", "src 0", "src 0", "src 80", "src 200", "src 280", "src 400"]
    marks = [t for t in written if set(t.split(" · ")) <= {"clamped", "margin", "centre", "same frame"}]
    assert marks == ["clamped · margin", "clamped · margin", "clamped", "centre", "margin", "margin"]
    assert "left · train:12" in written


def test_frames_are_drawn_in_order_and_margins_are_pale() -> None:
    window = strip()
    pictures = strips.draw(window).axes[0].images
    shown = [int(np.asarray(image.get_array())[0, 0, 0]) for image in pictures]
    pale = [int(i * 20 * 0.35 + 255 * 0.65) for i in range(8)]
    assert shown == [pale[0], pale[1], 40, 60, 80, 100, pale[6], pale[7]]


def test_clamped_and_centre_frames_have_borders() -> None:
    edges = [patch.get_edgecolor() for patch in strips.draw(strip()).axes[0].patches]
    from matplotlib.colors import to_rgba

    keys = 2  # the two boxes of the legend
    assert edges.count(to_rgba(strips.CLAMP)) == 3 + keys - 1
    assert edges.count(to_rgba(strips.CENTRE)) == 1 + keys - 1


def test_repeats_of_a_slow_source_are_named() -> None:
    window = strip(clamped=0)
    slow = replace(window, source_ns=np.array([0, 0, 160, 160, 320, 400, 480, 640]) * 1_000_000)
    assert texts(strips.draw(slow)).count("same frame") == 1  # tick 300; the other repeat lies in the margin
    assert texts(strips.draw(slow)).count("margin · same frame") == 1


def test_sensor_curves_share_the_frames_time_and_show_what_is_unknown() -> None:
    window = strip()
    _, first, second = strips.draw(window).axes  # ax and ay in one panel, gx in another
    ax, ay = first.lines[:2]
    at = [0.0, 80.0, 200.0, 280.0, 400.0]  # each moment once, though four frames show the first
    assert ax.get_xdata().tolist() == ay.get_xdata().tolist() == at
    assert np.isnan(ax.get_ydata()).tolist() == [False, False, True, True, False]
    assert ay.get_ydata()[4] == pytest.approx(10.4)
    ground = second.patches[0].get_extents().transformed(second.transData.inverted())
    assert (ground.x0, ground.x1) == (pytest.approx((80 + 200) / 2), pytest.approx((280 + 400) / 2))
    assert first.get_xlim() == second.get_xlim()


def test_without_any_value_it_says_so() -> None:
    window = strip()
    assert window.imu is not None
    assert "not measured here" in texts(strips.draw(replace(window, imu=np.full_like(window.imu, np.nan))))


@pytest.mark.parametrize(("n", "height"), [(1, 16), (3, 4), (13, 60), (36, 16)])
def test_nothing_overlaps_or_leaves_the_sheet(n: int, height: int) -> None:
    window = strip(n=max(n, 8), height=height) if n > 6 else strip(n=n, margin=0, clamped=0, axes=(), height=height)
    long = replace(window, title="t " * 200, subtitle="s" * 300, trouble="Wi" * 300, time_ns=window.time_ns + 3 * 3600 * 10**9)
    figure = strips.draw(long)
    figure.canvas.draw()
    renderer, sheet = figure.canvas.get_renderer(), figure.bbox
    boxes = [text.get_window_extent(renderer) for text in figure.axes[0].texts if text.get_text()]
    boxes += [image.get_window_extent(renderer) for image in figure.axes[0].images]
    for number, box in enumerate(boxes):
        assert sheet.x0 <= box.x0 and box.x1 <= sheet.x1 and sheet.y0 <= box.y0 and box.y1 <= sheet.y1
        assert not any(_overlap(box, other) for other in boxes[number + 1 :])


def _overlap(a: Any, b: Any, slack: float = 1.0) -> bool:
    return bool(min(a.x1, b.x1) - max(a.x0, b.x0) > slack and min(a.y1, b.y1) - max(a.y0, b.y0) > slack)


def test_words_with_dollars_and_unknown_letters_are_drawn(tmp_path: Path) -> None:
    file = strips.save(replace(strip(), title="$x_1$ 跳高 \u0e01", trouble="100 $ lost"), tmp_path / "a.png")
    assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.PDF", b"%PDF"), ("a.jpg", b"\xff\xd8")])
def test_kinds_of_files(tmp_path: Path, name: str, start: bytes) -> None:
    strips.save(strip(n=4, margin=0, clamped=0, axes=()), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_files_that_cannot_be_written_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a\.bmp.*\.png"):
        strips.save(strip(), tmp_path / "a.bmp")
    with pytest.raises(UsageError, match="No such file"):
        strips.save(strip(n=4, margin=0, axes=()), tmp_path / "nowhere" / "a.png")


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match=r"hfprep\[report\]"):
        strips.save(strip(), tmp_path / "a.png")


def test_pyplot_is_never_loaded() -> None:
    code = "import sys; from test_strip import *; strips.draw(strip()); sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, check=False).returncode == 0


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 5000), data=st.data())
def test_thinning_keeps_the_centre(n: int, data: st.DataObject) -> None:
    centre = data.draw(st.integers(0, n - 1))
    shown = strips.chosen(n, centre)
    assert centre in shown and len(shown) <= strips.MOST_FRAMES
    assert len(set(np.diff(shown).tolist())) <= 1
    assert n > strips.MOST_FRAMES or shown == list(range(n))


@given(n=st.integers(1, 160))
def test_grid_holds_all_frames_without_an_empty_line(n: int) -> None:
    columns, lines = strips.grid(n)
    assert columns * lines >= n > columns * (lines - 1)
    assert columns <= strips.MOST_COLUMNS


@given(text=st.text(max_size=60), most=st.integers(3, 40))
def test_shorten(text: str, most: int) -> None:
    short = strips.shorten(text, most)
    assert len(short) <= most and "\n" not in short
    assert short == " ".join(text.split()) or "…" in short


def test_axes_of_one_sensor_share_a_panel() -> None:
    assert strips.groups(("acc_x", "acc_y", "Gx", "Gy", "temp", "x", "y")) == [[0, 1], [2, 3], [4], [5], [6]]


def test_command_draws_the_named_window(tmp_path: Path) -> None:
    made = make_store(tmp_path / "s.zarr", n_clips=2, splits=("train",), axes=("ax",))
    image = tmp_path / "strip.png"
    result = CliRunner().invoke(inspect, [str(made.path), "--window", "train:4", "--image", str(image)], standalone_mode=False)
    assert result.return_value == 0
    assert "right" in result.stdout and "clip001" in result.stdout and str(image) in result.stdout
    assert image.read_bytes().startswith(b"\x89PNG")
