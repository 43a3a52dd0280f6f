"""Stacks of state spaces: Mamba, which selects, and its twin, which treats every step alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.memory.space import Euler
from regard.memory.tasks import Symbols, Task
from regard.nn.mamba import Mamba, StateSpaceBlock, first_steps

__all__ = ["Alike", "Stack", "alike", "mamba"]


class Alike(StateSpaceBlock):
    """The same block with Δ, B and C learnt but constant: a linear time-invariant system, a convolution (S4D-real)."""

    def __init__(self, width: int, states: int) -> None:
        super().__init__(width, states, 2, 4, Euler())
        self.dt = nn.Parameter(first_steps(self.inner))
        self.B, self.C = (nn.Parameter(torch.randn(states)) for _ in range(2))

    def selected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        lead = x.shape[:-1]
        return F.softplus(self.dt).expand(*lead, -1), self.B.expand(*lead, -1), self.C.expand(*lead, -1)


class Stack(nn.Module):
    """x ← x + block(RMSNorm(x)) for each block, between an embedding and an answer."""

    def __init__(self, task: Task, width: int, blocks: Sequence[nn.Module]) -> None:
        super().__init__()
        shown = task.inputs
        self.embed = nn.Embedding(shown.count, width) if isinstance(shown, Symbols) else nn.Linear(shown.width, width)
        self.blocks = nn.ModuleList(blocks)
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(len(blocks) + 1))
        self.answer = nn.Linear(width, task.answers.width)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (B, L, width of an answer)."""
        x = self.embed(inputs)
        for norm, block in zip(self.norms, self.blocks, strict=False):
            x = x + block(norm(x))
        logits: Tensor = self.answer(self.norms[-1](x))
        return logits


def mamba(task: Task, width: int, states: int, layers: int) -> nn.Module:
    """``layers`` Mamba blocks of ``width``."""
    return _stack(task, width, layers, lambda: Mamba(width, states=states))


def alike(task: Task, width: int, states: int, layers: int) -> nn.Module:
    """As many of the twin."""
    return _stack(task, width, layers, lambda: Alike(width, states))


def _stack(task: Task, width: int, layers: int, block: Callable[[], StateSpaceBlock]) -> nn.Module:
    return Stack(task, width, [block() for _ in range(layers)])
