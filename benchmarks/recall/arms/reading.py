"""Stacks of causal reads: each layer writes a pair at every step and reads, from whichever memory it is given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.recall.arms.state_space import Stack
from regard.memory import DeltaMemory
from regard.memory.base import PairMemory
from regard.memory.tasks import Task

__all__ = ["Convolved", "DeltaBlock", "Feedforward", "PairBlock", "ReadBlock", "reader"]

Pairs = PairMemory[Any]


class ReadBlock(nn.Module, ABC):
    """W_o [o_1; …; o_H], o_h what W_q x_t reads once the pair (W_k x_t, W_v x_t) is written; empty before the first."""

    def __init__(self, width: int, memory: Pairs) -> None:
        super().__init__()
        self.memory = memory
        self.learnt = nn.ModuleList(part for part in vars(memory).values() if isinstance(part, nn.Module))  # a score's
        keys, values = memory.heads * memory.width, memory.heads * memory.value_width
        self.query, self.key = (nn.Linear(width, keys, bias=False) for _ in range(2))
        self.value, self.out = nn.Linear(width, values, bias=False), nn.Linear(values, width, bias=False)

    @abstractmethod
    def read(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """What each query (B, H, L, D) reads, (B, H, L, E)."""

    def forward(self, x: Tensor) -> Tensor:
        """x (B, L, width) → (B, L, width)."""
        q, k, v = (self._headed(part(x)) for part in (self.query, self.key, self.value))
        y: Tensor = self.out(self.read(x, q, k, v).transpose(1, 2).flatten(2))  # (B, H, L, E) → (B, L, H·E)
        return y

    def _headed(self, x: Tensor) -> Tensor:
        B, L, _ = x.shape
        return x.view(B, L, self.memory.heads, -1).transpose(1, 2)


class PairBlock(ReadBlock):
    """A read of any memory of pairs."""

    def read(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.memory.step(self.memory.reset(x.shape[0]), q, k, v)[0].output


class DeltaBlock(ReadBlock):
    """A read of the delta rule, which is told at every step how much to write: β = σ(W_β x_t), a number a head."""

    def __init__(self, width: int, memory: DeltaMemory) -> None:
        super().__init__(width, memory)
        self.delta, self.beta = memory, nn.Linear(width, memory.heads)

    def read(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        beta = self.beta(x).sigmoid().transpose(1, 2)
        return self.delta.step(self.delta.reset(x.shape[0]), q, k, v, beta=beta)[0].output


class Convolved(nn.Module):
    """Σ_j w_j ∘ x_{t−j} over the last ``kernel`` steps: what a step shows beside what came just before it."""

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(kernel, width).uniform_(-(kernel**-0.5), kernel**-0.5))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, L, width) → (B, L, width)."""
        L, before = x.shape[1], len(self.weight) - 1
        x = F.pad(x, (0, 0, before, 0))
        return sum((w * x[:, before - j : before - j + L] for j, w in enumerate(self.weight)), torch.zeros(()))


class Feedforward(nn.Sequential):
    """W_2 GELU(W_1 x + b_1) + b_2, each step by itself."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))


def reader(
    task: Task, width: int, memory: Callable[[], Pairs], *, layers: int = 1, kernel: int = 1, hidden: int = 0
) -> nn.Module:
    """``layers`` times a convolution (none where ``kernel`` is 1), a read, a feed-forward (none where ``hidden`` is 0).

    Each is added to what it saw, normalised. ``memory`` builds a layer's, such as ``partial(KVCache, 2, 16)``: two
    heads, keys and values 16 wide, ``score=Rotary("scaled_dot")`` where places matter; a ``DeltaMemory`` gets its β.
    """

    def blocks() -> Iterator[nn.Module]:
        for _ in range(layers):
            if kernel > 1:
                yield Convolved(width, kernel)
            built = memory()
            yield DeltaBlock(width, built) if isinstance(built, DeltaMemory) else PairBlock(width, built)
            if hidden:
                yield Feedforward(width, hidden)

    return Stack(task, width, list(blocks()))
