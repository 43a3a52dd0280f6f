"""A needle in a haystack: one key and its value at a depth that is set, among chaff and other pairs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.memory.tasks.base import Example, Task
from regard.memory.tasks.forms import Symbols
from regard.memory.tasks.sizes import check_least, check_range, distinct, one_of


@dataclass(frozen=True)
class Needle(Task):
    """n steps of chaff, in it a key with its value and ``decoys`` pairs of other keys; at the end the key is asked.

    ``lengths`` is the range of n. ``depths`` is the range of where the pair stands, as a share of the way: 0 is at the
    very start, 1 right before the question. Symbol 0 is padding, then keys, values, and ``chaff`` kinds of chaff.

    >>> task = Needle(lengths=(4, 4), depths=(0.5, 0.5), keys=2, values=3, chaff=1, decoys=1)
    >>> example = task.draw(1, torch.Generator().manual_seed(0))
    >>> seen = example.inputs[0].tolist()
    >>> len(seen), example.targets[0, -1].item() == seen[seen.index(seen[-1]) + 1]
    (9, True)
    """

    lengths: tuple[int, int] = (64, 64)
    depths: tuple[float, float] = (0.0, 1.0)
    keys: int = 16
    values: int = 16
    chaff: int = 16
    decoys: int = 3

    def __post_init__(self) -> None:
        check_range("Needle", "lengths", self.lengths, 0)
        check_least("Needle", "decoys", self.decoys, 0)
        check_least("Needle", "keys", self.keys, self.decoys + 1)
        check_least("Needle", "values", self.values, 2)
        check_least("Needle", "chaff", self.chaff, 1)
        pair = isinstance(self.depths, tuple) and len(self.depths) == 2
        if not pair or not 0 <= self.depths[0] <= self.depths[1] <= 1:
            raise RegardError(f"Needle: depths is {self.depths!r}, wanted (first, last) with 0 ≤ first ≤ last ≤ 1")

    @property
    def inputs(self) -> Symbols:
        """Padding, keys, values, chaff."""
        return Symbols(1 + self.keys + self.values + self.chaff)

    @property
    def answers(self) -> Symbols:
        """The same symbols."""
        return self.inputs

    @property
    def chance(self) -> float:
        """Of who guesses among the values."""
        return 1 / self.values

    def alike(self, batch: int, generator: torch.Generator) -> Example:
        """``batch`` haystacks of the same length, each with its own depth."""
        n, pairs = one_of(self.lengths, generator), self.decoys + 1
        low, high = self.depths
        depth = low + (high - low) * torch.rand(batch, generator=generator, dtype=torch.float64)
        # a haystack is n + pairs units: a step of chaff is one of them, a pair another, of two steps
        needle = depth.mul(n + pairs - 1).round().long()[:, None]
        others = distinct(batch, self.decoys, n + pairs - 1, generator)
        at = torch.cat([needle, others + (others >= needle)], 1)
        two = torch.zeros(batch, n + pairs, dtype=torch.long).scatter_(1, at, 1)
        begins = (two + 1).cumsum(1) - (two + 1)
        at = begins.gather(1, at)

        keys = 1 + distinct(batch, pairs, self.keys, generator)
        values = 1 + self.keys + torch.randint(self.values, (batch, pairs), generator=generator)
        inputs = (
            torch.randint(self.chaff, (batch, n + 2 * pairs + 1), generator=generator) + 1 + self.keys + self.values
        )
        inputs.scatter_(1, at, keys).scatter_(1, at + 1, values)
        inputs[:, -1] = keys[:, 0]
        targets = torch.zeros_like(inputs)
        targets[:, -1] = values[:, 0]
        return Example(inputs, targets, targets > 0, torch.ones_like(inputs, dtype=torch.bool))

    def oracle(self, inputs: Tensor) -> Tensor:
        """What stands behind the key of the question where it first came."""
        answers = torch.zeros_like(inputs)
        for row, found in zip(inputs.tolist(), answers, strict=True):
            end = max(t for t, symbol in enumerate(row) if symbol)
            found[end] = row[row.index(row[end]) + 1]
        return answers
