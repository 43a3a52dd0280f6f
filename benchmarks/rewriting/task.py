"""The tasks: a source of random words, a target that is made of them by a rule."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.errors import unknown_name
from regard.memory.tasks import Example, Symbols, Task
from regard.memory.tasks.sizes import check_least, check_range, one_of
from regard.translate.text.vocabulary import BOS, EOS

__all__ = ["RULES", "Rewriting", "parts"]

FIRST = 4  # words are numbered behind padding, unknown, begin and end
RULES = ("relabel", "reorder", "copy", "sort", "first")


@dataclass(frozen=True)
class Rewriting(Task):
    """Rewrite n random words; a row is the source with its end mark and then the target moved right by one.

    ::

        relabel   each word by its one translation, in the same order
        reorder   the same, but a word of the lower half that stands before one of the upper half changes places with it
        copy      the words themselves
        sort      the words by their numbers
        first     the word that stands first, alone

    All rows of a batch have the same n, drawn from ``lengths``. With ``closed`` the end mark is asked too.

    >>> task = Rewriting("sort", (5, 5))
    >>> example = task.draw(1, torch.Generator().manual_seed(2))
    >>> example.inputs[0, :6].tolist(), example.targets[0, 6:].tolist()
    ([31, 15, 28, 12, 13, 3], [12, 13, 15, 28, 31, 3])
    """

    rule: str
    lengths: tuple[int, int]
    words: int = 30
    closed: bool = True

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise unknown_name("rule", self.rule, RULES)
        check_range("Rewriting", "lengths", self.lengths, 1)
        check_least("Rewriting", "words", self.words, 2)

    @property
    def inputs(self) -> Symbols:
        """Padding, unknown, begin and end, the words."""
        return Symbols(FIRST + self.words)

    @property
    def answers(self) -> Symbols:
        """The same numbers."""
        return self.inputs

    def at(self, length: int) -> Rewriting:
        """The same rule for sources of one length, of whose targets the words alone are asked."""
        return replace(self, lengths=(length, length), closed=False)

    def alike(self, batch: int, generator: torch.Generator) -> Example:
        """``batch`` sources of the same length, with their targets."""
        n = one_of(self.lengths, generator)
        said = torch.randint(self.words, (batch, n), generator=generator) + FIRST
        target = self.target(said)
        begin, end = (torch.full((batch, 1), mark) for mark in (BOS, EOS))
        inputs = torch.cat([said, end, begin, target], 1)
        targets = torch.cat([torch.zeros_like(inputs[:, : n + 1]), target, end], 1)
        asked = torch.arange(inputs.shape[1]) > n
        asked[-1] = self.closed
        asked = asked.expand(batch, -1)
        return Example(inputs, targets * asked, asked, torch.ones_like(inputs, dtype=torch.bool))

    def oracle(self, inputs: Tensor) -> Tensor:
        """The rule, from the source alone."""
        source, _ = parts(inputs)
        answers = torch.zeros_like(inputs)
        answers[:, source.shape[1] :] = torch.cat([self.target(source[:, :-1]), source[:, -1:]], 1)
        if not self.closed:
            answers[:, -1] = 0
        return answers

    def target(self, said: Tensor) -> Tensor:
        """What the words (B, n) become."""
        moved = said.gather(1, self.places(said))
        if self.rule in ("copy", "sort", "first"):
            return moved
        step = next(k for k in (7, 11, 13, 17) if self.words % k)  # prime to the number of words: no two become one
        return FIRST + (step * (moved - FIRST) + 2) % self.words

    def places(self, said: Tensor) -> Tensor:
        """Where in the source (B, n) each word of the target comes from."""
        here = torch.arange(said.shape[1]).expand_as(said)
        if self.rule == "sort":
            return said.argsort(dim=1, stable=True)
        if self.rule != "reorder":
            return here[:, :1] if self.rule == "first" else here
        lower = said < FIRST + self.words // 2
        swapped = torch.zeros_like(lower)
        swapped[:, :-1] = lower[:, :-1] & ~lower[:, 1:]  # a pair begins here; no two pairs share a word
        return here + swapped.long() - torch.cat([torch.zeros_like(swapped[:, :1]), swapped[:, :-1]], 1).long()


def parts(inputs: Tensor) -> tuple[Tensor, Tensor]:
    """The source with its end mark (B, n + 1), and the target moved right by one, of rows of the same sizes."""
    end = int((inputs[0] == EOS).nonzero()[0]) + 1
    return inputs[:, :end], inputs[:, end:]
