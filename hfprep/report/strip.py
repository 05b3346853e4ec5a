"""A window as a picture: its frames with the times under them, and the sensor curves of the same moments below."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..records import F32, I64, U8, Bool, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Everything is placed in inches on one sheet: what fits and what overlaps can then be worked out, not hoped for.
EDGE, CELL, GAP, LABELS, HEAD, PANEL, FOOT, LEFT = 0.3, 1.2, 0.12, 0.52, 0.95, 1.25, 0.3, 0.75
MOST_FRAMES, MOST_COLUMNS, LEAST_COLUMNS, DPI = 160, 12, 6, 130
INK, FAINT, CLAMP, CENTRE, MISSING = "#1d2733", "#7c8794", "#d9480f", "#1264a3", "#e9ecef"
CURVES = ("#1264a3", "#d9480f", "#2b8a3e", "#862e9c", "#5c4a00", "#0b7285")


@dataclass(frozen=True, slots=True, eq=False)
class Strip:
    """What the picture of one window shows.

    frames u8 (L,H,W,3); time_ns, source_ns i64 (L,), clamped bool (L,); margin: spare ticks on each side of the window;
    imu f32 (L,M) with NaN where unknown, or None; axes: M names; title and subtitle: one line each;
    trouble: why the window cannot be used, "" if it can.
    """

    title: str
    subtitle: str
    frames: U8
    time_ns: I64
    source_ns: I64
    clamped: Bool
    margin: int
    axes: tuple[str, ...] = ()
    imu: F32 | None = None
    trouble: str = ""

    def __post_init__(self) -> None:
        n = len(self.time_ns)
        require(self.frames.ndim == 4 and self.frames.shape[0] == n > 2 * self.margin, f"frames {self.frames.shape}, {n} times")
        require(self.source_ns.shape == self.clamped.shape == (n,), "source_ns and clamped have one value a frame")
        require(self.imu is None or self.imu.shape == (n, len(self.axes)), "imu is (frames, axes)")

    @property
    def centre(self) -> int:
        """Index of the window's centre frame: size // 2, after the margin."""
        return self.margin + (len(self.time_ns) - 2 * self.margin) // 2

    def __repr__(self) -> str:
        return f"Strip({self.title!r}, {self.frames.shape})"


def save(strip: Strip, path: str | Path) -> Path:
    """Draw a window and write it as PNG, PDF, SVG or JPEG (by the name's ending).

    Raises UsageError when matplotlib is absent (extra `report`), the ending is unknown, or the file cannot be written.
    """
    return write(lambda: draw(strip), path)


def write(drawn: Callable[[], Figure], path: str | Path) -> Path:
    """Write a picture as the file's name ends; raises UsageError as `save` does."""
    file = Path(path)
    if file.suffix.lower() not in (".png", ".pdf", ".svg", ".jpg", ".jpeg"):
        raise UsageError(f"cannot draw a picture into {file.name!r}", remedy="end the name in .png, .svg, .pdf or .jpg", kind="bad_image")
    try:
        with warnings.catch_warnings():  # a label in a script that the font lacks gives boxes, not a warning per letter
            warnings.filterwarnings("ignore", message=r"Glyph \d+ .*missing from")
            drawn().savefig(file, dpi=DPI, facecolor="white")
    except OSError as fault:
        raise UsageError(f"cannot write the picture: {fault.strerror}", where=str(file), kind="bad_image") from None
    return file


