"""Stacked attention that is shown regions one by one, and asked at the last step."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from regard.memory.tasks import Regions, Task
from regard.nn import StackedAttention

__all__ = ["Looking", "looking", "seen"]


class Looking(nn.Module):
    """v_Q = W q + b of the question as it is told, then :class:`regard.nn.StackedAttention` over the regions."""

    def __init__(self, task: Regions, layers: int, width: int) -> None:
        super().__init__()
        self.task = task
        self.question = nn.Linear(task.colours + 1, width)
        self.net = StackedAttention(width, task.inputs.width - 2, task.shapes, layers=layers)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (B, L, shapes), those of the answer at the question and 0 elsewhere."""
        regions, question, there = self.task.seen(inputs)
        logits: Tensor = self.net(self.question(question), regions, valid=there)
        return logits.unsqueeze(1) * self.task.asked(inputs).unsqueeze(-1)


def looking(task: Task, layers: int, width: int) -> nn.Module:
    """One of so many layers; none answers from the question alone."""
    assert isinstance(task, Regions)
    return Looking(task, layers, width)


def seen(model: nn.Module) -> dict[str, float]:
    """The weight of the last layer on the object that is asked for, and of the first on the one that is named.

    Of a thousand questions that follow a flag: the mean.
    """
    assert isinstance(model, Looking)
    example = replace(model.task, chained=1.0).draw(1000, torch.Generator().manual_seed(1_000_037))
    regions, question, there = model.task.seen(example.inputs)
    weights = model.net.weights(model.question(question), regions, valid=there)
    named, asked = model.task.chain(example.inputs).unbind(-1)
    rows = torch.arange(len(named))
    return {
        "last on asked": float(weights[rows, -1, asked].mean()),
        "first on named": float(weights[rows, 0, named].mean()),
    }
