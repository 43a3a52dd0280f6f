"""The kernels as one operator of PyTorch's with its derivative: what autograd, the compiler and fake tensors see."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

# Statistics of a row as the kernels lay them out, and the gradients they are given.
LSE, TOP, THRESHOLD, ENTROPY, PEAK, DISTANCE, MEAN, SQUARES, COUNT = range(9)
STATISTICS, GRADIENTS = 9, 7


@dataclass(frozen=True)
class Layout:
    """The sizes of a launch. Tiles are (``tile`` × ``tile``); ``columns`` of a tanh-sum are held at a time."""

    q: Tensor
    k: Tensor
    v: Tensor
    tanh: bool
    tile: int
    columns: int

    @property
    def grid_rows(self) -> tuple[int, int]:
        B, H, L, _ = self.q.shape
        return -(-L // self.tile), B * H

    @property
    def grid_keys(self) -> tuple[int, int]:
        B, G, S, _ = self.k.shape
        return -(-S // self.tile), B * G

    def sizes(self, allowed: Tensor | None, table: Tensor | None) -> list[int]:
        H, L, width = self.q.shape[1:]
        G, S, E = self.k.shape[1], self.k.shape[2], self.v.shape[3]
        strides = [0, 0, 0, 0]
        if allowed is not None:
            strides = [0 if n == 1 else step for n, step in zip(allowed.shape, allowed.stride(), strict=True)]
        return [H, H // G, L, S, width, E, 0 if table is None else table.shape[1], *strides]

    def constants(self, alpha: Any, allowed: Any, steps: list[int], stats: bool) -> dict[str, Any]:
        tl = import_module("triton.language")
        width, E = self.q.shape[3], self.v.shape[3]
        half = self.k.dtype in (torch.float16, torch.bfloat16)
        fast = half or (self.q.device.type == "cuda" and torch.backends.cuda.matmul.allow_tf32)
        return {
            "SCORE": int(self.tanh),
            "NORMAL": int(alpha is not None),
            "DENSE": allowed is not None,
            "STATS": stats,
            "I": self.tile,
            "J": self.tile,
            "C": self.columns if self.tanh else _power_of_two(width),
            "EP": _power_of_two(E),
            # The places where queries stand are told from L and S, so that no length is compiled into a kernel.
            "STEPS": tuple((code, shift != 0, offset, reach) for code, shift, offset, reach in _fours(steps)),
            "PRECISION": "tf32" if fast else "ieee",  # a tf32 number holds a half-precision one whole
            "ACC": tl.float64 if wide(self.q) == torch.float64 else tl.float32,
            "num_stages": 2,  # with three, tiles that wait take more fast memory than small cards have
        }


def wide(x: Tensor) -> torch.dtype:
    """The type sums are taken in."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _power_of_two(n: int) -> int:
    return int(max(16, 1 << (n - 1).bit_length()))


def _fours(steps: list[int]) -> list[list[int]]:
    return [steps[at : at + 4] for at in range(0, len(steps), 4)]


def _on(x: Tensor) -> AbstractContextManager[Any]:
    return torch.cuda.device(x.device) if x.device.type == "cuda" else nullcontext()


