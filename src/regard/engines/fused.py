"""One call of PyTorch's fused kernel that also gives its log-sum-exp, with gradients for both."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.grid import Grid
from regard.numerics import wide


@dataclass(frozen=True)
class Lowered:
    """Scores as ``scale · q·k`` under a mask in the kernel's own words: q (B, H, L, D), k (B, G, S, D)."""

    q: Tensor
    k: Tensor
    scale: float
    is_causal: bool
    mask: Tensor | None

    def seen(self, grid: Grid) -> Tensor:
        """How many keys each query may see, (B, H, L)."""
        B, H, L, S = grid.shape
        if self.is_causal:  # anchored at the start, as the kernel has it
            return (grid.i[..., 0] + 1).clamp(max=S).expand(B, H, L)
        if self.mask is None:
            return torch.full((1, 1, 1), S, device=self.q.device).expand(B, H, L)
        return self.mask.expand(*self.mask.shape[:3], S).sum(-1).expand(B, H, L)

    def wide(self) -> Lowered:
        """The same in float32 at least: statistics of half-precision reads are taken in single."""
        return replace(self, q=wide(self.q), k=wide(self.k))


def fused(low: Lowered, *columns: Tensor) -> tuple[Tensor, Tensor]:
    """(Σ w v, log Σ exp s), v being ``columns`` side by side: (B, H, L, E), (B, H, L). An empty row gives 0 and −∞."""
    q, k, values = one_width(low.q, low.k, *columns)
    output, lse = _call(replace(low, q=q, k=k), values)
    if low.mask is not None:  # the kernel writes 0 for the lse of an empty row
        lse = torch.where(low.mask.any(-1).expand(lse.shape), lse, -math.inf)
    if torch.is_grad_enabled() and (low.q.requires_grad or low.k.requires_grad):
        lse = _with_gradient(low, lse)
    return output[..., : sum(column.shape[-1] for column in columns)], lse


def level(low: Lowered) -> Tensor:
    """log Σ exp s alone, (B, H, L). The values are zeros: vanishing weights times numbers are slow."""
    return fused(low, torch.zeros_like(low.k))[1]


def one_width(q: Tensor, k: Tensor, *columns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v = ``columns``, padded with zeros to one width: the kernel is quadratic in memory when E ≠ D.

    Where columns are added at all they are filled up to a multiple of 16, which the kernel runs faster than 129.
    """
    D, E = q.shape[-1], sum(column.shape[-1] for column in columns)
    width = D if D == E else -(-max(D, E) // 16) * 16
    return _filled(width, q), _filled(width, k), _filled(width, *columns)


def _filled(width: int, *columns: Tensor) -> Tensor:
    """``columns`` side by side and zeros up to ``width``, written once."""
    missing = width - sum(column.shape[-1] for column in columns)
    if missing:
        first = columns[0]
        columns = (*columns, first.new_zeros(()).expand(*first.shape[:-1], missing))
    return columns[0] if len(columns) == 1 else torch.cat(columns, -1)


def _call(low: Lowered, v: Tensor) -> tuple[Tensor, Tensor]:
    if low.q.device.type == "cpu":
        bias = None
        if low.mask is not None:
            bias = torch.zeros_like(low.mask, dtype=low.q.dtype).masked_fill(~low.mask, -math.inf)
        output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            low.q, low.k, v, 0.0, low.is_causal, attn_mask=bias, scale=low.scale
        )
        return output, lse.detach()
    return _probed(low, v)


def _probed(low: Lowered, v: Tensor) -> tuple[Tensor, Tensor]:
    """Without a kernel that hands out Λ: an added key that scores s₀ and gets weight w₀ tells, Λ = s₀ + log(1/w₀ − 1).

    The probe scores what the row's best of a few keys scores, so that neither weight is lost to rounding.
    """
    H, L = low.q.shape[1:3]
    G, S = low.k.shape[1:3]
    mask = low.mask
    if low.is_causal:
        mask = torch.ones(L, S, dtype=torch.bool, device=low.q.device).tril()
    output = F.scaled_dot_product_attention(
        low.q, low.k, v, attn_mask=low.mask, is_causal=low.is_causal, scale=low.scale, enable_gqa=H != G
    )
    q, k = low.q.detach().float(), low.k.detach().float()
    # The mean score under the weights is never above Λ and never more than log S below it.
    mean_key = F.scaled_dot_product_attention(q, k, k, attn_mask=mask, scale=low.scale, enable_gqa=H != G)
    probe = low.scale * (q * mean_key).sum(-1, keepdim=True)  # (B, H, L, 1)
    q = torch.cat([q, probe / low.scale], -1)
    k = torch.cat([F.pad(k, (0, 1)), F.pad(torch.zeros_like(k[:, :, :1]), (0, 1), value=1.0)], 2)
    marker = torch.zeros(*k.shape[:3], k.shape[3], device=k.device)
    marker[:, :, -1, 0] = 1.0
    if mask is not None:
        mask = F.pad(mask.expand(*mask.shape[:-1], S), (0, 1), value=True)
    weight = F.scaled_dot_product_attention(q, k, marker, attn_mask=mask, scale=low.scale, enable_gqa=H != G)[..., 0]
    return output, probe.squeeze(-1) + torch.log1p(-weight) - weight.log()


def _with_gradient(low: Lowered, lse: Tensor) -> Tensor:
    """The same lse, whose derivative is that of Σ w s with w held fixed, which is the derivative of log Σ exp s."""
    held = replace(low, q=low.q.detach(), k=low.k.detach())
    mean_key, _ = _call(held, low.k)
    slope = low.scale * (low.q * mean_key).sum(-1)
    return lse + torch.where(lse == -math.inf, 0.0, slope - slope.detach())
