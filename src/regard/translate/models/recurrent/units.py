"""PyTorch's gated recurrent unit over a whole sequence, and for one step, with the gradients written out.

    r, z = σ(x_r + u_r), σ(x_z + u_z)
    c    = tanh(x_n + r ∘ u_n)
    s'   = z ∘ s + (1 - z) ∘ c          with u = U s + b

x is what the input gives and is computed beforehand, for all steps in one product. Autograd would keep a dozen small
nodes for each step and add to the gradient of U at every one; here the steps back are one pass, and the gradient of U
is one product. The states are float32 or wider, also where the products are bfloat16.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["gru", "gru_step"]


def gru(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """All states s_1 … s_T from s_0 = 0, for N independent units at once.

    Args:
        x: what the inputs give (N, T, B, 3n), in PyTorch's order r, z, new.
        weight: U (N, 3n, n). bias: b (N, 3n).

    Returns:
        (N, T, B, n), float32 or wider.
    """
    if torch.is_autocast_enabled("cpu"):
        weight = weight.to(torch.get_autocast_dtype("cpu"))
    out: Tensor = _Sequence.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return out


def gru_step(x: Tensor, u: Tensor, state: Tensor) -> Tensor:
    """s' (…, n) from x (…, 3n), u = U s + b (…, 3n) and ``state`` s (…, n)."""
    out: Tensor = _Step.apply(x, u, state)  # type: ignore[no-untyped-call]
    return out


def _advance(x: Tensor, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """s', the gates [r; z] (…, 2n), c (…, n) and u_n (…, n), all in the state's dtype."""
    n = state.shape[-1]
    x, u = x.to(state.dtype), u.to(state.dtype)
    gates = (x[..., : 2 * n] + u[..., : 2 * n]).sigmoid_()
    reset, keep = gates.split(n, -1)
    new = u[..., 2 * n :]
    candidate = torch.addcmul(x[..., 2 * n :], reset, new).tanh_()
    return torch.lerp(candidate, state, keep), gates, candidate, new


def _retreat(
    grown: Tensor, state: Tensor, gates: Tensor, candidate: Tensor, new: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x (…, 3n), of u_n (…, n) (u's others are x's), and of the s that s' keeps (…, n)."""
    n = state.shape[-1]
    reset, keep = gates.split(n, -1)
    kept = grown * keep
    dx = grown.new_empty(*grown.shape[:-1], 3 * n)
    inner = torch.ops.aten.tanh_backward(grown - kept, candidate)
    dx[..., 2 * n :] = inner
    dx[..., n : 2 * n] = torch.ops.aten.sigmoid_backward((state - candidate).mul_(grown), keep)
    dx[..., :n] = torch.ops.aten.sigmoid_backward(inner * new, reset)
    return dx, inner.mul_(reset), kept


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, u: Tensor, state: Tensor) -> Tensor:
        after, gates, candidate, new = _advance(x, u, state)
        ctx.save_for_backward(state, gates, candidate, new)
        ctx.dtypes = x.dtype, u.dtype
        return after

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grown: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        dx, dnew, kept = _retreat(grown, *ctx.saved_tensors)
        n = dnew.shape[-1]
        du = torch.cat([dx[..., : 2 * n], dnew], -1)
        return dx.to(ctx.dtypes[0]), du.to(ctx.dtypes[1]), kept


class _Sequence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        units, steps, batch, width = x.shape
        n = width // 3
        across = weight.transpose(1, 2)  # (N, n, 3n)
        offset = bias.to(weight.dtype).unsqueeze(1)  # (N, 1, 3n)
        states = x.new_empty(units, steps + 1, batch, n, dtype=torch.promote_types(x.dtype, torch.float32))
        states[:, 0] = 0.0
        kept = []
        for t in range(steps):
            u = torch.baddbmm(offset, states[:, t].to(weight.dtype), across)
            after, gates, candidate, new = _advance(x[:, t], u, states[:, t])
            states[:, t + 1] = after
            kept.append((gates, candidate, new))
        ctx.save_for_backward(states, weight)
        ctx.kept, ctx.dtypes = kept, (x.dtype, bias.dtype)
        return states[:, 1:].clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grown: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        states, weight = ctx.saved_tensors
        units, steps, batch, n = grown.shape
        dx = grown.new_empty(units, steps, batch, 3 * n)
        du = grown.new_empty(units, steps, batch, 3 * n, dtype=weight.dtype)
        carried = grown.new_zeros(units, batch, n)
        for t in reversed(range(steps)):
            d, dnew, kept = _retreat(grown[:, t] + carried, states[:, t], *ctx.kept[t])
            dx[:, t] = d
            du[:, t, :, : 2 * n] = d[..., : 2 * n]
            du[:, t, :, 2 * n :] = dnew
            carried = torch.bmm(du[:, t], weight).to(kept.dtype) + kept if t else carried
        flat = du.flatten(1, 2)  # (N, T·B, 3n)
        before = states[:, :-1].to(weight.dtype).flatten(1, 2)  # (N, T·B, n)
        dweight = torch.bmm(flat.transpose(1, 2), before)
        return dx.to(ctx.dtypes[0]), dweight, flat.sum(1, dtype=dx.dtype).to(ctx.dtypes[1])
