"""Associative recall: shown one of a list's items again, name the next (Graves et al. 2014, section 4.3)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.memory.tasks.base import Example, Task
from regard.memory.tasks.forms import Bits, Vectors
from regard.memory.tasks.sizes import check_least, check_range, distinct, one_of


@dataclass(frozen=True)
class AssociativeRecall(Task):
    """Items of ``vectors`` × ``width`` bits, each after a mark; one of them between marks; then its successor is asked.

    ``items`` is the range of how many. The items of an example are all different, and the last is never the one
    that is shown again. A step shows ``width`` bits, the mark of an item, and the mark of the question.

    >>> task = AssociativeRecall(width=2, vectors=2, items=(3, 3))
    >>> example = task.draw(1, torch.Generator().manual_seed(0))
    >>> example.inputs[0, :, 2].int().tolist()  # an item's mark
    [1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    >>> example.inputs[0, :, 3].int().tolist()  # the question's
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0]
    """

    width: int = 6
    vectors: int = 3
    items: tuple[int, int] = (2, 6)

    def __post_init__(self) -> None:
        check_least("AssociativeRecall", "width", self.width, 1)
        check_least("AssociativeRecall", "vectors", self.vectors, 1)
        check_range("AssociativeRecall", "items", self.items, 2)
        size = self.width * self.vectors
        if size > 62 or self.items[1] > 2**size:
            raise RegardError(
                f"AssociativeRecall: up to {self.items[1]} items of {size} bits, wanted at most 62 bits and no "
                "more items than are different; change width, vectors or items"
            )

    @property
    def inputs(self) -> Vectors:
        """The bits, the mark of an item, the mark of the question."""
        return Vectors(self.width + 2)

    @property
    def answers(self) -> Bits:
        """The bits."""
        return Bits(self.width)

    def alike(self, batch: int, generator: torch.Generator) -> Example:
        """``batch`` lists of as many items."""
        n, m, W = one_of(self.items, generator), self.vectors, self.width
        codes = distinct(batch, n, 2 ** (m * W), generator)
        items = (codes[..., None] >> torch.arange(m * W)).bitwise_and(1).float().view(batch, n, m, W)
        which = torch.randint(n - 1, (batch,), generator=generator)
        rows = torch.arange(batch)

        L, end = (n + 1) * (m + 1) + 1 + m, n * (m + 1)  # the question's first mark stands at `end`
        inputs = torch.zeros(batch, L, W + 2)
        listed = inputs[:, :end].view(batch, n, m + 1, W + 2)
        listed[:, :, 0, W] = 1
        listed[:, :, 1:, :W] = items
        inputs[:, [end, end + m + 1], W + 1] = 1
        inputs[:, end + 1 : end + m + 1, :W] = items[rows, which]
        targets = torch.zeros(batch, L, W)
        targets[:, end + m + 2 :] = items[rows, which + 1]
        asked = (torch.arange(L) > end + m + 1).repeat(batch, 1)
        return Example(inputs, targets, asked, torch.ones_like(asked))

    def oracle(self, inputs: Tensor) -> Tensor:
        """The item after the one that equals what stands between the question's marks."""
        m, W = self.vectors, self.width
        answers = inputs.new_zeros(*inputs.shape[:2], W)
        for row, found in zip(inputs, answers, strict=True):
            opening, closing = row[:, W + 1].nonzero()[:, 0].tolist()
            question = row[opening + 1 : closing, :W]
            starts = [int(at) + 1 for at in row[:, W].nonzero()]
            at = next(s for s in starts if torch.equal(row[s : s + m, :W], question))
            found[closing + 1 : closing + 1 + m] = row[at + m + 1 : at + 2 * m + 1, :W]
        return answers
