"""Copy: a sequence of random bits is shown, then asked for again (Graves, Wayne & Danihelka 2014, section 4.1)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.memory.tasks.base import Example, Task
from regard.memory.tasks.forms import Bits, Vectors
from regard.memory.tasks.sizes import bits, check_least, check_range, one_of


@dataclass(frozen=True)
class Copy(Task):
    """n vectors of ``width`` bits, a mark, and n empty steps at which the vectors are asked in their order.

    ``lengths`` is the range of n. The mark has a channel of its own, the last: a step shows ``width`` + 1 numbers, an
    example takes 2n + 1 steps.

    >>> task = Copy(width=2, lengths=(3, 3))
    >>> example = task.draw(1, torch.Generator().manual_seed(0))
    >>> example.inputs.shape, example.asked[0].int().tolist()
    (torch.Size([1, 7, 3]), [0, 0, 0, 0, 1, 1, 1])
    >>> task.score(task.oracle(example.inputs), example)
    1.0
    """

    width: int = 8
    lengths: tuple[int, int] = (1, 20)

    def __post_init__(self) -> None:
        check_least("Copy", "width", self.width, 1)
        check_range("Copy", "lengths", self.lengths, 1)

    @property
    def inputs(self) -> Vectors:
        """The bits, and the mark."""
        return Vectors(self.width + 1)

    @property
    def answers(self) -> Bits:
        """The bits."""
        return Bits(self.width)

    def alike(self, batch: int, generator: torch.Generator) -> Example:
        """``batch`` sequences of the same length."""
        n = one_of(self.lengths, generator)
        shown = bits(batch, n, self.width, generator=generator)
        inputs = torch.zeros(batch, 2 * n + 1, self.width + 1)
        inputs[:, :n, :-1] = shown
        inputs[:, n, -1] = 1
        targets = torch.zeros(batch, 2 * n + 1, self.width)
        targets[:, n + 1 :] = shown
        asked = (torch.arange(2 * n + 1) > n).repeat(batch, 1)
        return Example(inputs, targets, asked, torch.ones_like(asked))

    def oracle(self, inputs: Tensor) -> Tensor:
        """What stood before the mark, after it."""
        answers = inputs.new_zeros(*inputs.shape[:2], self.width)
        for row, found in zip(inputs, answers, strict=True):
            n = int(row[:, -1].argmax())
            found[n + 1 : 2 * n + 1] = row[:n, :-1]
        return answers
