"""Regions of an image: what shape is the object of the colour that the red object's flag has? (Yang et al. 2016)"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.errors import RegardError
from regard.memory.tasks.base import Example, Task
from regard.memory.tasks.forms import Symbols, Vectors
from regard.memory.tasks.sizes import check_least, check_range, distinct, one_of


@dataclass(frozen=True)
class Regions(Task):
    """Regions with an object each, of a colour, a shape and a flag; then: what shape is the object that is pointed at?

    ``regions`` is the range of how many. No two objects of an image have the same colour, shapes are drawn one by one,
    and a flag has the colour of another object of the image. A question names a colour. A share ``chained`` of the
    questions asks for the object whose colour the *flag* of the named one has: no region holds both the named colour
    and the shape, so it takes two looks. The others ask for the named object itself.

    A region is one step: colour, shape and flag one-hot; the last step is the question, its colour, 1 in the column of
    questions, and 1 in the last where a flag is to be followed. (The paper asks such questions of photographs.)

    >>> task = Regions(regions=(3, 3), colours=3, shapes=2)
    >>> example = task.draw(1, torch.Generator().manual_seed(0))
    >>> example.inputs.shape, example.asked[0].tolist()
    (torch.Size([1, 4, 10]), [False, False, False, True])
    >>> task.chain(example.inputs).tolist()  # the places of the named object, and of the one that is asked for
    [[0, 2]]
    """

    regions: tuple[int, int] = (6, 6)
    colours: int = 6
    shapes: int = 6
    chained: float = 1.0

    def __post_init__(self) -> None:
        check_range("Regions", "regions", self.regions, 2)
        check_least("Regions", "colours", self.colours, 2)
        check_least("Regions", "shapes", self.shapes, 2)
        if self.colours < self.regions[1]:
            raise RegardError(
                f"Regions: colours is {self.colours} with up to {self.regions[1]} regions, wanted one of its own for "
                "each; raise colours"
            )
        if not 0.0 <= self.chained <= 1.0:
            raise RegardError(f"Regions: chained is {self.chained!r}, wanted a share of the questions, 0 ≤ chained ≤ 1")

    @property
    def inputs(self) -> Vectors:
        """Colour, shape and flag of a region; the column of questions, and that of flags to be followed."""
        return Vectors(2 * self.colours + self.shapes + 2)

    @property
    def answers(self) -> Symbols:
        """A shape."""
        return Symbols(self.shapes)

    def alike(self, batch: int, generator: torch.Generator) -> Example:
        """``batch`` images of as many regions."""
        n, C, P = one_of(self.regions, generator), self.colours, self.shapes
        rows = torch.arange(batch)
        colour = distinct(batch, n, C, generator)
        shape = torch.randint(P, (batch, n), generator=generator)
        points = torch.randint(n - 1, (batch, n), generator=generator)
        points = points + (points >= torch.arange(n))  # at any region but itself
        named = torch.randint(n, (batch,), generator=generator)
        follow = torch.rand(batch, generator=generator) < self.chained

        inputs = torch.zeros(batch, n + 1, self.inputs.width)
        inputs[:, :n, :C] = F.one_hot(colour, C).float()
        inputs[:, :n, C : C + P] = F.one_hot(shape, P).float()
        inputs[:, :n, C + P : -2] = F.one_hot(colour.gather(1, points), C).float()
        inputs[rows, n, colour[rows, named]] = 1
        inputs[:, n, -2] = 1
        inputs[:, n, -1] = follow.float()
        targets = torch.zeros(batch, n + 1, dtype=torch.long)
        targets[:, n] = shape[rows, torch.where(follow, points[rows, named], named)]
        asked = (torch.arange(n + 1) == n).repeat(batch, 1)
        return Example(inputs, targets, asked, torch.ones_like(asked))

    def oracle(self, inputs: Tensor) -> Tensor:
        """The shape of the object at the end of the chain."""
        C, P = self.colours, self.shapes
        answers = torch.zeros(inputs.shape[:2], dtype=torch.long, device=inputs.device)
        for row, found, (_, target) in zip(inputs, answers, self.chain(inputs).tolist(), strict=True):
            found[self.asked(row)] = row[target, C : C + P].argmax()
        return answers

    def chain(self, inputs: Tensor) -> Tensor:
        """The places of the object that is named and of the one that is asked for, (B, 2); the same without a flag."""
        C = self.colours
        found = []
        for row in inputs:
            question = row[self.asked(row)][0]
            place = {int(region[:C].argmax()): at for at, region in enumerate(row) if not region[-2] and region.any()}
            named = place[int(question[:C].argmax())]
            found.append([named, place[int(row[named, -2 - C : -2].argmax())] if question[-1] else named])
        return torch.tensor(found, device=inputs.device)

    def asked(self, inputs: Tensor) -> Tensor:
        """Where inputs (…, L, width) ask for the answer: booleans (…, L)."""
        return inputs[..., -2] != 0

    def seen(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Features of the regions (B, S, F), questions (B, colours + 1), and which regions there are (B, S)."""
        asked = self.asked(inputs)
        question = inputs[asked]
        steps = torch.arange(inputs.shape[1] - 1, device=inputs.device)
        there = steps < asked.byte().argmax(-1, keepdim=True)
        return inputs[:, :-1, :-2], torch.cat([question[:, : self.colours], question[:, -1:]], -1), there
