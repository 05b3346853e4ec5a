"""A folder of numbered pictures as a video: picture n comes on the screen (n - first number) / fps seconds after the first."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from . import clock
from .errors import ClipError
from .geometry import orientation
from .records import Timeline
from .video import Video, display_matrix

if TYPE_CHECKING:
    import av

    from .records import I64

SUFFIXES = {"jpg", "jpeg", "png", "bmp", "webp", "tif", "tiff", "ppm", "pgm"}
FASTEST = 100_000  # frames a second: more is a slip
_NUMBERED = re.compile(r"(?s)(.*?)(\d{1,18})")


def timeline(folder: str, fps: str) -> Timeline:
    """Timeline of a folder of numbered pictures, `files` in the order of their numbers; fps as text: "25", "29.97", "30000/1001".

    Where a number is missing the picture before it stays on the screen. Other files of the folder do not count.
    Raises ClipError: not_a_file (no numbered pictures, or fps is missing), bad_fps, bad_pictures (two series, a number twice),
    no_frames (no picture can be opened).
    """
    names = _numbered(folder)
    if not names:
        what = "a folder without numbered pictures, not a video"
        raise ClipError(what, where=folder, remedy="name a video file, or a folder of numbered pictures", kind="not_a_file")
    if not fps:
        what = f"a folder of {len(names)} numbered pictures whose rate is not known"
        raise ClipError(what, where=folder, remedy="add a column fps with their frames a second", kind="not_a_file")
    per_second = rate(fps, folder)
    first = min(names)
    numbers = sorted(names)
    files = tuple(names[number] for number in numbers)
    frame, video = _any_picture(folder, files)
    holes = numbers[-1] - first + 1 - len(numbers)
    note = f"{holes} of {holes + len(numbers)} picture numbers are missing: the picture before stays on the screen"
    turn = orientation(display_matrix(frame, video))
    pts = [number - first for number in numbers]
    return Timeline(
        path=folder,
        pts_ns=_times(pts, per_second, folder),
        pts=np.array(pts, np.int64),
        time_base=1 / per_second,
        stream=0,
        clock="pictures",
        trusted=False,
        reordered=False,
        keyframes=np.zeros(0, np.int64),
        width=frame.width,
        height=frame.height,
        rotation=turn.degrees,
        codec=video.context.name,
        container="pictures",
        fps=float(per_second),
        notes=(note,) if holes else (),
        files=files,
    )


def decode(timeline: Timeline, wanted: I64) -> Iterator[tuple[int, av.VideoFrame, bool, Video]]:
    """(frame number, picture, whole, its file) of the wanted pictures in order; those that do not open are left out."""
    for index in wanted.tolist():
        try:
            with Video(os.path.join(timeline.path, timeline.files[index]), still=True) as video:  # noqa: PTH118 - names hold any character
                for frame, whole in video.pictures():
                    yield index, frame, whole and not video.faults, video
                    break
        except ClipError:
            continue


def _numbered(folder: str) -> dict[int, str]:
    """Number -> file name of the pictures; raises ClipError (bad_pictures) where they are not one series."""
    series: dict[str, dict[int, str]] = {}
    with os.scandir(folder) as entries:
        for name in sorted(entry.name for entry in entries if not entry.name.startswith(".") and entry.is_file()):
            stem, _, suffix = name.rpartition(".")
            found = _NUMBERED.fullmatch(stem)
            if found is None or suffix.casefold() not in SUFFIXES:
                continue
            numbers = series.setdefault(found[1], {})
            twice = numbers.setdefault(int(found[2]), name)
            if twice != name:
                what = f"two pictures have number {int(found[2])}: {twice} and {name}"
                raise ClipError(what, where=folder, remedy="keep one of them", kind="bad_pictures")
    if len(series) > 1:
        names = ", ".join(repr(name) for name in list(series)[:3])
        what = f"pictures of {len(series)} series: names begin with {names}"
        raise ClipError(what, where=folder, remedy="give each series a folder of its own", kind="bad_pictures")
    return next(iter(series.values()), {})


def rate(fps: str, folder: str) -> Fraction:
    """Frames a second from text; raises ClipError (bad_fps)."""
    try:
        found = Fraction(fps.strip().replace(",", "."))
    except (ValueError, ZeroDivisionError):
        found = Fraction(0)
    if not 0 < found <= FASTEST:
        what = f"fps = {fps!r} is no rate"
        raise ClipError(what, where=folder, remedy='write frames a second: 25, 29.97 or "30000/1001"', kind="bad_fps")
    return found


def _times(numbers: list[int], per_second: Fraction, folder: str) -> I64:
    try:
        return clock.from_pts(numbers, 1 / per_second, folder)
    except ClipError:
        gap = max(b - a for a, b in pairwise([*numbers, numbers[-1]]))
        what = f"picture numbers jump by {gap}, more than a day at {float(per_second):g} frames a second"
        raise ClipError(what, where=folder, remedy="check fps and the pictures' names", kind="bad_pictures") from None


def _any_picture(folder: str, files: tuple[str, ...]) -> tuple[av.VideoFrame, Video]:
    """The first picture that decodes."""
    for name in files:
        try:
            with Video(str(Path(folder, name)), still=True) as video:
                for frame, _ in video.pictures():
                    return frame, video
        except ClipError:
            continue
    what = f"none of the {len(files)} pictures can be opened"
    raise ClipError(what, where=folder, remedy="check them in a viewer; fetch them again", kind="no_frames")
