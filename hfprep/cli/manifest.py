"""`hfprep manifest`: make a manifest of what lies in folders."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click


@click.group(epilog="Example: hfprep manifest from-folder videos/ -o videos.csv")
def manifest() -> None:
    """Make a manifest, the list of videos and labels that `hfprep build` reads."""


@manifest.command("from-folder", epilog="Example: hfprep manifest from-folder UCF-101/ -o ucf101.csv")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), default=Path("manifest.csv"), show_default=True, help="The manifest to write."
)
@click.option("--fps", default="", metavar="RATE", help="Frames a second of folders of numbered pictures, which then count as videos.")
@click.option("--overwrite", is_flag=True, help="Replace a manifest that is there.")
@click.option("--json", "as_json", is_flag=True, help="What was done as JSON on stdout.")
def from_folder(folder: Path, out: Path, fps: str, overwrite: bool, as_json: bool) -> int:
    """List the videos of FOLDER: the folder that holds a video names its class.

    Folders train, val and test (also above or below the class) give the split; names as in UCF101 (v_Class_g07_c02.avi) give the
    group, so that clips of one recording stay in one split.
    """
    from ..errors import UsageError
    from ..folders import from_folder as listed

    if os.path.lexists(out) and not out.is_file():
        raise UsageError("is no file that could be replaced", where=str(out), remedy="give another name with -o", kind="exists")
    if out.is_file() and not overwrite:
        raise UsageError(
            "a file is there already", where=str(out), remedy="give --overwrite to replace it, or another name with -o", kind="exists"
        )
    made = listed(folder, out, fps=fps)
    made.write(out)
    if as_json:
        told = {"manifest": str(out), "videos": len(made.rows), "classes": sorted({row[1] for row in made.rows}), "notes": made.notes}
        click.echo(json.dumps(told, indent=2, ensure_ascii=False))
        return 0
    click.echo(f"{out}: {len(made.rows)} rows")
    for note in made.notes:
        click.echo(f"  {note}")
    click.echo(f"next: hfprep build {out}")
    return 0
