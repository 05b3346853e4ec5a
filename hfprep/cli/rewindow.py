"""`hfprep rewindow`: other windows of a store that holds each tick once."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command(epilog="Example: hfprep rewindow demo.zarr --set window.size=8 -o short.zarr")
@click.argument("store", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="The new store.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="A key of window.* or balance.*, as in `hfprep build`.")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON on stdout.")
def rewindow(store: Path, out: Path, overrides: tuple[str, ...], as_json: bool) -> int:
    """Give the ticks of STORE other windows (size, margin, stride, placement, balance) in seconds, without decoding.

    STORE must have been built with store.layout = "frames". It stays as it is; the new store shares its pixels where the file
    system can link files.
    """
    from ..rewindow import rewindow as make

    made = make(store, out, overrides)
    told = {"out": str(made.out), "windows": made.windows, "before": made.before, "changed": list(made.changed)}
    if as_json:
        click.echo(json.dumps({**told, "copied_bytes": made.copied_bytes}, indent=2, ensure_ascii=False))
        return 0
    click.echo(f"{made.windows} windows ({made.before} in {store}): {'; '.join(made.changed) or 'nothing changed'}")
    shared = f"{made.copied_bytes / 1e6:.1f} MB copied: this file system links no files" if made.copied_bytes else "pixels shared"
    click.echo(f"{made.out}: {shared}")
    return 0
