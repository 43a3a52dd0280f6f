"""PyTorch's recurrent units with the gradients written out: a gated one over a whole sequence and for one step, and one
step of a long short-term memory.

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

__all__ = ["gru", "gru_step", "lstm_step"]


def gru(x: Tensor, weight: Tensor, bias: Tensor, first: Tensor | None = None) -> Tensor:
    """All states s_1 … s_T, for N independent units at once.

    Args:
        x: what the inputs give (N, T, B, 3n), in PyTorch's order r, z, new.
        weight: U (N, 3n, n).
        bias: b (N, 3n), or of each row of the batch (N, B, 3n).
        first: s_0 (N, B, n); 0 where it is left out.

    Returns:
        (N, T, B, n), float32 or wider.
    """
    if torch.is_autocast_enabled("cpu"):
        weight = weight.to(torch.get_autocast_dtype("cpu"))
    out: Tensor = _Sequence.apply(x, weight, bias, first)  # type: ignore[no-untyped-call]  # torch has no types for it
    return out


def gru_step(x: Tensor, u: Tensor, state: Tensor) -> Tensor:
    """s' (…, n) from x (…, 3n), u = U s + b (…, 3n) and ``state`` s (…, n)."""
    out: Tensor = _Step.apply(x, u, state)  # type: ignore[no-untyped-call]  # torch has no types for it
    return out


def lstm_step(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """h' = σ(o) ∘ tanh c' and c' = σ(f) ∘ c + σ(i) ∘ tanh g, (…, n) both.

    ``gates`` (…, 4n) is W x + U h + b in PyTorch's order i, f, g, o; ``cell`` c (…, n).
    """
    hidden, after = _LongStep.apply(gates, cell)  # type: ignore[no-untyped-call]  # torch has no types for it
    return hidden, after


def _sigmoid(x: Tensor) -> Tensor:
    """σ(x) = (1 + tanh(x / 2)) / 2, in place.

    ``torch.sigmoid`` computes what is left over of a tensor's last vector by another exponential than the rest, so that
    the bits of a gate would depend on how many rows there are; ``torch.tanh`` does not.
    """
    return x.mul_(0.5).tanh_().add_(1.0).mul_(0.5)


def _advance(x: Tensor, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """s', the gates [r; z] (…, 2n), c (…, n) and u_n (…, n), all in the state's dtype."""
    n = state.shape[-1]
    x, u = x.to(state.dtype), u.to(state.dtype)
    gates = _sigmoid(x[..., : 2 * n] + u[..., : 2 * n])
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
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, first: Tensor | None) -> Tensor:
        units, steps, batch, width = x.shape
        n = width // 3
        across = weight.transpose(1, 2)  # (N, n, 3n)
        offset = bias.to(weight.dtype)
        offset = offset if bias.dim() == 3 else offset.unsqueeze(1)  # (N, B or 1, 3n)
        states = x.new_empty(units, steps + 1, batch, n, dtype=torch.promote_types(x.dtype, torch.float32))
        states[:, 0] = 0.0 if first is None else first
        kept = []
        for t in range(steps):
            u = torch.baddbmm(offset, states[:, t].to(weight.dtype), across)
            after, gates, candidate, new = _advance(x[:, t], u, states[:, t])
            states[:, t + 1] = after
            kept.append((gates, candidate, new))
        ctx.save_for_backward(states, weight)
        ctx.kept, ctx.dtypes = kept, (x.dtype, bias.dtype)
        ctx.each, ctx.first = bias.dim() == 3, None if first is None else first.dtype
        return states[:, 1:].clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grown: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
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
            carried = torch.bmm(du[:, t], weight).to(kept.dtype) + kept if t or ctx.first else carried
        flat = du.flatten(1, 2)  # (N, T·B, 3n)
        before = states[:, :-1].to(weight.dtype).flatten(1, 2)  # (N, T·B, n)
        dweight = torch.bmm(flat.transpose(1, 2), before)
        dbias = (du if ctx.each else flat).sum(1, dtype=dx.dtype).to(ctx.dtypes[1])
        return dx.to(ctx.dtypes[0]), dweight, dbias, carried.to(ctx.first) if ctx.first else None


class _LongStep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        ctx.dtype = gates.dtype
        n = cell.shape[-1]
        gates = gates.to(cell.dtype, copy=True)
        _sigmoid(gates[..., : 2 * n])
        gates[..., 2 * n : 3 * n].tanh_()
        _sigmoid(gates[..., 3 * n :])
        i, f, g, o = gates.split(n, -1)
        after = torch.addcmul(i * g, f, cell)
        bent = after.tanh()
        ctx.save_for_backward(gates, cell, bent)
        return o * bent, after

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grown: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
        gates, cell, bent = ctx.saved_tensors
        n = cell.shape[-1]
        i, f, g, o = gates.split(n, -1)
        inner = torch.ops.aten.tanh_backward(grown * o, bent).add_(kept)
        d = torch.empty_like(gates)
        d[..., :n] = torch.ops.aten.sigmoid_backward(inner * g, i)
        d[..., n : 2 * n] = torch.ops.aten.sigmoid_backward(inner * cell, f)
        d[..., 2 * n : 3 * n] = torch.ops.aten.tanh_backward(inner * i, g)
        d[..., 3 * n :] = torch.ops.aten.sigmoid_backward(grown * bent, o)
        return d.to(ctx.dtype), inner.mul_(f)
