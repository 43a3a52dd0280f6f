"""Graph traversal: the edges of a random graph, then a path through it by labels (Graves et al. 2016, the DNC)."""

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
class GraphTraversal(Task):
    """All edges (source, label, target) in random order; then a node and labels one by one: where is one now?

    A graph has n ``nodes`` (range) with ``degree`` edges out of each, of different ones of ``labels`` labels, to any
    other node; a path takes m ``steps`` (range). Nodes go by names, drawn from as many as the largest graph needs. An
    edge is one step: source, label and target one-hot, and a bit that is 1 once questions begin. The first question
    shows the start and a label, each further one a label alone; asked each time is the node that is reached. (The paper
    codes names in digits, and asks when all labels have been told.)

    >>> task = GraphTraversal(nodes=(3, 3), degree=1, labels=2, steps=(2, 2))
    >>> example = task.draw(1, torch.Generator().manual_seed(0))
    >>> example.inputs.shape, example.asked[0].int().tolist()
    (torch.Size([1, 5, 9]), [0, 0, 0, 1, 1])
    """

    nodes: tuple[int, int] = (6, 8)
    degree: int = 2
    labels: int = 4
    steps: tuple[int, int] = (1, 4)

    def __post_init__(self) -> None:
        check_range("GraphTraversal", "nodes", self.nodes, 2)
        check_range("GraphTraversal", "steps", self.steps, 1)
        check_least("GraphTraversal", "degree", self.degree, 1)
        check_least("GraphTraversal", "labels", self.labels, 1)
        if self.degree > self.labels:
            raise RegardError(
                f"GraphTraversal: degree is {self.degree} with {self.labels} labels, wanted one of its own for each "
                "edge out of a node; raise labels"
            )

    @property
    def inputs(self) -> Vectors:
        """Source, label, target, and the bit of the questions."""
        return Vectors(2 * self.nodes[1] + self.labels + 1)

    @property
    def answers(self) -> Symbols:
        """A node's name."""
        return Symbols(self.nodes[1])

    def alike(self, batch: int, generator: torch.Generator) -> Example:
        """``batch`` graphs with as many nodes and paths with as many steps."""
        n, m, N, d = one_of(self.nodes, generator), one_of(self.steps, generator), self.nodes[1], self.degree
        rows = torch.arange(batch)
        name = distinct(batch, n, N, generator)
        label = distinct(batch * n, d, self.labels, generator).view(batch, n, d)
        target = torch.randint(n - 1, (batch, n, d), generator=generator)
        target = target + (target >= torch.arange(n)[:, None])  # any node but itself
        order = distinct(batch, n * d, n * d, generator)
        source = torch.arange(n * d).div(d, rounding_mode="floor").expand(batch, -1)

        inputs = torch.zeros(batch, n * d + m, self.inputs.width)
        inputs[:, : n * d, :N] = F.one_hot(name.gather(1, source.gather(1, order)), N).float()
        inputs[:, : n * d, N : -N - 1] = F.one_hot(label.flatten(1).gather(1, order), self.labels).float()
        inputs[:, : n * d, -N - 1 : -1] = F.one_hot(name.gather(1, target.flatten(1).gather(1, order)), N).float()
        inputs[:, n * d :, -1] = 1
        targets = torch.zeros(batch, n * d + m, dtype=torch.long)
        here = torch.randint(n, (batch,), generator=generator)
        inputs[rows, n * d, name[rows, here]] = 1
        for t in range(n * d, n * d + m):
            edge = torch.randint(d, (batch,), generator=generator)
            inputs[rows, t, N + label[rows, here, edge]] = 1
            here = target[rows, here, edge]
            targets[:, t] = name[rows, here]
        asked = (torch.arange(n * d + m) >= n * d).repeat(batch, 1)
        return Example(inputs, targets, asked, torch.ones_like(asked))

    def oracle(self, inputs: Tensor) -> Tensor:
        """Goes the edges one by one."""
        N = self.nodes[1]
        answers = torch.zeros(inputs.shape[:2], dtype=torch.long, device=inputs.device)
        for row, found in zip(inputs, answers, strict=True):
            edges: dict[tuple[int, int], int] = {}
            here = -1
            for t, step in enumerate(row):
                source, label, target = step[:N], int(step[N : -N - 1].argmax()), step[-N - 1 : -1]
                if step[-1]:
                    here = edges[int(source.argmax()) if bool(source.any()) else here, label]
                    found[t] = here
                elif bool(target.any()):
                    edges[int(source.argmax()), label] = int(target.argmax())
        return answers
