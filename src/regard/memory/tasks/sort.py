"""Priority sort: vectors with priorities, asked in the order of these (Graves et al. 2014, section 4.5)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.memory.tasks.base import Example, Task
from regard.memory.tasks.forms import Bits, Vectors
from regard.memory.tasks.sizes import bits, check_least, check_range, distinct, one_of

GRID = 2**20
"""Priorities are all different, since they are drawn from this many numbers, evenly from −1 to 1."""


@dataclass(frozen=True)
class PrioritySort(Task):
    """n vectors of ``width`` bits with a priority in [−1, 1] each, a mark, and the ``kept`` first in priority asked.

    ``counts`` is the range of n, highest priority first. A step shows ``width`` bits, the priority and the mark.

    >>> task = PrioritySort(width=1, counts=(3, 3), kept=2)
    >>> example = task.draw(1, torch.Generator().manual_seed(0))
    >>> order = example.inputs[0, :3, 1].argsort(descending=True)
    >>> torch.equal(example.targets[0, 4:, 0], example.inputs[0, order[:2], 0])
    True
    """

    width: int = 8
    counts: tuple[int, int] = (20, 20)
    kept: int = 16

    def __post_init__(self) -> None:
        check_least("PrioritySort", "width", self.width, 1)
        check_least("PrioritySort", "kept", self.kept, 1)
        check_range("PrioritySort", "counts", self.counts, self.kept)

    @property
    def inputs(self) -> Vectors:
        """The bits, the priority, the mark."""
        return Vectors(self.width + 2)

    @property
    def answers(self) -> Bits:
        """The bits."""
        return Bits(self.width)

    def alike(self, batch: int, generator: torch.Generator) -> Example:
        """``batch`` lists of as many vectors."""
        n = one_of(self.counts, generator)
        shown = bits(batch, n, self.width, generator=generator)
        priority = distinct(batch, n, GRID, generator).float() * (2 / (GRID - 1)) - 1
        L = n + 1 + self.kept
        inputs = torch.zeros(batch, L, self.width + 2)
        inputs[:, :n, :-2] = shown
        inputs[:, :n, -2] = priority
        inputs[:, n, -1] = 1
        order = priority.argsort(-1, descending=True)[:, : self.kept]
        targets = torch.zeros(batch, L, self.width)
        targets[:, n + 1 :] = shown.gather(1, order[..., None].expand(-1, -1, self.width))
        asked = (torch.arange(L) > n).repeat(batch, 1)
        return Example(inputs, targets, asked, torch.ones_like(asked))

    def oracle(self, inputs: Tensor) -> Tensor:
        """The vectors before the mark, sorted."""
        answers = inputs.new_zeros(*inputs.shape[:2], self.width)
        for row, found in zip(inputs, answers, strict=True):
            n = int(row[:, -1].argmax())
            places = sorted(range(n), key=lambda t: -float(row[t, -2]))[: self.kept]
            for step, place in enumerate(places):
                found[n + 1 + step] = row[place, :-2]
        return answers
