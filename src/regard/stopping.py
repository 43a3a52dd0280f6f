"""A signal asks a long run to stop when it next can, so that it leaves everything saved."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["stop_signals"]


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """A list that a first SIGINT or SIGTERM puts its number into; a second one acts as it always does."""
    stop: list[int] = []
    before: dict[int, Any] = {}

    def note(number: int, _frame: object) -> None:
        stop.append(number)
        signal.signal(number, before[number])

    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, note)
    except ValueError:  # not the main thread: signals are not ours to take
        before.clear()
    try:
        yield stop
    finally:
        for taken, handler in before.items():
            signal.signal(taken, handler)
