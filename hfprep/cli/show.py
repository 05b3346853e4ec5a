"""How commands show things: progress, tables and lines, on a terminal and in a log file alike."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console as RichConsole
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ..records import Fault, visible

if TYPE_CHECKING:
    from ..plan import Plan
    from ..planned import Planned

PLAIN_EVERY_S = 10.0


class ShownProgress:
    """Progress of a build: a bar with clips/s, source frames/s and time left; plain lines where stderr is no terminal."""

    def __init__(self, quiet: bool = False) -> None:
        self._console = RichConsole(stderr=True)
        self._bar: Progress | None = None
        if self._console.is_terminal and not quiet:
            columns = (TextColumn("{task.description:9}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
            self._bar = Progress(*columns, TimeRemainingColumn(), console=self._console, transient=True)
        self._quiet = quiet
        self._task: TaskID | None = None
        self._name, self._total, self._clips, self._frames = "", 0, 0, 0
        self._since = self._told = time.monotonic()

    def __enter__(self) -> ShownProgress:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar:
            self._bar.stop()

    def stage(self, name: str, clips: int) -> None:
        """A stage begins that will handle so many clips."""
        self._name, self._total, self._clips, self._frames = name, clips, 0, 0
        self._since = self._told = time.monotonic()
        if self._bar:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(name, total=clips, rate="")

    def advance(self, clips: int, frames: int = 0) -> None:
        """So many clips are done, with so many source frames."""
        self._clips += clips
        self._frames += frames
        now = time.monotonic()
        seconds = max(now - self._since, 1e-3)
        rate = f"{self._clips / seconds:.1f} clips/s"
        if self._frames:
            rate += f", {self._frames / seconds:.0f} source frames/s"
        if self._bar and self._task is not None:
            self._bar.update(self._task, completed=self._clips, rate=rate)
        elif not self._quiet and now - self._told > PLAIN_EVERY_S:
            self._told = now
            left = seconds / self._clips * (self._total - self._clips) if self._clips else 0
            print(f"{self._name}: {self._clips} of {self._total} clips, {rate}, {left:.0f} s left", file=sys.stderr, flush=True)  # noqa: T201


class Console:
    """Results on stdout, faults and warnings on stderr; quiet shows faults alone."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        width = None if sys.stdout.isatty() else 100
        self._out = RichConsole(highlight=False, width=width)
        self._err = RichConsole(stderr=True, highlight=False, soft_wrap=True)

    def windows(self, plan: Plan) -> None:
        """What a plan gives: the span of a window, then windows per class and split."""
        if not self._quiet:
            span_s = plan.summary().span_s
            self.say(f"windows of {plan.layout.size} frames every {plan.pipeline.frame.interval_ms} ms: {span_s:g} s from first to last")
            self._out.print(windows_table(plan))

    def say(self, text: str) -> None:
        if not self._quiet:
            self._out.print(Text(text), soft_wrap=True)

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Rows of text under their heads, all but the first to the right."""
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for number, head in enumerate(heads):
            table.add_column(head, justify="right" if number else "left")
        for row in rows:
            table.add_row(*map(Text, row))
        if not self._quiet:
            self._out.print(table)

    def warn(self, text: str) -> None:
        self._err.print(Text(f"warning: {text}", style="yellow"))

    def faults(self, faults: Sequence[Fault]) -> None:
        """Every row at fault by name, one line each, so that a log can be searched; then how many of each kind."""
        for fault in faults:
            self._err.print(Text(str(fault), style="red"))
        if faults:
            kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(f.kind for f in faults).most_common())
            self._err.print(Text(f"{len(faults)} rows are quarantined or incomplete: {kinds}"))

    def warnings(self, warnings: Sequence[Fault], every: bool) -> None:
        """Rows that say the same share a line, unless every one is wanted."""
        by_message: dict[str, list[Fault]] = {}
        for fault in warnings:
            by_message.setdefault(fault.message, []).append(fault)
        for message, faults in by_message.items():
            for fault in faults if every else faults[:1]:
                more = "" if every or len(faults) == 1 else f" (and {len(faults) - 1} more rows; -v names all)"
                where = f"row {fault.row} (line {fault.line}) {fault.video}: " if fault.row else ""
                self.warn(visible(f"{where}{message}{more}"))

    def repeats(self, planned: Planned) -> None:
        """Say where sources are slower than the grid: their windows hold the same frame several times."""
        shares = [float(s) for s in planned.survey.facts["repeated_share"] if float(s) > 0.05]  # type: ignore[arg-type]
        if shares:
            self.warn(
                f"{len(shares)} clips repeat frames (up to {max(shares):.0%} of their ticks): their rate is below one frame per "
                f"{planned.plan.pipeline.frame.interval_ms} ms, or frames were dropped; a longer frame.interval_ms avoids it"
            )

    def sensors(self, planned: Planned) -> None:
        """Say how sensor files were read where that had to be recognised."""
        axes = planned.plan.layout.axes
        if axes:
            units = planned.survey.units
            self.say("sensor axes: " + ", ".join(f"{a} ({units[a]})" if units.get(a) else a for a in axes))
        for told, rows in planned.survey.formats.items():
            self.say(visible(f"sensor files {told} ({rows} row{'s' if rows > 1 else ''})"))


def windows_table(plan: Plan) -> Table:
    """Clips and windows per class and split; training windows before and after balancing."""
    told = plan.summary()
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("class", overflow="fold")
    for name in ("clips", "train before", "train", "val", "test"):
        table.add_column(name, justify="right")
    train, val, test = range(3)
    rows = [
        (name, told.clips[:, k].sum(), told.before[train, k], told.after[train, k], told.after[val, k], told.after[test, k])
        for k, name in enumerate(plan.classes)
    ]
    for name, *numbers in rows:
        table.add_row(Text(visible(name)), *map(str, numbers))
    if len(rows) > 1:
        clips, before, after = told.every
        table.add_section()
        table.add_row("all", *map(str, (clips.sum(), before[train], *after)))
    return table
