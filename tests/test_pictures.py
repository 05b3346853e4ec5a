"""Folders of numbered pictures as videos: their times, what is missing or damaged, and the same pixels as a video of them."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path
from typing import Any

import drawn
import numpy as np
import PIL.Image
import PIL.ImageOps
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hfprep
from hfprep import decode, pictures, probe
from hfprep.build import build_store
from hfprep.errors import ClipError
from hfprep.pipeline import load
from hfprep.planned import BuildOptions, plan_build

SIZE = decode.Geometry(64, 80, "stretch")


def save(folder: Path, *numbers: int, name: str = "{:05d}.png", size: tuple[int, int] = (80, 64)) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        PIL.Image.fromarray(drawn.picture(number, size)).save(folder / name.format(number))
    return folder


def png() -> bytes:
    kept = io.BytesIO()
    PIL.Image.fromarray(drawn.picture(0)).save(kept, "png")
    return kept.getvalue()


def seen(folder: Path, fps: str, ticks_ms: list[int]) -> tuple[list[int], list[bool]]:
    found = decode.frames(pictures.timeline(str(folder), fps), np.array(ticks_ms, np.int64) * 1_000_000, SIZE)
    return [drawn.number_in(frame) for frame in found.frames], found.ok.tolist()


def test_a_picture_stays_until_the_next_number(tmp_path: Path) -> None:
    folder = save(tmp_path / "f", 7, 8, 9, 12, name="img {}.png")
    timeline = pictures.timeline(str(folder), "10")
    assert timeline.pts_ns.tolist() == [0, 100_000_000, 200_000_000, 500_000_000]
    assert timeline.notes == ("2 of 6 picture numbers are missing: the picture before stays on the screen",)
    assert seen(folder, "10", [0, 99, 100, 299, 499, 500, 900]) == ([7, 7, 8, 9, 9, 12, 12], [True] * 7)


def test_numbers_and_not_names_give_the_order(tmp_path: Path) -> None:
    folder = save(tmp_path / "f", *range(1, 12), name="{}.png")  # by name: 1, 10, 11, 2
    assert seen(folder, "1", [0, 1000, 8000, 9000, 10000])[0] == [1, 2, 9, 10, 11]


@given(fps=st.fractions(min_value=Fraction(1, 10), max_value=240, max_denominator=1001), numbers=st.sets(st.integers(0, 300), min_size=1))
def test_times_are_exact(fps: Fraction, numbers: set[int], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("n")
    for number in numbers:
        (folder / f"{number}.png").write_bytes(png())
    found = pictures.timeline(str(folder), str(fps))
    first = min(numbers)
    assert found.pts_ns.tolist() == [int((number - first) * 10**9 / fps) for number in sorted(numbers)]


def test_the_same_pixels_as_a_video_of_them(tmp_path: Path) -> None:
    folder = save(tmp_path / "f", *range(20), size=(160, 120))
    drawn.write(tmp_path / "v.mov", drawn.steady(20, 40), codec="png", pix_fmt="rgb24", size=(160, 120))
    ticks = np.arange(0, 800, 33, dtype=np.int64) * 1_000_000
    geometry = decode.Geometry(50, 50, "crop")
    a = decode.frames(pictures.timeline(str(folder), "25"), ticks, geometry)
    b = decode.frames(probe.probe(str(tmp_path / "v.mov")), ticks, geometry)
    assert a.frames.any() and np.array_equal(a.frames, b.frames)
    assert np.array_equal(a.source_ns, b.source_ns) and a.ok.all() and b.ok.all()


def test_damaged_pictures_and_other_sizes(tmp_path: Path) -> None:
    folder = save(tmp_path / "f", 0, 1, 4)
    (folder / "00002.png").write_bytes(b"no picture")
    (folder / "00003.png").write_bytes(b"")
    save(folder, 5, size=(240, 48))
    (folder / "Thumbs.db").write_bytes(b"x")
    (folder / "cover.jpg").write_bytes(b"x")
    numbers, ok = seen(folder, "1", [0, 1000, 2000, 3000, 4000, 5000])
    assert (numbers[:2], numbers[4:], ok) == ([0, 1], [4, 5], [True, True, False, False, True, True])


@pytest.mark.parametrize(
    ("names", "fps", "kind", "words"),
    [
        ((), "25", "not_a_file", "without numbered pictures"),
        (("a.png", "b.png"), "25", "not_a_file", "without numbered pictures"),
        (("1.png", "2.png"), "", "not_a_file", "column fps"),
        (("1.png", "2.png"), "fast", "bad_fps", "'fast'"),
        (("1.png", "2.png"), "0", "bad_fps", "'0'"),
        (("1.png", "2.png"), "-25", "bad_fps", "'-25'"),
        (("1.png", "2.png"), "1/0", "bad_fps", "'1/0'"),
        (("1.png", "01.png"), "25", "bad_pictures", "number 1: 01.png and 1.png"),
        (("x1.png", "y1.png"), "25", "bad_pictures", "'x', 'y'"),
        (("1.jpg", "2.jpg"), "25", "no_frames", "none of the 2 pictures"),
    ],
)
def test_faults_are_told_apart(tmp_path: Path, names: tuple[str, ...], fps: str, kind: str, words: str) -> None:
    for name in names:
        (tmp_path / name).write_bytes(b"no picture")
    with pytest.raises(ClipError) as fault:
        pictures.timeline(str(tmp_path), fps)
    assert fault.value.kind == kind and words in str(fault.value)


def test_a_percent_sign_in_a_name_is_no_pattern(tmp_path: Path) -> None:
    folder = save(tmp_path / "a%03d", 1, 2, name="%d{}.png")
    assert seen(folder, "1", [0, 1000])[0] == [1, 2]


def test_a_build_takes_folders_and_files_side_by_side(tmp_path: Path) -> None:
    save(tmp_path / "walk", *range(30))
    drawn.write(tmp_path / "v.mp4", drawn.steady(30, 40))
    rows = ["walk,a,train,25", "walk,b,val,12.5", "v.mp4,b,train,", "v.mp4,a,test,not used for files", "walk,a,train,"]
    (tmp_path / "m.csv").write_text("video,label,split,fps\n" + "\n".join(rows) + "\n")
    recipe = load(None, ("frame.height=64", "frame.width=80", "frame.fit=stretch", "window.size=4", "window.margin=0"))
    options = BuildOptions(cache=tmp_path / "cache")
    planned = plan_build(tmp_path / "m.csv", recipe, options)
    assert [(f.row, f.kind) for f in planned.faults] == [(5, "not_a_file")]
    store = hfprep.open_store(build_store(tmp_path / "m.csv", tmp_path / "s.zarr", recipe, options=options).out)
    for split, frame_ms in (("train", 40), ("val", 80)):
        rows_read = store[split].read(range(len(store[split])))
        for frames, times, clip in zip(rows_read["frames"], rows_read["time_ns"], rows_read["clip"]):
            if clip < 2:
                assert [drawn.number_in(f) for f in frames] == [int(t) // 1_000_000 // frame_ms for t in times]


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tif"])
@pytest.mark.parametrize("tag", range(9))
def test_cameras_orientation_is_applied(tmp_path: Path, suffix: str, tag: int) -> None:
    picture = PIL.Image.fromarray(drawn.picture(5, (80, 40)))
    exif = PIL.Image.Exif()
    exif[0x0112] = tag
    quality: dict[str, Any] = {} if suffix in ("png", "tif") else {"quality": 100}
    picture.save(tmp_path / f"1.{suffix}", exif=exif, **quality)
    upright = PIL.ImageOps.exif_transpose(PIL.Image.open(tmp_path / f"1.{suffix}")).convert("RGB")
    timeline = pictures.timeline(str(tmp_path), "1")
    found = decode.frames(timeline, np.zeros(1, np.int64), decode.Geometry(upright.height, upright.width, "stretch"))
    assert found.ok.all()
    assert np.abs(found.frames[0].astype(int) - np.asarray(upright).astype(int)).mean() < 4


def test_numbers_that_jump_over_days_are_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "1.png").write_bytes(png())
    (tmp_path / "9999999999.png").write_bytes(png())
    with pytest.raises(ClipError, match=r"jump by 9999999998.*check fps"):
        pictures.timeline(str(tmp_path), "25")
