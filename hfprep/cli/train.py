"""`hfprep train` and what it shows: progress on stderr, the result as tables on stdout."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ..errors import UsageError

if TYPE_CHECKING:
    from ..trainer.train import Summary

FORMS = ("sequence", "stacked", "frame")


@click.command(epilog="Example: hfprep train demo.zarr -o run/ --form stacked --set model.t=5 --set model.step=2")
@click.argument("store", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="Folder for the run: config, metrics, checkpoints.")
@click.option("--form", type=click.Choice(FORMS), help="What the network sees of a hyperframe. [default: sequence]")
@click.option("--epochs", type=int, help="Looks at every window. Short for --set train.epochs=N.")
@click.option("--batch", type=int, help="Windows of one step. Short for --set train.batch=N.")
@click.option("--lr", type=float, help="Highest learning rate. Short for --set train.lr=X.")
@click.option("--seed", type=int, help="Same seed, same result (on one kind of device).")
@click.option("--device", help="auto, cpu, cuda, ... [default: auto]")
@click.option("-r", "--recipe", metavar="FILE", type=click.Path(path_type=Path), help="TOML file with trainer options.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Set one trainer option: --set model.width=32.")
@click.option("--overwrite", is_flag=True, help="Replace a run that lies at OUT.")
@click.option("-q", "--quiet", is_flag=True, help="Only the result.")
def train(store: Path, out: Path, recipe: Path | None, overrides: tuple[str, ...], overwrite: bool, quiet: bool, **short: Any) -> int:
    """Train a network from STORE and judge it, clip by clip, on clips that it never saw.

    \b
    Forms: sequence  a 2-D encoder on every frame, convolutions over time; sensor rows join in
           stacked   T frames as one picture of 3T channels, any 2-D network
           frame     the middle frame alone, as a control: what is known without motion

    Exit codes: 0 good, 1 the store cannot be trained from or training diverged, 2 usage, 130 interrupted (the checkpoint of the
    last whole epoch stays).
    """
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("safetensors") is None:
        raise UsageError("training needs torch, which is not installed", remedy="pip install 'hfprep[train]'", kind="no_torch")
    from ..trainer import options as options_module
    from ..trainer.train import train as run

    options = options_module.load(recipe, (*overrides, *_spelled_out(short)))
    with Shown(quiet) as shown:
        summary = run(store, out, options, overwrite=overwrite, report=shown.record)
    show(summary, Console(highlight=False))
    return 0


def _spelled_out(short: dict[str, Any]) -> list[str]:
    """Options of the command line as overrides: form, seed, device stand at the top, the others in [train]."""
    top = ("form", "seed", "device")
    return [f"{name if name in top else f'train.{name}'}={value}" for name, value in short.items() if value is not None]


class Shown:
    """Progress of a run on stderr: a bar on a terminal, a line an epoch everywhere."""

    def __init__(self, quiet: bool) -> None:
        self._console = Console(stderr=True, highlight=False, quiet=quiet, soft_wrap=True)
        columns = (
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]:.3f}"),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=self._console, transient=True, disable=quiet or not self._console.is_terminal)
        self._task = self._bar.add_task("training", total=None, loss=float("nan"))

    def __enter__(self) -> Shown:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()

    def record(self, record: dict[str, Any]) -> None:
        """Show one record of the run (see trainer.train.train)."""
        kind = record["kind"]
        if kind == "warning":
            self._console.print(Text(f"warning: {record['message']}", style="yellow"))
        elif kind == "start":
            self._bar.update(self._task, total=record["steps"])
            self._console.print(f"{record['windows']} windows, {record['epochs']} epochs, {record['steps']} steps on {record['device']}")
        elif kind == "step":
            self._bar.update(self._task, completed=record["step"], loss=record["loss"])
        elif kind == "epoch":
            self._console.print(_epoch_line(record))


def _epoch_line(record: dict[str, Any]) -> str:
    line = f"epoch {record['epoch']:3}  loss {record['loss']:.3f}"
    if "val_loss" in record:
        line += f"  val loss {record['val_loss']:.3f}  val clips right {record['val_accuracy']:.3f}"
    return f"{line}  {record['seconds']:.1f} s, {record['waiting']:.0%} of it waiting for data"


def show(summary: Summary, console: Console) -> None:
    """Print how each class fared, what was taken for what, and the run in one line."""
    scores, names = summary.scores, summary.classes
    table = Table(title=f"{summary.split}: {scores.clips} clips", title_justify="left")
    table.add_column("class")
    for heading in ("clips", "right", "precision", "F1", "taken for"):
        table.add_column(heading, justify="left" if heading == "taken for" else "right")
    for i, name in enumerate(names):
        row = scores.confusion[i]
        others = [f"{names[j]} {row[j]}" for j in row.argsort()[::-1] if j != i and row[j]]
        shares = [f"{x[i]:.2f}" if row.sum() else "-" for x in (scores.recall, scores.precision, scores.f1)]
        table.add_row(Text(name), str(row.sum()), *shares, Text(", ".join(others[:3]) + (", ..." if len(others) > 3 else "")))
    console.print(table)
    console.print(
        f"accuracy per clip {scores.accuracy:.3f}, macro-F1 {scores.macro_f1:.3f} on {summary.split} "
        f"(epoch {summary.best_epoch}, {summary.seconds:.0f} s); run in {summary.out}",
        soft_wrap=True,
        markup=False,
    )
