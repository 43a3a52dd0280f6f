"""Induction: what came after A the last time comes after A again (Olsson et al. 2022; Fu et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.memory.tasks.base import Example, Task
from regard.memory.tasks.forms import Symbols
from regard.memory.tasks.sizes import check_least, check_range, one_of


@dataclass(frozen=True)
class Induction(Task):
    """n random symbols, before one of them the sign A; at the end A once more, and what came after it is asked.

    ``lengths`` is the range of n, ``symbols`` how many ordinary ones there are. Symbol 0 is padding, 1 is A.

    >>> task = Induction(lengths=(5, 5), symbols=3)
    >>> example = task.draw(1, torch.Generator().manual_seed(0))
    >>> seen = example.inputs[0].tolist()
    >>> len(seen), seen[-1], example.targets[0, -1].item() == seen[seen.index(1) + 1]
    (7, 1, True)
    """

    lengths: tuple[int, int] = (30, 30)
    symbols: int = 16

    def __post_init__(self) -> None:
        check_range("Induction", "lengths", self.lengths, 1)
        check_least("Induction", "symbols", self.symbols, 2)

    @property
    def inputs(self) -> Symbols:
        """Padding, A, the ordinary symbols."""
        return Symbols(2 + self.symbols)

    @property
    def answers(self) -> Symbols:
        """The same symbols."""
        return self.inputs

    @property
    def chance(self) -> float:
        """Of who guesses among the ordinary symbols."""
        return 1 / self.symbols

    def alike(self, batch: int, generator: torch.Generator) -> Example:
        """``batch`` sequences of the same length."""
        n = one_of(self.lengths, generator)
        shown = 2 + torch.randint(self.symbols, (batch, n), generator=generator)
        before = torch.randint(n, (batch, 1), generator=generator)
        inputs = torch.ones(batch, n + 2, dtype=torch.long)
        inputs.scatter_(1, torch.arange(n) + (torch.arange(n) >= before), shown)
        targets = torch.zeros_like(inputs)
        targets[:, -1:] = shown.gather(1, before)
        return Example(inputs, targets, targets > 0, torch.ones_like(inputs, dtype=torch.bool))

    def oracle(self, inputs: Tensor) -> Tensor:
        """What stands behind the first A, at the second."""
        answers = torch.zeros_like(inputs)
        for row, found in zip(inputs.tolist(), answers, strict=True):
            first = row.index(1)
            found[row.index(1, first + 1)] = row[first + 1]
        return answers
