"""Selective copying: what lies scattered among empty steps is asked in its order (Gu & Dao 2023, section 4.1)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.memory.tasks.base import Example, Task
from regard.memory.tasks.forms import Symbols
from regard.memory.tasks.sizes import check_least, check_range, distinct, one_of


@dataclass(frozen=True)
class SelectiveCopy(Task):
    """m symbols at random ones of n places, the rest empty; then m marks, at which the symbols are asked in order.

    ``places`` is the range of n, ``items`` that of m. Where the symbols stand is not told, so that only who looks at
    what comes can know what to keep. Symbol 0 is an empty step, 1 the mark; n of 48 or more sets those who look apart.

    >>> task = SelectiveCopy(places=(6, 6), items=(2, 2), symbols=5)
    >>> example = task.draw(1, torch.Generator().manual_seed(0))
    >>> seen = example.inputs[0]
    >>> seen[-2:].tolist(), torch.equal(example.targets[0, -2:], seen[seen > 1])
    ([1, 1], True)
    """

    places: tuple[int, int] = (48, 48)
    items: tuple[int, int] = (4, 4)
    symbols: int = 8

    def __post_init__(self) -> None:
        check_range("SelectiveCopy", "items", self.items, 1)
        check_range("SelectiveCopy", "places", self.places, self.items[1])
        check_least("SelectiveCopy", "symbols", self.symbols, 2)

    @property
    def inputs(self) -> Symbols:
        """Nothing, the mark, the symbols."""
        return Symbols(2 + self.symbols)

    @property
    def answers(self) -> Symbols:
        """The same symbols."""
        return self.inputs

    @property
    def chance(self) -> float:
        """Of who guesses among the symbols."""
        return 1 / self.symbols

    def alike(self, batch: int, generator: torch.Generator) -> Example:
        """``batch`` sequences with as many places and symbols."""
        n, m = one_of(self.places, generator), one_of(self.items, generator)
        items = 2 + torch.randint(self.symbols, (batch, m), generator=generator)
        at = distinct(batch, m, n, generator).sort(-1).values
        inputs = torch.zeros(batch, n + m, dtype=torch.long).scatter_(1, at, items)
        inputs[:, n:] = 1
        targets = torch.zeros_like(inputs)
        targets[:, n:] = items
        return Example(inputs, targets, targets > 0, torch.ones_like(inputs, dtype=torch.bool))

    def oracle(self, inputs: Tensor) -> Tensor:
        """The symbols before the first mark, at the marks."""
        answers = torch.zeros_like(inputs)
        for row, found in zip(inputs.tolist(), answers, strict=True):
            n = row.index(1)
            for step, symbol in enumerate(symbol for symbol in row[:n] if symbol):
                found[n + step] = symbol
        return answers
