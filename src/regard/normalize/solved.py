"""α-entmax and top-k by kernels, where there is work enough: the readable operators sort or bisect whole rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.numerics import wide

#: Smaller work is not worth loading a kernel for.
WORTH = 1 << 17


def solves(scores: Tensor, alpha: float | Tensor = 1.0) -> bool:
    """Whether a kernel takes this: single or half precision on a CPU, plainly run, and enough of it.

    Double precision stays with the readable operators, which are the truth that the kernel is held to.
    """
    return (
        scores.dtype in (torch.float32, torch.float16, torch.bfloat16)
        and scores.numel() >= WORTH
        and scores.device.type == "cpu"
        and (not isinstance(alpha, Tensor) or alpha.numel() == 1 or _a_head(alpha, scores))
        and not torch.compiler.is_compiling()
        and _plainly_run(scores)
    )


def solved(scores: Tensor, alpha: float | Tensor) -> Tensor:
    """α-entmax of scores (…, S) for one α, or (…, H, L, S) for one a head; differentiable in both, twice."""
    alphas = torch.as_tensor(alpha, dtype=torch.float64).reshape(-1)
    weights: Tensor = _Solved.apply(wide(scores), alphas, 0)  # type: ignore[no-untyped-call]
    return weights.to(scores.dtype)


def chosen(scores: Tensor, k: int) -> Tensor:
    """The softmax over the k largest of scores (…, S) and what ties with the last; differentiable twice."""
    softmax = torch.ones(1, dtype=torch.float64)  # α = 1: going back, a weight's slope is w^{2−α} = w
    weights: Tensor = _Solved.apply(wide(scores), softmax, k)  # type: ignore[no-untyped-call]
    return weights.to(scores.dtype)


def _a_head(alpha: Tensor, scores: Tensor) -> bool:
    return scores.dim() > 2 and alpha.numel() == scores.shape[-3]


def _plainly_run(x: Tensor) -> bool:
    """No tracer, transform, mode or tangent is at work, which a kernel would hide its numbers from."""
    return type(x) in (Tensor, torch.nn.Parameter) and not (
        torch._C._get_tracing_state() is not None
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch._C._len_torch_dispatch_stack() > 0
        or torch.autograd.forward_ad._current_level >= 0
    )


class _Solved(torch.autograd.Function):
    """w of s and α, or of s and the k of top-k. Only w is kept for the way back."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, alphas: Tensor, k: int) -> Tensor:
        from regard.kernels import largest, rows
        from regard.kernels.workers import cut, share

        weights = torch.empty_like(scores, memory_format=torch.contiguous_format)
        s, w = (_rows(x) for x in (scores, weights))
        runs = cut(len(s), 4 * s.size)
        if k:
            share(largest.forward, runs, s, w, k)
        else:
            share(rows.forward, runs, s, w, alphas.detach().numpy(), _repeat(scores, alphas))
        ctx.save_for_backward(weights, alphas)
        return weights

    @staticmethod
    def backward(ctx: Any, away: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        weights, alphas = ctx.saved_tensors
        learns = ctx.needs_input_grad[1]
        if torch.is_grad_enabled():  # someone wants the gradient of this gradient
            return *_pulled(weights, alphas, away, learns), None
        from regard.kernels import rows
        from regard.kernels.workers import cut, share

        ds = torch.empty_like(weights)
        w, x, d = (_rows(x) for x in (weights, away, ds))
        by_row = alphas.new_empty(len(w) if learns else 0)
        share(rows.backward, cut(len(w), 8 * w.size), w, x, alphas.numpy(), _repeat(weights, alphas), d, by_row.numpy())
        if not learns:
            return ds, None, None
        return ds, by_row.view(-1, len(alphas), _repeat(weights, alphas)).sum((0, 2)), None


def _rows(x: Tensor) -> Any:
    return x.detach().contiguous().numpy().reshape(-1, x.shape[-1])


def _repeat(scores: Tensor, alphas: Tensor) -> int:
    """How many rows there are before the next head's."""
    return scores.shape[-2] if len(alphas) > 1 else 1


def _pulled(w: Tensor, alphas: Tensor, x: Tensor, learns: bool) -> tuple[Tensor, Tensor | None]:
    """ds = g (x − x̄) with g = w^{2−α} on the support and x̄ = Σ g x / Σ g, and the gradient of α, differentiable."""
    alpha = alphas.to(w.dtype) if len(alphas) == 1 else alphas.to(w.dtype).view(-1, 1, 1)
    inside = w > 0
    known = torch.where(inside, w, 1.0)
    g = torch.where(inside, known ** (2 - alpha), 0.0)
    total = g.sum(-1, keepdim=True)
    off = x - (g * x).sum(-1, keepdim=True) / torch.where(total > 0, total, 1.0)
    if not learns:
        return g * off, None
    by_alpha = off * w * (1 / (alpha - 1) ** 2 - known.log() / (alpha - 1))
    heads = by_alpha.sum((-2, -1)).reshape(-1, len(alphas)) if len(alphas) > 1 else by_alpha.reshape(-1, 1)
    return g * off, heads.sum(0).to(alphas.dtype)
