"""`hfprep advise`: which interval and window size fit a manifest's actions."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .build import recipe_options
from .show import Console, ShownProgress

if TYPE_CHECKING:
    from ..advise import Advice


@click.command(epilog="Example: hfprep advise manifests/demo.csv")
@click.argument("manifest", type=click.Path(path_type=Path))
@recipe_options
@click.option("--json", "as_json", is_flag=True, help="The same as JSON on stdout.")
def advise(manifest: Path, recipe: str | None, overrides: tuple[str, ...], limit: int | None, jobs: int | None, as_json: bool) -> int:
    """Say which time interval, window size and stride cover the actions of MANIFEST, why, and what each choice costs.

    Action lengths come from the columns start and end where rows have them, else from the clips. Nothing is written.
    Exit codes as of `hfprep plan`.
    """
    from .. import advise as room
    from .. import pipeline
    from ..planned import BuildOptions

    with ShownProgress(as_json) as progress:
        advice, planned = room.advise(manifest, pipeline.load(recipe, overrides), BuildOptions(jobs=jobs, limit=limit), progress)
    code = (3 if advice.choices else 1) if planned.faults else 0
    command = _command(manifest, advice)
    if as_json:
        click.echo(json.dumps(_facts(advice, command), indent=2, ensure_ascii=False))
        return code
    console = Console()
    console.faults(planned.faults)
    if not advice.choices:
        return code
    low, middle, high = _quantiles(advice.lengths_ms / 1000)
    what = "actions (start to end)" if advice.annotated else "clips (the manifest has no start and end)"
    console.say(f"{len(advice.lengths_ms)} {what}: a tenth below {low:.2g} s, half below {middle:.2g} s, nine in ten below {high:.2g} s")
    low, middle, high = _quantiles(advice.rates)
    console.say(f"source rates: {low:.3g} to {high:.3g} frames/s, median {middle:.3g}")
    heads = ("interval", "K", "span", "held", "short", "repeats", "stride", "windows", "MB", "MB frames")
    console.table(heads, [_row(choice, choice == advice.best) for choice in advice.choices])
    console.say("held: actions that fit into a window; short: ticks of a short action; repeats: ticks that show a frame again;")
    console.say("stride: ticks between windows; MB: raw pixels in layout windows, and in layout frames\n")
    console.say("advised (*):")
    for reason in advice.reasons:
        console.say(f"  {reason}")
    console.say(f"  a stacked network of 3 frames: step {advice.best.step} reaches over about half a window\n")
    console.say(command)
    return code


def _row(choice: Any, best: bool) -> tuple[str, ...]:
    return (
        f"{choice.interval_ms:g} ms" + (" *" if best else ""),
        str(choice.size),
        f"{choice.span_ms / 1000:.2g} s",
        f"{choice.covered:.0%}",
        f"{choice.short_ticks:.1f}",
        f"{choice.repeated:.0%}",
        str(choice.stride),
        str(choice.windows),
        f"{choice.bytes_windows / 1e6:.1f}",
        f"{choice.bytes_frames / 1e6:.1f}",
    )


def _quantiles(values: Any) -> tuple[float, float, float]:
    import numpy as np

    low, middle, high = np.quantile(values, (0.1, 0.5, 0.9)).tolist()
    return low, middle, high


def _command(manifest: Path, advice: Advice) -> str:
    settings = [f"frame.interval_ms={advice.best.interval_ms:g}", f"window.size={advice.best.size}"]
    return shlex.join(["hfprep", "build", str(manifest), *(word for setting in settings for word in ("--set", setting))])


def _facts(advice: Advice, command: str) -> dict[str, Any]:
    if not advice.choices:
        return {"actions": 0, "choices": [], "best": None, "reasons": list(advice.reasons), "command": ""}
    return {
        "actions": len(advice.lengths_ms),
        "annotated": advice.annotated,
        "length_ms": dict(zip(("p10", "p50", "p90"), _quantiles(advice.lengths_ms))),
        "source_fps": dict(zip(("p10", "p50", "p90"), _quantiles(advice.rates))),
        "choices": [asdict(choice) for choice in advice.choices],
        "best": asdict(advice.best) | {"step": advice.best.step},
        "reasons": list(advice.reasons),
        "command": command,
    }
