"""What a person sees while a model trains: bars at a terminal, plain lines in a file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Bars", "Lines", "Report", "Silent", "report_to"]


class Report(Protocol):
    """Where a training run reports to."""

    def say(self, text: str) -> None:
        """One line that stays."""

    def step(self, epoch: int, done: int, total: int, loss: float, speed: float) -> None:
        """Where the run is: updates done in this epoch, mean loss so far, target pieces a second."""


class Silent:
    """Reports nothing."""

    def say(self, text: str) -> None:
        pass

    def step(self, epoch: int, done: int, total: int, loss: float, speed: float) -> None:
        pass


class Lines:
    """Plain lines, the position at most every ``every`` seconds."""

    def __init__(self, console: Console, every: float = 60.0) -> None:
        self._console = console
        self._every = every
        self._last = time.monotonic()

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def step(self, epoch: int, done: int, total: int, loss: float, speed: float) -> None:
        if time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            self.say(f"epoch {epoch}  {done}/{total}  loss {loss:.3f}  {speed:,.0f} pieces/s")


class Bars:
    """A bar for the epoch under way, lines that stay above it."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.progress = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]:.3f}  {task.fields[speed]:,.0f} pieces/s"),
            TimeRemainingColumn(),
            console=console,
        )
        self._task = self.progress.add_task("", total=None, epoch=0, loss=0.0, speed=0.0, visible=False)

    def say(self, text: str) -> None:
        self.progress.console.print(text, markup=False, highlight=False)

    def step(self, epoch: int, done: int, total: int, loss: float, speed: float) -> None:
        self.progress.update(self._task, completed=done, total=total, epoch=epoch, loss=loss, speed=speed, visible=True)


@contextmanager
def report_to(console: Console) -> Iterator[Report]:
    """Bars where ``console`` is a terminal, plain lines elsewhere."""
    if not console.is_terminal:
        yield Lines(console)
        return
    bars = Bars(console)
    with bars.progress:
        yield bars