@torch.library.custom_op("regard::triton_read", mutates_args=())
def triton_read(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    energy: Tensor | None,
    alpha: Tensor | None,
    row: Tensor | None,
    table: Tensor | None,
    numbers: Tensor,
    lo: Tensor,
    hi: Tensor,
    first: Tensor,
    last: Tensor,
    allowed: Tensor | None,
    tiles: Tensor | None,
    scale: float,
    steps: list[int],
    stats: bool,
    tile: int,
    columns: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """(o (B, H, L, E), statistics (9, B, H, L), place of the peak (B, H, L)) of q (B, H, L, ·), k and v (B, G, S, ·).

    With ``energy`` the score is energyᵀ tanh(q + k), without it scale · q·k; ``steps`` come after that, four integers
    each, with ``numbers`` (steps, H), ``row`` (B, H, L) and ``table`` (H, columns). With ``alpha`` (H,) rows are
    normalised by entmax, without it by softmax. ``lo``, ``hi`` (B, H, L) hold the keys of each query, ``first``,
    ``last`` those of each block of queries, ``allowed`` and its live ``tiles`` the gaps between.
    """
    from regard.engines.triton.kernels.forward import forward

    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    plan = Layout(q, k, v, energy is not None, tile, columns)
    out, rows, at = _empty(q, v)
    factor = torch.full((1,), scale, dtype=wide(q), device=q.device)
    with _on(q):
        forward[plan.grid_rows](
            # What a kernel does not use it is given all the same: any tensor will do.
            *(q, k, v, factor if energy is None else energy, factor, rows if alpha is None else alpha),
            *(factor if row is None else row, factor if table is None else table, numbers),
            *(lo, hi, first, last, lo if allowed is None else allowed, lo if tiles is None else tiles),
            *(out, rows, at),
            *plan.sizes(allowed, table),
            *((200, 2.0**-49) if wide(q) == torch.float64 else (100, 2.0**-21)),
            **plan.constants(alpha, allowed, steps, stats),
        )
    return out, rows, at


@triton_read.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return _empty(q, v)


def _empty(q: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    B, H, L, _ = q.shape
    out = torch.empty(B, H, L, v.shape[3], dtype=wide(q), device=q.device)
    rows = torch.zeros(STATISTICS, B, H, L, dtype=wide(q), device=q.device)
    return out, rows, torch.full((B, H, L), -1, dtype=torch.int32, device=q.device)


@torch.library.custom_op("regard::triton_read_backward", mutates_args=())
def triton_read_backward(
    of_out: Tensor,
    grads: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    energy: Tensor | None,
    alpha: Tensor | None,
    row: Tensor | None,
    table: Tensor | None,
    numbers: Tensor,
    lo: Tensor,
    hi: Tensor,
    first: Tensor,
    last: Tensor,
    allowed: Tensor | None,
    tiles: Tensor | None,
    rows: Tensor,
    at: Tensor,
    scale: float,
    steps: list[int],
    stats: bool,
    tile: int,
    columns: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, v, energy, alpha, row and table, empty where there is none; ``grads`` (7, B, H, L) of rows."""
    from regard.engines.triton.kernels.backward import backward_keys, backward_rows

    of_out, grads, q, k, v = of_out.contiguous(), grads.clone(), q.contiguous(), k.contiguous(), v.contiguous()
    plan = Layout(q, k, v, energy is not None, tile, columns)
    dq, dk, dv, _, _, drow, dtable = _gradients(q, k, v, energy, alpha, row, table)
    B, H, L, width = q.shape
    programs = plan.grid_rows[0] * plan.grid_rows[1]
    parts = torch.zeros(programs if energy is not None else 0, width, dtype=wide(q), device=q.device)
    dalpha = torch.zeros((B, H, L) if alpha is not None else (0, H, 0), dtype=wide(q), device=q.device)
    factor = torch.full((1,), scale, dtype=wide(q), device=q.device)
    given = (
        *(q, k, v, factor if energy is None else energy, factor, rows if alpha is None else alpha),
        *(factor if row is None else row, factor if table is None else table, numbers),
        *(lo, hi, first, last, lo if allowed is None else allowed, lo if tiles is None else tiles),
        *(rows, at, of_out, grads),
    )
    constants = plan.constants(alpha, allowed, steps, stats)
    with _on(q):
        backward_rows[plan.grid_rows](*given, dq, parts, dalpha, drow, dtable, *plan.sizes(allowed, table), **constants)
        backward_keys[plan.grid_keys](*given, dk, dv, *plan.sizes(allowed, table), **constants)
    denergy = parts.sum(0) if energy is not None else parts.new_empty(0)
    return dq, dk, dv, denergy, dalpha.sum((0, 2)) if alpha is not None else dalpha.new_empty(0), drow, dtable


@triton_read_backward.register_fake
def _(
    of_out: Tensor,
    grads: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    energy: Any,
    alpha: Any,
    row: Any,
    table: Any,
    *_: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    return _gradients(q, k, v, energy, alpha, row, table)


def _gradients(
    q: Tensor, k: Tensor, v: Tensor, *learnt: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    dq, dk, dv = (torch.zeros(x.shape, dtype=wide(q), device=q.device) for x in (q, k, v))
    energy, alpha, row, table = (dq.new_zeros((0,) if x is None else x.shape) for x in learnt)
    return dq, dk, dv, energy, alpha, row, table


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    *tensors, ctx.scale, ctx.steps, _, ctx.tile, ctx.columns = inputs
    ctx.save_for_backward(*tensors, *output)
    ctx.mark_non_differentiable(output[2])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, of_out: Tensor | None, of_rows: Tensor | None, _: Any) -> tuple[Tensor | None, ...]:
    *given, out, rows, at = ctx.saved_tensors
    q, k, v, *learnt = given[:7]
    of_out = torch.zeros_like(out) if of_out is None else of_out
    grads = rows.new_zeros(GRADIENTS, *rows.shape[1:])
    delta = (of_out * out).sum(-1)
    stats = of_rows is not None
    if of_rows is not None:
        measured = (rows[n] * of_rows[n] for n in (ENTROPY, DISTANCE, PEAK))
        delta = delta + sum(measured) - of_rows[LSE]
        count = rows[COUNT].clamp(min=1)
        grads = torch.stack(
            [delta, *(of_rows[n] for n in (LSE, ENTROPY, DISTANCE, PEAK)), of_rows[MEAN] / count, 2 * of_rows[SQUARES]]
        )
    else:
        grads[0] = delta
    dq, dk, dv, *found = triton_read_backward(
        of_out, grads, *given, rows, at, ctx.scale, ctx.steps, stats, ctx.tile, ctx.columns
    )
    of_learnt = [None if x is None else gradient for x, gradient in zip(learnt, found, strict=True)]
    return (dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), *of_learnt, *(None,) * 12)


triton_read.register_autograd(_backward, setup_context=_keep)
