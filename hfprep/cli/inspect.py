"""`hfprep inspect`: what is in a store, in words, as JSON, and one window as a picture."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ..errors import UsageError


@click.command(epilog="Example: hfprep inspect demo.zarr --window train:12 --image strip.png")
@click.argument("store", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON on stdout.")
@click.option("--window", "name", metavar="SPLIT:ROW", help="One window frame by frame: train:12.")
@click.option("--clip", "clip_name", metavar="ID", help="One clip over time: its hotspot and where its windows lie.")
@click.option("--image", type=click.Path(path_type=Path), help="Draw that window or clip into a PNG, SVG, PDF or JPEG file.")
@click.option("-v", "--verbose", is_flag=True, help="Name every row in quarantine, not only the first ones.")
def inspect(store: Path, as_json: bool, name: str | None, clip_name: str | None, image: Path | None, verbose: bool) -> int:
    """Show what is in STORE: windows, classes, sizes, sources, repeats, hotspots, sensors, and the rows that are not in it.

    Exit codes: 0 good, 1 not a store or not finished (the command that continues is named), 2 usage.
    """
    if name is not None and clip_name is not None:
        raise UsageError("--window and --clip are two things", remedy="ask for one of them", kind="bad_window")
    if image is not None and name is None and clip_name is None:
        raise UsageError("--image draws one window or clip", remedy="name it: --window train:0, or --clip ID", kind="bad_window")
    if name is not None:
        return _window(store, name, image, as_json)
    if clip_name is not None:
        return _clip(store, clip_name, image, as_json)
    from ..report import facts, words
    from .tell import tell

    found = facts.facts(store)
    if as_json:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        tell(words.told(found, everything=verbose))
    return 0 if found["status"] == "complete" else 1


def _window(path: Path, name: str, image: Path | None, as_json: bool) -> int:
    from ..report import window, words
    from ..store import open_store
    from .tell import tell

    opened = open_store(path)
    strip = window.window(opened, *window.place(opened, name))
    if image is not None:
        from ..report.strip import save

        save(strip, image)
    found = window.window_facts(strip)
    if as_json:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False))
    elif image is not None:
        tell([f"{image}: {strip.title}"])
    else:
        tell(words.window_told(found))
    return 0


def _clip(path: Path, name: str, image: Path | None, as_json: bool) -> int:
    from ..report import timeline, words
    from ..store import open_store
    from .tell import tell

    opened = open_store(path)
    line = timeline.clip(opened, timeline.clip_number(opened, name))
    if image is not None:
        timeline.save(line, image)
    found = timeline.clip_facts(line)
    if as_json:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False))
    elif image is not None:
        tell([f"{image}: {line.title}"])
    else:
        tell(words.clip_told(found))
    return 0