def draw(strip: Strip) -> Figure:
    """The picture as a matplotlib Figure, made without pyplot's global state; long windows are thinned to 160 frames at most."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError("pictures need matplotlib", remedy="pip install 'hfprep[report]'", kind="missing_extra") from None
    shown = chosen(len(strip.time_ns), strip.centre)
    columns, lines = grid(len(shown))
    cell_h = CELL * float(np.clip(strip.frames.shape[1] / strip.frames.shape[2], 0.4, 2.5))
    panels = groups(strip.axes) if strip.imu is not None else []
    width = 2 * EDGE + columns * CELL + (columns - 1) * GAP
    top = HEAD + (0.22 if strip.trouble else 0.0)
    frames_h = lines * (cell_h + LABELS) + (lines - 1) * GAP
    height = top + frames_h + (0.15 + len(panels) * PANEL + FOOT if panels else 0.0) + EDGE / 2
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    sheet = figure.add_axes((0, 0, 1, 1))
    sheet.set_axis_off()
    _head(sheet, strip, width, len(shown))
    for place, index in enumerate(shown):
        line, column = divmod(place, columns)
        corner = (EDGE + column * (CELL + GAP), top + line * (cell_h + LABELS + GAP))
        _frame(sheet, strip, index, corner, cell_h)
    sheet.set(xlim=(0, width), ylim=(height, 0), aspect="auto")
    for number, names in enumerate(panels):
        y = top + frames_h + 0.15 + number * PANEL
        box = (LEFT / width, 1 - (y + PANEL - 0.12) / height, (width - LEFT - EDGE) / width, (PANEL - 0.42) / height)
        _curves(figure.add_axes(box), strip, names, last=number == len(panels) - 1)
    return figure


def chosen(n: int, centre: int) -> list[int]:
    """Frames to draw, at most 160 of n, evenly apart and with the centre among them.

    >>> chosen(5, 2)
    [0, 1, 2, 3, 4]
    """
    step = -(-n // MOST_FRAMES)
    return list(range(centre % step, n, step))


def grid(n: int) -> tuple[int, int]:
    """Columns and lines for n frames: lines as even as they get, never narrower than the title needs.

    >>> grid(20), grid(3)
    ((10, 2), (6, 1))
    """
    lines = -(-n // MOST_COLUMNS)
    return max(LEAST_COLUMNS, -(-n // lines)), lines


def groups(axes: Sequence[str]) -> list[list[int]]:
    """Axes that share a panel: names that differ only in a final x, y, z or w (their units are the same).

    >>> groups(("ax", "ay", "az", "gyro_x", "gyro_y", "temp"))
    [[0, 1, 2], [3, 4], [5]]
    """
    found: dict[str, list[int]] = {}
    for index, name in enumerate(axes):
        found.setdefault(re.sub(r"(?<=.)[xyzw]$", "", name, flags=re.IGNORECASE), []).append(index)
    return list(found.values())


def milliseconds(ns: int) -> str:
    """A time in ms as it is read: at most three decimals, none where it is whole.

    >>> milliseconds(33_366_700), milliseconds(100_000_000)
    ('33.367', '100')
    """
    return f"{ns / 1e6:.3f}".rstrip("0").rstrip(".")


def shorten(text: str, most: int) -> str:
    """One line of at most `most` letters, cut in the middle, where file names differ least.

    >>> shorten("a/very/long/path.mp4", 11)
    'a/ver…h.mp4'
    """
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    head = most // 2
    return f"{text[:head]}…{text[len(text) - (most - head - 1) :]}"


def _head(sheet: Axes, strip: Strip, width: float, n_shown: int) -> None:
    n = len(strip.time_ns)
    thinned = f"{n_shown} of {n} frames drawn · " if n_shown < n else ""
    _line(sheet, 0.33, strip.title, width, size=13, weight="bold", color=INK)
    _line(sheet, 0.56, thinned + strip.subtitle, width, size=8.5, color=FAINT)
    if strip.trouble:
        _line(sheet, 0.98, f"not used: {strip.trouble}", width, size=8.5, color=CLAMP, weight="bold")
    x = EDGE
    keys = [("centre frame", CENTRE), *([("clamped: the clip's end repeated", CLAMP)] if strip.clamped.any() else [])]
    for words, colour in keys:
        sheet.add_patch(_box(x + 0.01, 0.71, 0.1, 0.1, colour, 1.6))
        sheet.text(x + 0.18, 0.765, words, size=7.5, color=colour, va="center")
        x += 0.32 + 0.055 * len(words)
    faded = "pale: margin, stored for shifts · " if strip.margin else ""
    sheet.text(x, 0.765, f"{faded}t: tick, src: the shown frame's own time (ms)", size=7.5, color=FAINT, va="center")


def _line(sheet: Axes, y: float, words: str, width: float, **style: Any) -> None:
    """One line of free text, cut in the middle until it fits between the sheet's edges."""
    text = sheet.text(EDGE, y, shorten(words, 400), va="center", parse_math=False, **style)
    room = (width - 2 * EDGE) * float(sheet.figure.dpi)
    while (wide := text.get_window_extent().width) > room:
        letters = len(text.get_text())
        text.set_text(shorten(words, min(letters - 1, int(letters * room / wide))))


