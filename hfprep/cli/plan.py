"""`hfprep plan`: everything that is known before a pixel is decoded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .build import recipe_options
from .show import Console, ShownProgress

if TYPE_CHECKING:
    from ..planned import Planned


@click.command(epilog="Example: hfprep plan manifests/demo.csv --set window.size=32")
@click.argument("manifest", type=click.Path(path_type=Path))
@recipe_options
@click.option("--json", "as_json", is_flag=True, help="The same as JSON on stdout.")
@click.option("-q", "--quiet", is_flag=True, help="Only faults.")
@click.option("-v", "--verbose", is_flag=True, help="Name every warning, not only the first ones.")
def plan(
    manifest: Path,
    recipe: str | None,
    overrides: tuple[str, ...],
    limit: int | None,
    jobs: int | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> int:
    """Say what a build of MANIFEST would make: clips, windows per class, shards, bytes, memory, and the rows at fault.

    Nothing is written. Exit codes as of `hfprep build`: 3 when rows are at fault.
    """
    from .. import pipeline
    from ..planned import BuildOptions, cpus, plan_build

    options = BuildOptions(jobs=jobs, limit=limit)
    with ShownProgress(quiet) as progress:
        planned = plan_build(manifest, pipeline.load(recipe, overrides), options, progress)
    if as_json:
        click.echo(json.dumps(facts(planned, options.jobs or cpus()), indent=2, ensure_ascii=False))
        return _code(planned)
    console = Console(quiet)
    console.windows(planned.plan)
    console.faults(planned.faults)
    console.warnings(planned.warnings, verbose)
    console.repeats(planned)
    console.sensors(planned)
    told = facts(planned, options.jobs or cpus())
    console.say(f"{told['clips']} clips, {told['hours']:.2f} hours, {told['windows']} windows in {told['shards']} shards")
    here, other = told["layout"], "frames" if told["layout"] == "windows" else "windows"
    raw = told["raw_bytes"]
    console.say(f"about {told['stored_bytes'] / 1e6:.1f} MB on disk ({raw[here] / 1e6:.1f} MB of pixels, codec {told['codec']})")
    console.say(f"layout {here}; with store.layout={other}: {raw[other] / raw[here]:.2g} x as much" if raw[here] else "")
    console.say(f"about {told['peak_memory_bytes'] / 1e6:.0f} MB of memory with {options.jobs or cpus()} jobs")
    return _code(planned)


def _code(planned: Planned) -> int:
    return (3 if planned.plan.shards else 1) if planned.faults else 0


def facts(planned: Planned, jobs: int) -> dict[str, Any]:
    """What `plan` says, as plain values; bytes are estimates but for raw_bytes."""
    from ..planned import peak_memory_bytes, stored_bytes

    made = planned.plan
    told = made.summary()
    return {
        "clips": sum(1 for n in made.n_ticks if n),
        "hours": float(made.n_ticks.sum()) * told.interval_s / 3600,
        "windows": int(made.counts.sum()),
        "shards": len(made.shards),
        "layout": made.layout.kind,
        "raw_bytes": {"windows": told.raw_bytes, "frames": told.raw_bytes_once},
        "stored_bytes": stored_bytes(made),
        "codec": made.layout.codec,
        "peak_memory_bytes": peak_memory_bytes(made, jobs),
        "interval_ms": str(made.pipeline.frame.interval_ms),
        "size": made.layout.size,
        "axes": list(made.layout.axes),
        "axis_units": planned.survey.units,
        "sensor_formats": planned.survey.formats,
        "rows_at_fault": [{"row": f.row, "line": f.line, "video": f.video, "kind": f.kind, "message": f.message} for f in planned.faults],
        "warnings": [{"row": f.row, "line": f.line, "video": f.video, "message": f.message} for f in planned.warnings],
    }
