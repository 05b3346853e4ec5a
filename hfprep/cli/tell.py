"""Reports on stdout, the same on a terminal and in a pipe, and a bar on stderr where that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import TracebackType

import click
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

WIDTH = 80  # of a pipe or file, which has none; wider terminals are used up to 120


def tell(parts: Iterable[RenderableType]) -> None:
    """Print a report: tables and paragraphs fit the width, single lines stay whole so that they can be searched for."""
    console = Console(highlight=False, markup=False, emoji=False)
    console.width = min(console.width, 120) if sys.stdout.isatty() else WIDTH
    for part in parts:
        with console.capture() as held:
            console.print(part, soft_wrap=isinstance(part, (str, Text)))
        for line in held.get().splitlines():
            click.echo(line.rstrip())  # rich fills table lines with spaces


class Bar:
    """Progress on stderr where that is a terminal: a context manager with advance(n)."""

    def __init__(self, name: str, total: int, *, quiet: bool = False) -> None:
        console = Console(stderr=True)
        columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal)
        self._task = self._progress.add_task(name, total=total)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def advance(self, n: int) -> None:
        """So many more are done."""
        self._progress.advance(self._task, n)
