"""Which time interval and window size fit the actions of a manifest: what each choice covers and what it costs, before a build."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from . import windows
from .pipeline import Pipeline
from .planned import DEFAULTS, SILENT, BuildOptions, Planned, Progress, plan_build
from .records import Clip

INTERVALS_MS = (40, 50, 100, 200, 400)  # choices on a ladder; the recipe's own comes in too
SIZES = (8, 12, 16, 24, 32, 48, 64)
ENOUGH = 0.75  # share of the actions that a window should hold from end to end
TICKS_AT_LEAST = 6  # that a short action (10 % are shorter) should last, to be seen as a movement
REPEATED_AT_MOST = 0.05  # share of ticks that show the frame before again, beyond which the interval is below the sources' own


@dataclass(frozen=True, slots=True)
class Choice:
    """One interval with the window size that goes with it.

    covered, repeated   shares: actions that fit into a window, ticks that repeat a frame (median over clips)
    short_ticks         ticks of a short action: 10 % are shorter
    stride              automatic stride of a clip of median length, in ticks
    bytes_windows, bytes_frames   raw pixels in the two layouts
    """

    interval_ms: float
    size: int
    span_ms: float
    covered: float
    short_ticks: float
    repeated: float
    stride: int
    windows: int
    bytes_windows: int
    bytes_frames: int

    @property
    def step(self) -> int:
        """Ticks between the three frames of a stacked network that reach over about half a window."""
        return max(1, self.size // 4)


@dataclass(frozen=True, slots=True, eq=False)
class Advice:
    """What was found and what follows.

    lengths_ms   action lengths float64 (N,), sorted; annotated: from start and end in the manifest, else the whole clips
    rates        source frames a second (C,), sorted
    choices      by interval; best: the one that is advised, with the reasons in words
    """

    lengths_ms: NDArray[np.float64]
    annotated: bool
    rates: NDArray[np.float64]
    choices: tuple[Choice, ...]
    best: Choice
    reasons: tuple[str, ...]


def advise(source: str | Path, pipeline: Pipeline, options: BuildOptions = DEFAULTS, progress: Progress = SILENT) -> tuple[Advice, Planned]:
    """Advice for a manifest, and the plan of the recipe as it is. Files are probed, nothing is decoded that can be trusted.

    Raises ManifestError where the whole manifest cannot be used; where no row can, the advice has no choices.
    """
    planned = plan_build(source, pipeline, options, progress)
    usable = [(c, n) for c, n in zip(planned.manifest.clips, planned.survey.n_ticks.tolist(), strict=True) if n]
    lengths, annotated = _lengths([c for c, _ in usable], [n for _, n in usable], float(pipeline.frame.interval_ns) / 1e6)
    rates = np.sort([float(str(f)) for f, n in zip(planned.survey.facts["source_fps"], planned.survey.n_ticks.tolist()) if n])
    own = float(pipeline.frame.interval_ns) / 1e6
    choices = []
    for interval in sorted({*map(float, INTERVALS_MS), own}) if usable else ():
        written = pipeline.frame.interval_ms if interval == own else int(interval)
        size = _size(lengths, interval)
        changed = pipeline.model_copy(
            update={
                "frame": pipeline.frame.model_copy(update={"interval_ms": written}),
                "window": pipeline.window.model_copy(update={"size": size}),
            }
        )
        choices.append(_choice(plan_build(source, changed, options), lengths, interval, size))
    best, reasons = (
        _best(choices, lengths, rates, None if annotated else own)
        if choices
        else (Choice(own, 0, 0, 0, 0, 0, 0, 0, 0, 0), ("no row can be used",))
    )
    return Advice(lengths, annotated, rates, tuple(choices), best, reasons), planned


def _lengths(clips: list[Clip], n_ticks: list[int], interval_ms: float) -> tuple[NDArray[np.float64], bool]:
    """Sorted lengths in ms: of the annotated stretches where there are any, else of the whole clips."""
    stretches = [(clip.end_ns - clip.start_ns) / 1e6 for clip in clips if clip.end_ns is not None]
    return np.sort(np.array(stretches or [n * interval_ms for n in n_ticks], np.float64)), bool(stretches)


def _size(lengths: NDArray[np.float64], interval_ms: float) -> int:
    """The smallest usual size whose span holds ENOUGH of the actions; the largest one where none does."""
    enough = np.quantile(lengths, ENOUGH)
    return next((size for size in SIZES if (size - 1) * interval_ms >= enough), SIZES[-1])


def _choice(planned: Planned, lengths: NDArray[np.float64], interval_ms: float, size: int) -> Choice:
    told, window = planned.plan.summary(), planned.plan.pipeline.window
    span = (size - 1) * interval_ms
    ticks = planned.survey.n_ticks[planned.survey.n_ticks > 0]
    repeated = [float(str(s)) for s, n in zip(planned.survey.facts["repeated_share"], planned.survey.n_ticks.tolist()) if n]
    typical = int(np.median(lengths) / interval_ms) or 1
    return Choice(
        interval_ms=interval_ms,
        size=size,
        span_ms=span,
        covered=float(np.mean(lengths <= span)),
        short_ticks=float(np.quantile(lengths, 0.1) / interval_ms),
        repeated=float(np.median(repeated)),
        stride=window.stride or windows.automatic(int(np.median(ticks)), size, window.per_clip, typical),
        windows=int(planned.plan.counts.sum()),
        bytes_windows=told.raw_bytes,
        bytes_frames=told.raw_bytes_once,
    )


def _best(
    choices: list[Choice], lengths: NDArray[np.float64], rates: NDArray[np.float64], most_ms: float | None
) -> tuple[Choice, tuple[str, ...]]:
    """The longest interval at which short actions are still movements and that is not below the sources' own; most_ms: no longer one,
    where only whole clips are known, whose actions may be much shorter."""
    slow = float(np.quantile(rates, 0.1))
    fair = [c for c in choices if c.repeated <= REPEATED_AT_MOST] or choices[-1:]
    moving = [c for c in fair if c.short_ticks >= TICKS_AT_LEAST and (most_ms is None or c.interval_ms <= most_ms)]
    best = moving[-1] if moving else fair[0]
    short = np.quantile(lengths, 0.1)
    reasons = [
        f"one action in ten is shorter than {short / 1000:.2g} s: at {best.interval_ms:g} ms it lasts {best.short_ticks:.1f} ticks"
        + (f", and {TICKS_AT_LEAST} or more show a movement" if moving else f", fewer than the {TICKS_AT_LEAST} that show a movement"),
        f"{best.size} frames span {best.span_ms / 1000:.2g} s and hold {best.covered:.0%} of the actions from end to end",
        f"one source in ten is slower than {slow:.3g} frames/s, a frame every {1000 / slow:.0f} ms"
        + ("" if best.repeated <= REPEATED_AT_MOST else f": {best.repeated:.0%} of the ticks repeat a frame all the same"),
    ]
    if most_ms is not None:
        reasons.append(f"start and end are not known, so that no interval longer than the recipe's {most_ms:g} ms is advised")
    if best.covered < ENOUGH:
        reasons.append("longer actions than any usual window: train a sequence over the windows of a clip, or take a longer interval")
    return best, tuple(reasons)
