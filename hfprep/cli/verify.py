"""`hfprep verify`: is a store what was written?"""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command(epilog="Example: hfprep verify demo.zarr --digest")
@click.argument("store", type=click.Path(path_type=Path))
@click.option("--digest", is_flag=True, help="Print one digest of the whole content as the last line.")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON on stdout.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def verify(store: Path, digest: bool, as_json: bool, quiet: bool) -> int:
    """Read all of STORE, compute every row's digest again, and name what is damaged or missing and the command that mends it.

    The digest of --digest depends on the content alone: not on codec, shard size, workers or place. A damaged store has none.

    Exit codes: 0 good, 1 damaged, not finished or not a store, 2 usage.
    """
    from ..report import words
    from ..report.verify import verify as check
    from ..store import open_store
    from .tell import Bar, tell

    total = sum(open_store(store).layout.rows)
    with Bar("verifying", total, quiet=quiet) as bar:
        verdict = check(store, bar.advance)
    found = verdict.dump()
    if as_json:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        tell(words.verdict_told(found))
        if digest:
            click.echo(verdict.digest or "no digest: the store is damaged")
    return 0 if verdict.good else 1
