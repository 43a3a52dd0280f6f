"""What a task is: it draws examples, knows what loss and score fit its answers, and answers itself by an algorithm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.memory.tasks.forms import Bits, Symbols, Vectors
from regard.memory.tasks.sizes import check_least


class Example(NamedTuple):
    """A batch of sequences, and what is to be answered at which of their steps."""

    inputs: Tensor
    """What is seen step by step: numbers (B, L, width), or symbols (B, L)."""
    targets: Tensor
    """The right answers: bits (B, L, width), or symbols (B, L); 0 at steps where nothing is asked."""
    asked: Tensor
    """Booleans (B, L), True at the steps where an answer is asked."""
    valid: Tensor
    """Booleans (B, L), True at the steps a row has: rows of different lengths are padded with 0 on the right."""

    def to(self, device: torch.device | str) -> Example:
        """The same on another device."""
        return Example(*(x.to(device) for x in self))


class Task(ABC):
    """A family of sequences that can only be answered from memory; its sizes are what it was built with.

    A model is given ``inputs`` and returns a logit for everything an answer can be, at every step: (B, L,
    ``answers.width``). Only the steps that are ``asked`` count.
    """

    @property
    @abstractmethod
    def inputs(self) -> Vectors | Symbols:
        """What one step shows."""

    @property
    @abstractmethod
    def answers(self) -> Bits | Symbols:
        """What one answer is made of."""

    @property
    def chance(self) -> float:
        """The share that is right, on average, when every answer is a guess among those that can be right."""
        return self.answers.chance

    @abstractmethod
    def alike(self, batch: int, generator: torch.Generator) -> Example:
        """``batch`` examples of the same sizes, drawn from the ranges the task was built with."""

    @abstractmethod
    def oracle(self, inputs: Tensor) -> Tensor:
        """The right answers, by an algorithm that sees ``inputs`` and nothing else: bits (B, L, width) or symbols."""

    def draw(self, batch: int, generator: torch.Generator, *, ragged: bool = False) -> Example:
        """A batch, the same for the same state of ``generator``: rows of the same sizes, or each row of its own."""
        check_least(type(self).__name__, "batch", batch, 1)
        if not ragged:
            return self.alike(batch, generator)
        return stacked([self.alike(1, generator) for _ in range(batch)])

    def loss(self, outputs: Tensor, example: Example) -> Tensor:
        """The mean loss in nats over what is asked (a bit, a symbol), of logits (B, L, ``answers.width``)."""
        return self.answers.loss(outputs[example.asked], example.targets[example.asked])

    def decide(self, outputs: Tensor) -> Tensor:
        """The answers that logits (B, L, ``answers.width``) stand for."""
        return self.answers.decide(outputs)

    def wrong(self, answers: Tensor, example: Example) -> Tensor:
        """How many bits, or symbols, of each row are wrong: integers (B,)."""
        return self.answers.wrong(answers, example.targets).mul(example.asked).sum(-1)

    def score(self, answers: Tensor, example: Example) -> float:
        """The share of bits, or symbols, asked for that is right."""
        asked = int(example.asked.sum()) * self.answers.parts
        return 1.0 - int(self.wrong(answers, example).sum()) / asked


def stacked(examples: Sequence[Example]) -> Example:
    """Examples as the rows of one, padded with 0 on the right to the longest."""
    longest = max(example.valid.shape[1] for example in examples)
    return Example(*(torch.cat([_padded(x, longest) for x in parts]) for parts in zip(*examples, strict=True)))


def _padded(x: Tensor, length: int) -> Tensor:
    return F.pad(x, (0, 0) * (x.dim() - 2) + (0, length - x.shape[1]))
