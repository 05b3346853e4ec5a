"""From a stored picture to the output rectangle: which way up, what is cut off, how large it is made, where it goes.

Arithmetic alone. Everything is planned on the picture as stored; turning is done last, on the small result.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from .records import U8, require

FITS = ("crop", "pad", "stretch")


@dataclass(frozen=True, slots=True)
class Geometry:
    """Output size in pixels and how a picture of another shape gets there.

    fit   "crop": short side resized, centre kept; "pad": whole picture, black bars, centred; "stretch": proportions given up
    """

    height: int
    width: int
    fit: str = "crop"

    def __post_init__(self) -> None:
        require(self.height > 0 and self.width > 0, f"output size {self.width}x{self.height}")
        require(self.fit in FITS, f"fit {self.fit!r} is none of {FITS}")


@dataclass(frozen=True, slots=True)
class Orientation:
    """How a stored picture becomes upright: swap its axes, then mirror rows and columns. exact: no angle was rounded."""

    swap: bool = False
    flip_rows: bool = False
    flip_columns: bool = False
    exact: bool = True

    @property
    def degrees(self) -> int:
        """Counter-clockwise quarter turns of the stored picture, in degrees; mirroring left aside."""
        if self.swap:
            return 90 if self.flip_rows else 270
        return 180 if self.flip_rows else 0

    def upright(self, picture: U8) -> U8:
        """A view of picture (h,w,3), turned."""
        turned = picture.transpose(1, 0, 2) if self.swap else picture
        return turned[:: -1 if self.flip_rows else 1, :: -1 if self.flip_columns else 1]


def orientation(matrix: bytes | None) -> Orientation:
    """Orientation from a display matrix (nine int32; x' = a x + c y, y' = b x + d y), to the nearest of the eight that keep a
    rectangle upright. None or a matrix of zeros: as stored."""
    if matrix is None or len(matrix) < 36:
        return Orientation()
    m = np.frombuffer(matrix[:36], "<i4").astype(np.int64)
    a, b, c, d = int(m[0]), int(m[1]), int(m[3]), int(m[4])
    if abs(a) + abs(d) >= abs(b) + abs(c):
        return Orientation(False, d < 0, a < 0, b == c == 0)
    return Orientation(True, b < 0, c < 0, a == d == 0)


@dataclass(frozen=True, slots=True)
class Placement:
    """Stored pixels (x, y, width, height) -> scaled (width, height), still as stored -> put upright at (top, left)."""

    crop: tuple[int, int, int, int]
    scaled: tuple[int, int]
    at: tuple[int, int]


def place(
    size: tuple[int, int], pixel_shape: Fraction, turn: Orientation, geometry: Geometry, grain: tuple[int, int] = (2, 2)
) -> Placement:
    """Plan for a stored picture of size (width, height) whose pixels are pixel_shape times as wide as high.

    grain: pixels that share a colour value (2,2 for 4:2:0); what is cut off keeps to it.
    """
    width, height = size
    goal_w, goal_h = (geometry.height, geometry.width) if turn.swap else (geometry.width, geometry.height)
    crop, scaled = (0, 0, width, height), (goal_w, goal_h)
    shape = width * pixel_shape / height  # of the whole picture as shown
    goal = Fraction(goal_w, goal_h)
    if geometry.fit == "crop" and shape != goal:
        keep_w = width if shape < goal else _even(height * goal / pixel_shape, width)
        keep_h = height if shape > goal else _even(width * pixel_shape / goal, height)
        crop = (_centred(width - keep_w, grain[0]), _centred(height - keep_h, grain[1]), keep_w, keep_h)
    if geometry.fit == "pad" and shape > goal:
        scaled = (goal_w, max(1, round(goal_w / shape)))
    elif geometry.fit == "pad":
        scaled = (max(1, round(goal_h * shape)), goal_h)
    shown_w, shown_h = (scaled[1], scaled[0]) if turn.swap else scaled
    return Placement(crop, scaled, ((geometry.height - shown_h) // 2, (geometry.width - shown_w) // 2))


def _even(length: Fraction, most: int) -> int:
    """Nearest even length in 2 .. most: colour planes of half size then end where the picture ends."""
    return min(most, max(2, 2 * round(length / 2)))


def _centred(spare: int, grain: int) -> int:
    return spare // 2 // grain * grain