def _frame(sheet: Axes, strip: Strip, index: int, corner: tuple[float, float], cell_h: float) -> None:
    x, y = corner
    n = len(strip.time_ns)
    spare = index < strip.margin or index >= n - strip.margin
    clamped = bool(strip.clamped[index])
    pixels: NDArray[Any] = strip.frames[index]
    if spare:
        pixels = (pixels * 0.35 + 255 * 0.65).astype(np.uint8)
    w = min(CELL, cell_h * pixels.shape[1] / pixels.shape[0])  # a very tall picture keeps its shape in a narrower box
    h = w * pixels.shape[0] / pixels.shape[1]
    x0, y0 = x + (CELL - w) / 2, y + (cell_h - h) / 2
    sheet.imshow(pixels, extent=(x0, x0 + w, y0 + h, y0), interpolation="auto", aspect="auto")
    colour = CLAMP if clamped else CENTRE if index == strip.centre else ""
    if colour:
        sheet.add_patch(_box(x0, y0, w, h, colour, 2.6))
    before = max(index - 1, 0)  # a new tick that still shows the frame of the tick before: the source is slower than the grid
    repeat = strip.time_ns[index] > strip.time_ns[before] and strip.source_ns[index] == strip.source_ns[before]
    marks = (("centre", index == strip.centre), ("clamped", clamped), ("margin", spare), ("same frame", repeat))
    words = " · ".join(word for word, holds in marks if holds)
    ink = FAINT if spare else INK
    middle = x + CELL / 2
    sheet.text(middle, y + cell_h + 0.11, f"t {milliseconds(int(strip.time_ns[index]))}", size=7.5, color=ink, ha="center", va="center")
    source = f"src {milliseconds(int(strip.source_ns[index]))}"
    sheet.text(middle, y + cell_h + 0.24, source, size=7.5, color=FAINT, ha="center", va="center")
    sheet.text(middle, y + cell_h + 0.37, words, size=6.8, color=colour or FAINT, ha="center", va="center")


def _box(x: float, y: float, w: float, h: float, colour: str, line: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), w, h, fill=False, edgecolor=colour, linewidth=line, joinstyle="miter", zorder=3)


def _curves(ax: Axes, strip: Strip, names: list[int], *, last: bool) -> None:
    """One panel of sensor curves over the times of the shown frames; where an axis was not measured the ground is grey."""
    assert strip.imu is not None
    times = strip.source_ns / 1e6
    once = np.append(True, np.diff(times) > 0)  # clamped and repeated frames stand at one place of the time axis
    dots = 2.4 if len(times) <= 80 else 0.8
    for number, axis in enumerate(names):
        values, name = strip.imu[:, axis], shorten(strip.axes[axis], 18)
        ax.plot(times[once], values[once], "o-", color=CURVES[number % len(CURVES)], lw=1.2, ms=dots, label=name)
    known: Bool = np.asarray(np.isfinite(strip.imu[:, names]).all(axis=1))
    for a, b in spans(times[once], ~known[once]):
        ax.axvspan(a, b, color=MISSING, lw=0, zorder=0)
    if not known.any():
        ax.text(0.5, 0.5, "not measured here", transform=ax.transAxes, ha="center", va="center", size=8, color=FAINT)
    ax.axvline(times[strip.centre], color=CENTRE, lw=0.9, ls=(0, (4, 3)), zorder=1)
    pad = max((times[-1] - times[0]) * 0.01, 0.5)
    ax.set_xlim(times[0] - pad, times[-1] + pad)
    ax.margins(y=0.12)
    ax.tick_params(labelsize=7, colors=FAINT, labelbottom=last, length=2)
    ax.ticklabel_format(axis="x", style="plain", useOffset=False)
    ax.locator_params(axis="y", nbins=4)
    ax.grid(axis="y", color="#eef1f4", lw=0.7)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color("#c4cbd3")
    ax.legend(  # above the curves, never on them
        loc="lower left",
        bbox_to_anchor=(0, 0.97),
        borderpad=0.2,
        borderaxespad=0.0,
        frameon=False,
        fontsize=7.5,
        ncols=len(names),
        labelcolor="linecolor",
        handlelength=1.2,
        columnspacing=1.2,
    )
    if last:
        ax.set_xlabel("time of the shown frame (ms from the video's first frame); grey: not measured", size=7.5, color=FAINT)


def spans(times: NDArray[np.float64], marked: Bool) -> list[tuple[float, float]]:
    """Stretches of marked points, each point reaching half-way to its neighbours.

    >>> spans(np.array([0.0, 10.0, 20.0, 30.0]), np.array([False, True, True, False]))
    [(5.0, 25.0)]
    """
    if not marked.any():
        return []
    middles = (times[1:] + times[:-1]) / 2
    edges = np.concatenate((times[:1], middles, times[-1:]))
    flips = np.flatnonzero(np.diff(np.concatenate(([False], marked, [False])).astype(np.int8)))
    return [(float(edges[a]), float(edges[b])) for a, b in zip(flips[::2], flips[1::2], strict=True)]
