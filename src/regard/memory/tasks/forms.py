"""What a step shows and what an answer is: numbers, bits, one of so many symbols."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Vectors:
    """A step shows ``width`` numbers: bits, and what else is told in channels of its own."""

    width: int


@dataclass(frozen=True)
class Bits:
    """An answer is ``width`` bits, given as a logit each."""

    width: int
    chance: float = 0.5

    @property
    def parts(self) -> int:
        """How many things one answer can get wrong."""
        return self.width

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy of a bit, in nats."""
        return F.binary_cross_entropy_with_logits(logits, targets.to(logits.dtype))

    def decide(self, logits: Tensor) -> Tensor:
        """1 where a bit is the likelier one."""
        return (logits > 0).to(logits.dtype)

    def wrong(self, answers: Tensor, targets: Tensor) -> Tensor:
        """How many bits of each answer are wrong, (…)."""
        return ((answers > 0.5) != (targets > 0.5)).sum(-1)


@dataclass(frozen=True)
class Symbols:
    """A step shows, or an answer is, one of ``count`` symbols, 0 to ``count`` − 1; as an answer, a logit for each."""

    count: int

    @property
    def width(self) -> int:
        """How many logits an answer is given as."""
        return self.count

    @property
    def chance(self) -> float:
        """The share right of who guesses among all."""
        return 1.0 / self.count

    @property
    def parts(self) -> int:
        """How many things one answer can get wrong."""
        return 1

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy of a symbol, in nats."""
        return F.cross_entropy(logits, targets)

    def decide(self, logits: Tensor) -> Tensor:
        """The likeliest symbol."""
        return logits.argmax(-1)

    def wrong(self, answers: Tensor, targets: Tensor) -> Tensor:
        """1 where the symbol is another, (…)."""
        return (answers != targets).long()
