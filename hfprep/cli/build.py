"""`hfprep build` and what it shows."""

from __future__ import annotations

import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from .show import Console, ShownProgress


def _recipes(_: click.Context, __: click.Parameter, typed: str) -> list[CompletionItem]:
    """What the shell offers for -p: names of bundled recipes, and files."""
    from .. import pipeline

    names = sorted(file.stem for file in pipeline.bundled().glob("*.toml"))
    return [*(CompletionItem(name) for name in names if name.startswith(typed)), CompletionItem(typed, type="file")]


def _keys(_: click.Context, __: click.Parameter, typed: str) -> list[CompletionItem]:
    """What the shell offers for --set: every key of the recipe with its default."""
    from .. import pipeline

    keys: dict[str, Any] = {}
    for name, value in pipeline.Pipeline().model_dump(mode="json").items():
        keys |= {f"{name}.{key}=": default for key, default in value.items()} if isinstance(value, dict) else {f"{name}=": value}
    return [CompletionItem(key, help=f"default {default}") for key, default in keys.items() if key.startswith(typed)]


def recipe_options(command: Any) -> Any:
    """The options that decide what a store will hold: shared by `build` and `plan`."""
    for option in (
        click.option(
            "-p",
            "--pipeline",
            "recipe",
            metavar="FILE|NAME",
            shell_complete=_recipes,
            help="TOML recipe, or the name of a bundled one (stacked_t3).",
        ),
        click.option(
            "--set",
            "overrides",
            multiple=True,
            metavar="KEY=VALUE",
            shell_complete=_keys,
            help="Override one pipeline key: --set window.size=32.",
        ),
        click.option("--limit", type=click.IntRange(min=1), help="Only the manifest's first N rows."),
        click.option("-j", "--jobs", type=click.IntRange(min=1), help="Clips worked on at once. [default: usable CPUs]"),
    ):
        command = option(command)
    return command


@click.command(epilog="Example: hfprep build manifests/demo.csv -o demo.zarr --set window.size=32")
@click.argument("manifest", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), help="The store. [default: the manifest's name with .zarr, here]")
@recipe_options
@click.option("--on-error", type=click.Choice(["quarantine", "stop"]), default="quarantine", show_default=True, help="When a row fails.")
@click.option(
    "--engine",
    type=click.Choice(["threads", "processes"]),
    default="threads",
    show_default=True,
    help="processes: a clip that crashes or hangs its decoder costs only itself.",
)
@click.option(
    "--clip-timeout", type=click.FloatRange(min=0), default=0.0, metavar="SECONDS", help="With processes: give up on a clip after so long."
)
@click.option("--overwrite", is_flag=True, help="Replace a store that lies at OUT.")
@click.option("-q", "--quiet", is_flag=True, help="Only faults.")
@click.option("-v", "--verbose", is_flag=True, help="Name every warning, not only the first ones.")
def build(
    manifest: Path,
    out: Path | None,
    recipe: str | None,
    overrides: tuple[str, ...],
    limit: int | None,
    jobs: int | None,
    on_error: str,
    engine: str,
    clip_timeout: float,
    overwrite: bool,
    quiet: bool,
    verbose: bool,
) -> int:
    """Make a store from MANIFEST, a CSV file with the columns video and label.

    Exit codes: 0 good, 1 nothing could be made, 2 usage, 3 finished but rows are quarantined, 130 interrupted (the same
    command continues).
    """
    from .. import pipeline
    from ..build import Interrupted, build_store
    from ..planned import BuildOptions

    console = Console(quiet)
    if clip_timeout and engine == "threads":
        raise click.UsageError("--clip-timeout needs --engine processes: a decoder inside this process cannot be stopped")
    options = BuildOptions(jobs=jobs, limit=limit, on_error=on_error, overwrite=overwrite, engine=engine, clip_timeout_s=clip_timeout)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a batch system's warning is taken like Ctrl-C
    try:
        with ShownProgress(quiet) as progress:
            summary = build_store(manifest, out, pipeline.load(recipe, overrides), options=options, progress=progress)
    except Interrupted as fault:
        command = shlex.join(["hfprep", *(word for word in sys.argv[1:] if word != "--overwrite")])
        raise Interrupted(fault.what, where=fault.where, remedy=f"continue with: {command}", kind=fault.kind) from None
    planned = summary.planned
    console.windows(planned.plan)
    if planned.plan.empty_splits and not all(clip.split for clip in planned.plan.clips):
        console.warn(f"no clip fell into {' and '.join(planned.plan.empty_splits)}: name a split in the manifest, or change [split]")
    console.faults(summary.faults)
    console.warnings((*planned.warnings, *summary.partial), verbose)
    console.repeats(planned)
    rate = f"{summary.clips / summary.seconds:.1f} clips/s, {summary.source_frames / summary.seconds:.0f} source frames/s"
    console.say(
        f"{summary.out}: {summary.windows} windows, {summary.stored_bytes / 1e6:.1f} MB, {summary.seconds:.1f} s"
        + (f" ({rate})" if summary.clips else " (nothing was left to do)")
        + (f", {summary.continued} shards were there already" if summary.continued else "")
    )
    return 3 if summary.faults else 0
