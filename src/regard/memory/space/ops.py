"""The scan's kernel as a PyTorch operator, with fakes and a gradient, so that the compiler and autograd know it.

Importing this file loads no Numba: that waits for the first call.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.errors import RegardError

#: Steps from one kept state to the next: what is kept is N/32 of y, and what lies between stays in a core's cache.
EVERY = 32

_GIVEN = "Tensor q, Tensor k, Tensor v, Tensor delta, Tensor A, Tensor h, SymInt every, bool hold"


def _forward(
    q: Tensor, k: Tensor, v: Tensor, delta: Tensor, A: Tensor, h: Tensor, every: int, hold: bool
) -> tuple[Tensor, ...]:
    """y (B, H, L, E), the last state (B, H, E, N), and the states kept (B, H, steps, N, E)."""
    from regard.kernels.workers import cut, share
    from regard.memory.space import kernels

    B, H, L, E = v.shape
    N = k.shape[3]
    y, last = v.new_empty(B, H, L, E), v.new_empty(B * H, N, E)
    kept = v.new_empty(_kept(B, H, L, N, E, every))
    given = _given(q, k, v, delta, A, h, kept, every, hold)
    tasks = B * H * -(-E // int(given.width))
    share(kernels.forward, cut(tasks, 8 * B * H * L * E * N), given, _flat(y), last.numpy())
    return y, last.view(B, H, N, E).mT.contiguous(), kept


def _backward(
    q: Tensor, k: Tensor, v: Tensor, delta: Tensor, A: Tensor, h: Tensor, every: int, hold: bool,
    kept: Tensor, dy: Tensor, dlast: Tensor,
) -> tuple[Tensor, ...]:  # fmt: skip
    from regard.kernels.workers import cut, share
    from regard.memory.space import kernels

    B, H, L, E = v.shape
    N = k.shape[3]
    given = _given(q, k, v, delta, A, h, kept, every, hold)
    blocks = -(-E // int(given.width))
    to_q, to_k = (v.new_empty(blocks, B * H, L, N) for _ in range(2))
    to_v, to_delta = v.new_empty(B, H, L, E), v.new_empty(B, H, L, E)
    to_A, to_h = v.new_empty(B * H, N, E), v.new_empty(B * H, N, E)
    slopes = kernels.Slopes(
        _flat(dy), _flat(dlast.mT), to_q.numpy(), to_k.numpy(), _flat(to_v), _flat(to_delta), to_A.numpy(), to_h.numpy()
    )
    share(kernels.backward, cut(B * H * blocks, 20 * B * H * L * E * N), given, slopes)
    return (
        to_q.sum(0).view(B, H, L, N), to_k.sum(0).view(B, H, L, N), to_v, to_delta,
        to_A.view(B, H, N, E).sum(0).mT.contiguous(), to_h.view(B, H, N, E).mT.contiguous(),
    )  # fmt: skip


def _given(
    q: Tensor, k: Tensor, v: Tensor, delta: Tensor, A: Tensor, h: Tensor, kept: Tensor, every: int, hold: bool
) -> Any:
    import numpy as np

    from regard.memory.space import kernels

    width = np.int64(128 if v.dtype == torch.float64 else 256)  # a run's states and decays fill half of a core's cache
    return kernels.Given(  # type: ignore[call-arg]  # three of them in the first
        *(_flat(x) for x in (q, k, v, delta)), A.detach().mT.contiguous().numpy(), _flat(h.mT), _flat(kept),
        np.int64(every), np.bool_(hold), width,
    )  # fmt: skip


def _flat(x: Tensor) -> Any:
    """(B, H, …) as an array (B·H, …)."""
    return x.detach().contiguous().flatten(0, 1).numpy()


def _kept(B: int, H: int, L: int, N: int, E: int, every: int) -> tuple[int, ...]:
    return (B, H, -(-L // every) if every else 0, N, E)


def _fake(
    q: Tensor, k: Tensor, v: Tensor, delta: Tensor, A: Tensor, h: Tensor, every: int, hold: bool
) -> tuple[Tensor, ...]:
    B, H, L, E = v.shape
    return v.new_empty(B, H, L, E), torch.empty_like(h), v.new_empty(_kept(B, H, L, k.shape[3], E, every))


def _fake_backward(
    q: Tensor, k: Tensor, v: Tensor, delta: Tensor, A: Tensor, h: Tensor, *rest: Any
) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v, delta, A, h))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.every, ctx.hold = inputs
    ctx.save_for_backward(*tensors, output[2])
    ctx.mark_non_differentiable(output[2])


def _back(ctx: Any, dy: Tensor, dlast: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    *tensors, kept = ctx.saved_tensors
    if not ctx.every:
        raise RegardError("selective scan: no states were kept for a gradient, wanted every > 0")
    found = selective_scan_backward(*tensors, ctx.every, ctx.hold, kept, dy, dlast)
    return (*found, None, None)


def _twice(ctx: Any, *grads: Tensor | None) -> None:
    raise RegardError('StateSpaceMemory: scan="kernel" has no second derivative; scan="associative" has one')


def _operator(name: str, schema: str, run: Any, fake: Any) -> Any:
    known = f"regard::{name}"
    torch.library.define(known, schema, tags=(torch.Tag.pt2_compliant_tag,))
    torch.library.impl(known, "CPU", run)
    torch.library.register_fake(known, fake)
    return getattr(torch.ops.regard, name).default


selective_scan = _operator("selective_scan", f"({_GIVEN}) -> (Tensor, Tensor, Tensor)", _forward, _fake)
selective_scan_backward = _operator(
    "selective_scan_backward",
    f"({_GIVEN}, Tensor kept, Tensor dy, Tensor dlast) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    _backward,
    _fake_backward,
)
torch.library.register_autograd("regard::selective_scan", _back, setup_context=_keep)
torch.library.register_autograd("regard::selective_scan_backward", _twice)
