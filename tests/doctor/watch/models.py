"""Small models that attend in different ways, and the statistics of dense float64 weights."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import regard

B, H, L, D = 2, 3, 13, 5
W = H * D

Attend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class Attention(nn.Module):
    """Projections around one way to attend; the last queries, keys, values and mask stay to be asked."""

    def __init__(self, attend: Attend, kv_heads: int = H) -> None:
        super().__init__()
        self.attend, self.kv_heads = attend, kv_heads
        self.q, self.k, self.v = nn.Linear(W, W), nn.Linear(W, kv_heads * D), nn.Linear(W, kv_heads * D)
        self.out = nn.Linear(W, W)
        self.q.weight.data *= 3  # so that weights are not all alike

    def forward(self, x: Tensor, allowed: Tensor) -> Tensor:
        B, L, _ = x.shape
        q = self.q(x).view(B, L, H, D).transpose(1, 2)
        k, v = (y(x).view(B, L, self.kv_heads, D).transpose(1, 2) for y in (self.k, self.v))
        self.last = q.detach(), k.detach(), v.detach(), allowed
        y: Tensor = self.out(self.attend(q, k, v, allowed).transpose(1, 2).reshape(B, L, W))
        return y


class Stack(nn.Module):
    def __init__(self, attend: Attend, layers: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Attention(attend) for _ in range(layers))

    def forward(self, x: Tensor, allowed: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            x = x + layer(x, allowed)
        return x


def sdpa(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)


def additive(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
    bias = torch.zeros(allowed.shape, dtype=q.dtype).masked_fill(~allowed, -torch.inf)
    read: Tensor = torch.ops.aten.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    return read


def written_out(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
    scores = (q @ k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
    return torch.softmax(scores.masked_fill(~allowed, -torch.inf), dim=-1) @ v


def minimum(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
    scores = torch.matmul(q * q.shape[-1] ** -0.5, k.mT)
    scores = scores + torch.where(allowed, 0.0, torch.finfo(q.dtype).min)
    return F.dropout(F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype), 0.0).matmul(v)


def einsum(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    scores = torch.einsum("blhd,bshd->bhls", q, k) * q.shape[-1] ** -0.5
    weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
    return torch.einsum("bhls,bshe->blhe", weights, v).transpose(1, 2)


def flat(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
    B, H, L, D = q.shape
    q, k, v = (x.reshape(B * H, -1, D) for x in (q, k, v))
    scores = torch.bmm(q, k.transpose(1, 2)).view(B, H, L, -1) * D**-0.5
    weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1).view(B * H, L, -1)
    return torch.bmm(weights, v).view(B, H, L, D)


def baddbmm(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
    B, H, L, D = q.shape
    bias = torch.zeros(allowed.shape, dtype=q.dtype).masked_fill(~allowed, -torch.inf)
    bias = bias.expand(B, H, L, L).reshape(B * H, L, L)
    q, k, v = (x.reshape(B * H, -1, D) for x in (q, k, v))
    return torch.baddbmm(bias, q, k.mT, alpha=D**-0.5).softmax(-1).bmm(v).view(B, H, L, D)


def own(engine: str) -> Attend:
    def attend(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
        return regard.attend(q, k, v, mask=regard.mask.dense(allowed), engine=engine)

    return attend


WAYS: dict[str, Attend] = {
    "sdpa": sdpa, "additive": additive, "written_out": written_out, "minimum": minimum, "einsum": einsum, "flat": flat,
    "baddbmm": baddbmm, "tiled": own("tiled"), "reference": own("reference"), "own_sdpa": own("sdpa"),
}  # fmt: skip


def causal(L: int = L) -> Tensor:
    return torch.ones(L, L, dtype=torch.bool).tril()[None, None]


def wanted(
    q: Tensor, k: Tensor, allowed: Tensor, real: Tensor | None = None, groups: dict[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """The statistics by their definitions, from float64 weights: (H,) each."""
    q, k = q.double(), k.double()
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    B, H, L, S = *q.shape[:3], k.shape[2]
    allowed = allowed.expand(B, H, L, S)
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    w = torch.softmax(scores.masked_fill(~allowed, -torch.inf), -1).nan_to_num(0.0)
    seen = allowed.sum(-1)
    real = torch.ones(B, L, dtype=torch.bool) if real is None else real
    counted = real[:, None].expand(B, H, L)
    looks, chooses = counted & (seen > 0), counted & (seen > 1)
    evenness = torch.special.entr(w).sum(-1) / seen.clamp(min=2).log()
    i = torch.arange(L)[:, None] + S - L
    j = torch.arange(S)

    def mean(x: Tensor, over: Tensor) -> Tensor:
        return torch.where(over, x, 0.0).sum((0, 2)) / over.sum((0, 2))

    spread = torch.stack(
        [torch.stack([(scores[b, h][allowed[b, h]]).var(correction=0) for h in range(H)]) for b in range(B)]
    )
    pairs = allowed.sum((2, 3))
    found = {
        "entropy": mean(evenness, chooses),
        "saturated": mean((evenness < 0.1).double(), chooses),
        "empty": mean((seen == 0).double(), counted),
        "peak": mean(w.amax(-1), looks),
        "distance": mean((w * (i - j).abs()).sum(-1), looks),
        "spread": ((spread.nan_to_num(0.0) * pairs).sum(0) / pairs.sum(0)).sqrt(),
        "first": mean(w[..., 0], looks),
        "self": mean((w * (i == j)).sum(-1), looks),
        "previous": mean((w * (i - 1 == j)).sum(-1), looks),
    }
    for name, group in (groups or {}).items():
        found[name] = mean((w * group[:, None, None, :]).sum(-1), looks)
    return found
