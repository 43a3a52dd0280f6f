"""A bar on standard error while something long runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress"]

#: Called with (done, of, name of what runs next).
Step = Callable[[int, int, str], None]


@contextmanager
def progress() -> Iterator[Step]:
    """Moves as it is called; draws nothing where standard error is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, of, name: bar.update(task, completed=done, total=of, description=name)
