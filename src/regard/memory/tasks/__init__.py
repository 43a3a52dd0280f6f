"""Tasks that can only be answered from memory, each with the algorithm that answers it.

A task is frozen sizes. ``draw(batch, generator)`` gives an :class:`Example`: inputs, targets, and the steps at which an
answer is asked; ``loss`` and ``score`` fit what is answered; ``oracle(inputs)`` answers from the inputs alone, and gets
everything right. ``TASKS`` has them by their names.
"""

from __future__ import annotations

from regard.memory.tasks.base import Example, Task, stacked
from regard.memory.tasks.copy import Copy
from regard.memory.tasks.forms import Bits, Symbols, Vectors

TASKS: dict[str, type[Task]] = {
    "copy": Copy,
}

__all__ = ["TASKS", "Bits", "Copy", "Example", "Symbols", "Task", "Vectors", "stacked"]
