"""What a person sees while a model trains: bars at a terminal, plain lines in a file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Bars", "Lines", "Pace", "Report", "Silent", "Standing", "report_to"]


@dataclass(frozen=True)
class Standing:
    """Where a run is: batches done of this epoch's, its mean loss so far, target pieces a second, and the seconds to
    the end of the last epoch at the pace so far (None: too early to say)."""

    epoch: int
    epochs: int
    done: int
    total: int
    loss: float
    speed: float
    left: float | None = None

    @property
    def share(self) -> float:
        """How much of the whole run is done, in [0, 1]."""
        return (self.epoch - 1 + self.done / self.total) / self.epochs

    @property
    def remaining(self) -> str:
        """The time left, in words; a run that stops early ends before."""
        if self.left is None:
            return ""
        minutes, seconds = divmod(round(self.left), 60)
        hours, minutes = divmod(minutes, 60)
        return f"at most {hours}:{minutes:02}:{seconds:02} left"


class Pace:
    """Seconds that a whole run will still take, told from how much was done since this began to look."""

    def __init__(self, share: float, now: float) -> None:
        self._share, self._began = share, now

    def left(self, share: float, now: float) -> float | None:
        """At a ``share`` of the whole run done; epochs' ends count as they come."""
        done = share - self._share
        return (now - self._began) * (1.0 - share) / done if done > 0.0 else None


class Report(Protocol):
    """Where a training run reports to."""

    def say(self, text: str) -> None:
        """One line that stays."""

    def step(self, at: Standing) -> None:
        """Where the run is, after an update."""


class Silent:
    """Reports nothing."""

    def say(self, text: str) -> None:
        pass

    def step(self, at: Standing) -> None:
        pass


class Lines:
    """Plain lines, the position at most every ``every`` seconds."""

    def __init__(self, console: Console, every: float = 60.0) -> None:
        self._console = console
        self._every = every
        self._last = time.monotonic()

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def step(self, at: Standing) -> None:
        if time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            where = f"epoch {at.epoch}/{at.epochs}  {at.done}/{at.total}  loss {at.loss:.3f}  {at.speed:,.0f} pieces/s"
            self.say(f"{where}  {at.remaining}".rstrip())


class Bars:
    """A bar for the epoch under way with the time left for the whole run, lines that stay above it."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self.progress = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]:.3f}  {task.fields[speed]:,.0f} pieces/s  {task.fields[remaining]}"),
            console=console,
        )
        self._task = self.progress.add_task("", total=None, epoch="", loss=0.0, speed=0.0, remaining="", visible=False)

    def say(self, text: str) -> None:
        self.progress.console.print(text, markup=False, highlight=False)

    def step(self, at: Standing) -> None:
        self.progress.update(
            self._task,
            completed=at.done,
            total=at.total,
            epoch=f"{at.epoch}/{at.epochs}",
            loss=at.loss,
            speed=at.speed,
            remaining=at.remaining,
            visible=True,
        )


@contextmanager
def report_to(console: Console) -> Iterator[Report]:
    """Bars where ``console`` is a terminal, plain lines elsewhere."""
    if not console.is_terminal:
        yield Lines(console)
        return
    bars = Bars(console)
    with bars.progress:
        yield bars
