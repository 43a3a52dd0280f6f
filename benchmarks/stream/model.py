"""A causal language model of bytes out of this package's parts: rotary positions, pre-normalised blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

import regard
from regard.mask import causal
from regard.memory import PairMemory
from regard.position import Rotary
from regard.score import ScaledDot

__all__ = ["SCORE", "Block", "Model", "Sizes"]

SCORE = Rotary(ScaledDot())


@dataclass(frozen=True)
class Sizes:
    """``window`` is the length of the pieces it is trained on."""

    width: int = 128
    heads: int = 4
    layers: int = 4
    window: int = 128
    symbols: int = 256


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.rise, self.fall = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, look: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
        """x (B, L, width); ``look`` reads q, k, v (B, H, L, D)."""
        q, k, v = (
            each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in self.qkv(self.before(x)).chunk(3, -1)
        )
        x = x + self.out(look(q, k, v).transpose(1, 2).flatten(-2))
        risen: Tensor = self.fall(F.gelu(self.rise(self.between(x))))
        return x + risen


class Model(nn.Module):
    """Bytes (B, L) to the logits (B, L, symbols) of the byte that follows each."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.embed = nn.Embedding(sizes.symbols, sizes.width)
        self.blocks = nn.ModuleList(Block(sizes.width, sizes.heads) for _ in range(sizes.layers))
        self.norm = nn.RMSNorm(sizes.width)
        nn.init.normal_(self.embed.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """Each byte sees all bytes before it, read at once."""

        def look(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return regard.attend(q, k, v, score=SCORE, mask=causal(), engine="sdpa")

        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, look)
        return F.linear(self.norm(x), self.embed.weight)

    def step(self, tokens: Tensor, memory: PairMemory[Any], states: Sequence[Any]) -> tuple[Tensor, list[Any]]:
        """The next bytes of a stream: each byte sees what ``memory`` kept, one state a layer."""
        x, after = self.embed(tokens), []
        for block, state in zip(self.blocks, states, strict=True):

            def look(q: Tensor, k: Tensor, v: Tensor, state: Any = state) -> Tensor:
                reading, new = memory.step(state, q, k, v)
                after.append(new)
                return reading.output

            x = block(x, look)
        return F.linear(self.norm(x), self.embed.weight), after
