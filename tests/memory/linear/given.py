"""Memories that are read by features, and what they are given, for the tests."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.memory import EluPlusOne, Exponential, FeatureMap, LinearMemory, PairMemory, PerformerMemory, SquaredReLU
from regard.memory.linear.sums import FeatureMemory, LinearState
from regard.reading import Reading

B, H, G, L, D, E = 2, 6, 3, 23, 5, 7
MAPS: list[FeatureMap] = [EluPlusOne(), Exponential(), SquaredReLU(floor=0.3)]


def memories() -> list[FeatureMemory]:
    drawn = torch.Generator().manual_seed(1)
    return [
        *(LinearMemory(G, D, E, features=each) for each in MAPS),
        PerformerMemory(G, D, E, features=11, generator=drawn),
        PerformerMemory(G, D, E, features=4, kind="hyperbolic", generator=drawn),
    ]


every = pytest.mark.parametrize("memory", memories(), ids=lambda m: repr(m.map).partition("(")[0])


def qkv(length: int = L, seed: int = 0, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    q, k, v = (
        torch.randn(B, heads, length, width, generator=g, dtype=torch.float64)
        for heads, width in ((H, D), (G, D), (G, E))
    )
    return q * scale, k * scale, v


def stepped(memory: PairMemory[LinearState], q: Tensor, k: Tensor, v: Tensor) -> Reading:
    return memory.step(memory.reset(len(q), dtype=torch.float64), q, k, v)[0]
