"""The command line: one small file per command, loaded when it is called, so that `hfprep --help` answers at once."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from .. import __version__
from ..errors import HfprepError

COMMANDS = {  # name -> one line for `hfprep --help`; the command object has the module's name
    "build": "Make a store from a manifest of labelled videos.",
    "manifest": "Make a manifest of a folder of videos, or of a published annotation.",
    "plan": "Say what a build would make, without decoding.",
    "advise": "Say which interval and window size fit a manifest's actions.",
    "inspect": "Show what is in a store, in words and pictures.",
    "rewindow": "Give a store of frames other windows, without decoding.",
    "verify": "Check every row of a store against its digest.",
    "train": "Train a model from a store.",
}


class _Commands(click.Group):
    """A group that imports a command's module only when that command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(f"{__name__}.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as fault:
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            if near:
                raise click.UsageError(f"{fault.message} Did you mean {near[0]!r}?", fault.ctx) from None
            raise


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, "-V", "--version", prog_name="hfprep")
@click.option("--debug", is_flag=True, help="Show the traceback of a fault.")
@click.pass_context
def group(ctx: click.Context, debug: bool) -> None:
    """Turn labelled videos and sensors into stores that action models train from.

    \b
    hfprep build manifests/demo.csv        makes demo.zarr
    hfprep inspect demo.zarr               says what is in it
    hfprep train demo.zarr -o run/         trains from it
    """


def main(args: list[str] | None = None) -> None:
    """Run the command line: a fault is one line on stderr, its exit code as documented; a traceback only with --debug."""
    given = sys.argv[1:] if args is None else args
    debug = "--debug" in given
    try:
        code = group.main(args=given, prog_name="hfprep", standalone_mode=False)
    except HfprepError as fault:
        if debug:
            raise
        _complain(str(fault))
        sys.exit(fault.exit_code)
    except click.exceptions.Abort:
        _complain("interrupted")
        sys.exit(130)
    except KeyboardInterrupt:
        _complain("interrupted")
        sys.exit(130)
    except click.ClickException as fault:
        if isinstance(fault, click.UsageError) and fault.ctx is not None:
            click.echo(f"{fault.ctx.command_path}: see `{fault.ctx.command_path} --help`", err=True)
        _complain(fault.format_message())
        sys.exit(fault.exit_code)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone (| head): that is no fault
        sys.exit(0)
    sys.exit(code if isinstance(code, int) else 0)


def _complain(text: str) -> None:
    click.echo(f"hfprep: error: {' '.join(text.split())}", err=True)
