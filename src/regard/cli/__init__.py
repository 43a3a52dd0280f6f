"""The command line. `run` is what the `regard` script calls; all else lies in the modules beside it."""

from __future__ import annotations

import sys

__all__ = ["run"]


def run() -> None:
    """Run the command line, or say in one sentence which extra it needs."""
    try:
        from regard.cli.main import app
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        print('regard: error: the command line needs its extra: pip install "regard[cli]"', file=sys.stderr)
        raise SystemExit(2) from None
    app(prog_name="regard")
