"""The application: its commands, and how an error reaches the person who typed.

Nothing heavy is imported here, nor at the top of a command's module, so that help and usage errors are quick.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from importlib import metadata
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from regard.cli.align import align
from regard.cli.bench import bench
from regard.cli.check import check
from regard.cli.inspect import inspect
from regard.cli.intuition import intuition
from regard.cli.train import train
from regard.cli.translate import translate

__all__ = ["app"]

BAD_INPUT, A_BUG, INTERRUPTED = 2, 1, 130


class Application(TyperGroup):
    """The commands. An error becomes one line on standard error; `--debug`, anywhere, adds the traceback."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **kwargs: Any) -> Any:
        """Parse, run and exit: 0 done, 2 bad input, 1 a fault in regard or a closed pipe, 130 interrupted."""
        args, debug = _without_debug(list(sys.argv[1:] if args is None else args))
        kwargs["standalone_mode"] = False
        try:
            code = super().main(args, *rest, **kwargs)
            sys.stdout.flush()
        except BrokenPipeError:
            _abandon_output()
            sys.exit(A_BUG)
        except (KeyboardInterrupt, typer.Abort):
            sys.exit(INTERRUPTED)
        except Exception as error:
            if debug:
                traceback.print_exc()
            message, code = _describe(error)
            print(f"regard: error: {' '.join(message.split())}", file=sys.stderr)
        sys.exit(code if isinstance(code, int) else 0)


app = typer.Typer(
    name="regard",
    cls=Application,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # Application decides what a person sees of an error
    rich_markup_mode="rich",
)
for command in (check, inspect, intuition, translate, train, align, bench):
    app.command(name=command.__name__)(command)


@app.callback()
def regard(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Attention you can look at: check, inspect, translate, align and measure."""
    if version:
        typer.echo(f"regard {_version()}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _without_debug(args: list[str]) -> tuple[list[str], bool]:
    """`args` with `--debug` taken out wherever it stands before a `--`, and whether it was there."""
    end = args.index("--") if "--" in args else len(args)
    kept = [each for each in args[:end] if each != "--debug"]
    return kept + args[end:], len(kept) < end


def _describe(error: Exception) -> tuple[str, int]:
    """What to print of `error`, and the exit code."""
    errors = sys.modules.get("regard.errors")  # not loaded, so not raised
    if errors is not None and isinstance(error, errors.RegardError):
        return str(error), BAD_INPUT
    if isinstance(error, typer.TyperException):
        context = getattr(error, "ctx", None)
        hint = f" ({context.command_path} --help lists what there is)" if context is not None else ""
        return f"{error.format_message()}{hint}", BAD_INPUT
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror, BAD_INPUT
    return f"{type(error).__name__}: {error} (a fault in regard; --debug shows where)", A_BUG


def _abandon_output() -> None:
    """Standard output has lost its reader: keep the interpreter from complaining when it flushes at exit."""
    import os

    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


def _version() -> str:
    try:
        return metadata.version("regard")
    except metadata.PackageNotFoundError:  # run from a source tree that was never installed
        return "(not installed)"
