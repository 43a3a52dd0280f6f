"""The layers of a Transformer: looks and feeds, each added to what came before."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard import mask
from regard.mask import Mask
from regard.memory.linear import LinearMemory
from regard.nn import MultiHead, TalkingHeads
from regard.translate.models.dropout import dropout
from regard.translate.models.transformer.config import Transformer

__all__ = ["DecoderLayer", "EncoderLayer", "full", "read", "rounded"]


class Residual(nn.Module):
    """x + drop(f(x)), normalised after (published) or before f (Xiong et al. 2020)."""

    def __init__(self, config: Transformer) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.before, self.dropout = config.norm == "pre", config.dropout

    def forward(self, x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        y = x + dropout(f(rounded(self.norm(x) if self.before else x)), self.dropout, self.training)
        out: Tensor = y if self.before else self.norm(y)
        return out


class EncoderLayer(nn.Module):
    """Self attention, then the feed. What it sees is the config's: all, a window, or all in linear time."""

    def __init__(self, config: Transformer) -> None:
        super().__init__()
        self.linear = config.encoder == "linear"
        own = mask.window(config.reach, config.reach) if config.encoder == "window" else None
        self.own = MultiHead(
            config.width, config.heads, score=config.score, mask=own, talking=None if self.linear else _talking(config)
        )
        self.feed = _feed(config)
        self.after_own, self.after_feed = Residual(config), Residual(config)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """(B, S, D) to (B, S, D)."""
        x = self.after_own(x, lambda y: self._look(y, lengths))
        out: Tensor = self.after_feed(x, self.feed)
        return out

    def _look(self, y: Tensor, lengths: Tensor) -> Tensor:
        if not self.linear:
            return read(self.own, y, *self.own.pairs(y), mask.padding(lengths))
        valid = torch.arange(y.shape[1], device=y.device) < lengths.unsqueeze(-1)  # (B, S)
        memory = LinearMemory(self.own.heads, self.own.width // self.own.heads)
        with torch.autocast(y.device.type, enabled=False):
            q, k, v = (full(x) for x in (self.own.queries(y), *self.own.pairs(y)))
            state = memory.reset(y.shape[0], dtype=q.dtype, device=q.device)
            found = memory.read(memory.write(state, k, v, valid=valid), q).output
        out: Tensor = self.own.out(found.transpose(-3, -2).flatten(-2))
        return out


class DecoderLayer(nn.Module):
    """Self attention, a look at the source, then the feed."""

    def __init__(self, config: Transformer) -> None:
        super().__init__()
        self.own, self.cross = (
            MultiHead(
                config.width, config.heads, score=config.score, normalize=config.normalize, talking=_talking(config)
            )
            for _ in range(2)
        )
        self.feed = _feed(config)
        self.after_own, self.after_cross, self.after_feed = Residual(config), Residual(config), Residual(config)

    def forward(self, y: Tensor, own: Callable[[Tensor], Tensor], look: Callable[[Tensor], Tensor]) -> Tensor:
        """(B, L, D) to (B, L, D)."""
        y = self.after_own(y, own)
        y = self.after_cross(y, look)
        out: Tensor = self.after_feed(y, self.feed)
        return out


def read(heads: MultiHead, y: Tensor, keys: Tensor, values: Tensor, seen: Mask | None) -> Tensor:
    """What ``heads`` read for y (..., L, D) from keys and values that were projected before."""
    q = heads.queries(y)
    with torch.autocast(y.device.type, enabled=False):  # in full precision: little work, and rounding blurs a look
        found = heads.look(full(q), full(keys), full(values), seen)
    out: Tensor = heads.out(found.transpose(-3, -2).flatten(-2))
    return out


def rounded(x: Tensor) -> Tensor:
    """As the matrix products to come will have it under autocast: rounded once here, and not by each of them."""
    device = x.device.type
    return x.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else x


def full(x: Tensor) -> Tensor:
    """In float32 or wider."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _feed(config: Transformer) -> nn.Sequential:
    return nn.Sequential(nn.Linear(config.width, config.feed), nn.ReLU(), nn.Linear(config.feed, config.width))


def _talking(config: Transformer) -> TalkingHeads | None:
    return TalkingHeads(config.heads) if config.talking else None
