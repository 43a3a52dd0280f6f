"""Repeat copy: a sequence of random bits is asked for several times over (Graves et al. 2014, section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.memory.tasks.base import Example, Task
from regard.memory.tasks.forms import Bits, Vectors
from regard.memory.tasks.sizes import bits, check_least, check_range, one_of

TENTH = 0.1
"""A count of r is told as the number r / 10, whatever the range, so that it means the same beyond what was trained."""


@dataclass(frozen=True)
class RepeatCopy(Task):
    """n vectors of ``width`` bits, a mark that tells r, and nr + 1 steps: the vectors r times over, then an end bit.

    ``lengths`` is the range of n, ``repeats`` that of r. A step shows ``width`` bits, the mark, and r / 10 with the
    mark; an answer is ``width`` bits and the end bit. The paper's network is told r by its mean and spread in training.

    >>> task = RepeatCopy(width=2, lengths=(2, 2), repeats=(3, 3))
    >>> example = task.draw(1, torch.Generator().manual_seed(0))
    >>> example.inputs[0, 2]
    tensor([0.0000, 0.0000, 1.0000, 0.3000])
    >>> example.targets[0, 3:, -1].int().tolist()
    [0, 0, 0, 0, 0, 0, 1]
    """

    width: int = 8
    lengths: tuple[int, int] = (1, 10)
    repeats: tuple[int, int] = (1, 10)

    def __post_init__(self) -> None:
        check_least("RepeatCopy", "width", self.width, 1)
        check_range("RepeatCopy", "lengths", self.lengths, 1)
        check_range("RepeatCopy", "repeats", self.repeats, 1)

    @property
    def inputs(self) -> Vectors:
        """The bits, the mark, and the count."""
        return Vectors(self.width + 2)

    @property
    def answers(self) -> Bits:
        """The bits, and the end."""
        return Bits(self.width + 1)

    @property
    def chance(self) -> float:
        """Of who guesses the bits and never says end, which is wrong once an example: a little more than is right."""
        return (self.width / 2 + 1) / (self.width + 1)

    def alike(self, batch: int, generator: torch.Generator) -> Example:
        """``batch`` sequences of the same length and count."""
        n, r = one_of(self.lengths, generator), one_of(self.repeats, generator)
        L = n + 1 + n * r + 1
        shown = bits(batch, n, self.width, generator=generator)
        inputs = torch.zeros(batch, L, self.width + 2)
        inputs[:, :n, :-2] = shown
        inputs[:, n, -2] = 1
        inputs[:, n, -1] = r * TENTH
        targets = torch.zeros(batch, L, self.width + 1)
        targets[:, n + 1 : -1, :-1] = shown.repeat(1, r, 1)
        targets[:, -1, -1] = 1
        asked = (torch.arange(L) > n).repeat(batch, 1)
        return Example(inputs, targets, asked, torch.ones_like(asked))

    def oracle(self, inputs: Tensor) -> Tensor:
        """What stood before the mark, as often as the mark says, and the end bit."""
        answers = inputs.new_zeros(*inputs.shape[:2], self.width + 1)
        for row, found in zip(inputs, answers, strict=True):
            n = int(row[:, -2].argmax())
            r = round(float(row[n, -1]) / TENTH)
            for copy in range(r):
                start = n + 1 + copy * n
                found[start : start + n, :-1] = row[:n, :-2]
            found[n + 1 + r * n, -1] = 1
        return answers
