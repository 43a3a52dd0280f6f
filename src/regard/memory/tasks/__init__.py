"""Tasks that can only be answered from memory, each with the algorithm that answers it.

A task is frozen sizes. ``draw(batch, generator)`` gives an :class:`Example`: inputs, targets, and the steps at which an
answer is asked; ``loss`` and ``score`` fit what is answered; ``oracle(inputs)`` answers from the inputs alone, and gets
everything right. ``TASKS`` has them by their names. :class:`Pen` stands beside them: what it asks for has a density and
no right answer.
"""

from __future__ import annotations

from regard.memory.tasks.associative import AssociativeRecall
from regard.memory.tasks.base import Example, Task, stacked
from regard.memory.tasks.copy import Copy
from regard.memory.tasks.forms import Bits, Symbols, Vectors
from regard.memory.tasks.graph import GraphTraversal
from regard.memory.tasks.induction import Induction
from regard.memory.tasks.multiquery import MultiQueryRecall
from regard.memory.tasks.needle import Needle
from regard.memory.tasks.pen import Handwriting, Pen
from regard.memory.tasks.regions import Regions
from regard.memory.tasks.repeat import RepeatCopy
from regard.memory.tasks.selective import SelectiveCopy
from regard.memory.tasks.sort import PrioritySort
from regard.memory.tasks.stories import Stories, Story

TASKS: dict[str, type[Task]] = {
    "associative": AssociativeRecall,
    "copy": Copy,
    "graph": GraphTraversal,
    "induction": Induction,
    "multiquery": MultiQueryRecall,
    "needle": Needle,
    "regions": Regions,
    "repeat": RepeatCopy,
    "selective": SelectiveCopy,
    "sort": PrioritySort,
    "stories": Stories,
}

__all__ = [
    "TASKS",
    "AssociativeRecall",
    "Bits",
    "Copy",
    "Example",
    "GraphTraversal",
    "Handwriting",
    "Induction",
    "MultiQueryRecall",
    "Needle",
    "Pen",
    "PrioritySort",
    "Regions",
    "RepeatCopy",
    "SelectiveCopy",
    "Stories",
    "Story",
    "Symbols",
    "Task",
    "Vectors",
    "stacked",
]
