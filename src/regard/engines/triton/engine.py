"""Which compositions the kernels run, and what is made of what they measure. Triton is imported when one runs."""

from __future__ import annotations

import math
import os
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from regard.engines.tiled.recipe import lowers
from regard.engines.triton.lowering import Lowered, leaf, lowered
from regard.engines.visible import counts, depends, key_column, live, on
from regard.errors import RegardError
from regard.normalize import Entmax, Softmax, Sparsemax
from regard.plan import Composition, Cost, Wanted, products
from regard.reading import TELEMETRY, Reading
from regard.score import Additive, Concat

_WIDEST = 256  # a tile of queries and one of keys stand in fast memory whole
_WIDEST_VALUES = 1024  # beside a tanh-sum, whose columns come a few at a time


class Triton:
    """softmax or entmax of dot products and tanh-sums, biases and caps, under any mask: O(L + S) memory.

    Empty tiles are never touched. One kernel reads and measures everything in the same pass, two go back: gradients of
    queries, keys, values, the score's parameters and a learnt α, through the output, the lse and every statistic.
    ``tile`` is the side of a tile, a power of two from 16 that by default fits the widths; of a tanh-sum ``columns``
    are held at a time.
    """

    name = "triton"
    reports = False

    def __init__(self, tile: int | None = None, columns: int = 16) -> None:
        self.tile, self.columns = tile, columns

    def refuses(self, c: Composition) -> str:
        machine = _no_machine(c.q)
        if machine:
            return machine
        reason = lowers(c.score)
        if reason:
            return f"{reason}, not as a product, a tanh-sum, a bias by place or a cap"
        if type(c.normalize) not in (Softmax, Entmax, Sparsemax):
            return f"normalize {type(c.normalize).__name__}: the kernels know softmax and entmax"
        if c.dropout:
            return "dropout: the kernels have none"
        if 0 in c.grid.shape:
            return f"(B, H, L, S) = {c.grid.shape} holds nothing to read"
        if any(torch._C._functorch.is_batchedtensor(x) for x in (c.q, c.k, c.v)):
            return "inside torch.func.vmap the kernels see no numbers; make what is mapped over a batch axis"
        D, E, tanh = c.q.shape[-1], c.v.shape[-1], _is_tanh(c)
        if tanh and E > _WIDEST_VALUES:
            return f"E = {E}: beside a tanh-sum a tile of values is {_WIDEST_VALUES} wide at most"
        if not tanh and max(D, E) > _WIDEST:
            return f"D = {D}, E = {E}: a tile is {_WIDEST} wide at most"
        return ""

    def cost(self, c: Composition, telemetry: bool = False, exact: bool = False) -> Cost:
        """In the seconds of sdpa's count, with which they are compared; no device has been asked. Telemetry is free."""
        B, H, L, S = c.grid.shape
        tiles, n = live(c, self._side(c), exact)
        held = 9 * B * H * L * max(4, c.q.element_size())
        if c.mask is not None and on(c.mask, c.q.device).spans(c.grid) is None:
            b, h, queries = depends(c.mask, c.grid)
            held += b * h * queries * S  # a byte a pair where a query sees more than one interval
        product = leaf(c.score)
        hidden = product.energy.shape[0] * 4e-11 if isinstance(product, Additive | Concat) else 0.0
        passes = 6 if isinstance(c.normalize, Entmax) else 1
        seconds = 1e-4 + passes * (products(c, n) / 1.4e11 + n * hidden)
        return Cost(products(c, n), held, seconds if c.q.device.type == "cuda" else 1e4 * seconds, tiles)

    def attend(self, c: Composition) -> Tensor:
        low, v = lowered(c, self._side(c))
        output, rows, _ = self._call(low, v, stats=False)
        return (output * _share(c, rows[0]).unsqueeze(-1)).to(c.q.dtype)

    def read(self, c: Composition, wanted: Wanted) -> Reading:
        from regard.engines.triton import operators as op

        low, v = lowered(c, self._side(c))
        columns = {name: key_column(group, c.grid, c.k.shape[1]) for name, group in wanted.groups.items()}
        by_query = [name for name, column in columns.items() if column is None]
        if by_query and low.alpha is not None:
            raise RegardError(
                f'groups: {", ".join(by_query)} differ from query to query, which engine "triton" measures under '
                'softmax alone; name keys, or take engine="reference"'
            )
        by_key = {name: column for name, column in columns.items() if column is not None}
        members = [x.expand(*v.shape[:3], 1).to(v.dtype) for x in by_key.values()]
        output, rows, at = self._call(low, torch.cat([v, *members], -1), stats=True)
        output, *shares = output.split([v.shape[-1], *(1 for _ in by_key)], -1)
        mass = {name: x.squeeze(-1) for name, x in zip(by_key, shares, strict=True)}
        for name in by_query:  # exp(Λ of the group alone − Λ)
            inside = low.within(wanted.groups[name], c.grid)
            part = self._call(inside, v.new_zeros(1).expand(*v.shape[:-1], 1), stats=True)[1][op.LSE]
            absent = part == -math.inf
            level = torch.where(absent, 0.0, rows[op.LSE])
            mass[name] = torch.where(absent, 0.0, torch.exp(torch.where(absent, 0.0, part) - level))
        lse = rows[op.LSE]
        share = _share(c, lse)
        found: dict[str, Any] = {}
        names = TELEMETRY if wanted.cheap else wanted.names
        if "entropy" in names:  # a sink takes a share of every weight: −Σ σw log σw = σH − σ log σ
            found["entropy"] = share * rows[op.ENTROPY] - torch.xlogy(share, share)
        if "peak" in names or "bound" in names:
            peak = share * rows[op.PEAK]
            found |= {"peak": peak, "bound": peak, "peak_at": at.long()}
        if "distance" in names:
            found["distance"] = share * rows[op.DISTANCE]
        if "spread" in names:
            found["spread"] = _temperature(c) * _spread(rows[op.MEAN], rows[op.SQUARES], rows[op.COUNT])
        sink = c.normalize.sink_logit(lse) if isinstance(c.normalize, Softmax) else None
        return Reading(
            output=(output * share.unsqueeze(-1)).to(c.q.dtype),
            lse=lse,
            seen=counts(low.mask, c.grid)[0],
            mass={name: share * mass[name] for name in wanted.groups},
            sink=None if sink is None else (sink.squeeze(-1) if sink.dim() else sink),
            no_merge=c.normalize.no_merge,
            engine=self.name,
            **found,
        )

    def _side(self, c: Composition) -> int:
        if self.tile is not None:
            return self.tile
        if _is_tanh(c):
            return 16  # (16, 16, columns) numbers are held at once
        # Sums over a tile stand in registers: the wider the rows, the fewer.
        width = max(c.q.shape[-1], c.v.shape[-1])
        return 64 if width <= 64 else 32 if width <= 128 else 16

    def _call(self, low: Lowered, v: Tensor, stats: bool) -> tuple[Tensor, Tensor, Tensor]:
        from regard.engines.triton.operators import triton_read

        sight, made = low.sight, low.recipe
        found: tuple[Tensor, Tensor, Tensor] = triton_read(
            *(made.q, made.k, v, *low.scores),
            *(sight.lo, sight.hi, sight.first, sight.last, sight.allowed, sight.tiles),
            *(made.scale, [n for step in made.steps for n in step], stats, sight.side, self.columns),
        )
        return found


def _no_machine(x: Tensor) -> str:
    """Why the kernels cannot run where ``x`` is; empty where they can."""
    if x.device.type != "cuda" and not (x.device.type == "cpu" and _interpreted()):
        return f"tensors on {x.device.type}: the kernels run on CUDA, or in Triton's interpreter (TRITON_INTERPRET=1)"
    if x.device.type == "cuda" and x.dtype == torch.float64:
        return "float64: the kernels are compiled for float32 at most"
    return "" if find_spec("triton") else "triton is not installed"


def _interpreted() -> bool:
    """Whether Triton interprets its kernels, which it settles when it is imported."""
    if sys.modules.get("triton") is None:
        return os.environ.get("TRITON_INTERPRET") == "1"
    return type(import_module("triton.language").cdiv).__name__ == "InterpretedFunction"


def _is_tanh(c: Composition) -> bool:
    return isinstance(leaf(c.score), Additive | Concat)


def _temperature(c: Composition) -> float:
    return c.normalize.temperature if isinstance(c.normalize, Softmax) else 1.0


def _share(c: Composition, lse: Tensor) -> Tensor:
    """Σ exp s / (Σ exp s + exp sink), what a sink leaves to the keys, (B, H, L); 1 without one."""
    sink = c.normalize.sink_logit(lse) if isinstance(c.normalize, Softmax) else None
    return torch.ones_like(lse) if sink is None else torch.sigmoid(lse - (sink.squeeze(-1) if sink.dim() else sink))


def _spread(mean: Tensor, squares: Tensor, count: Tensor) -> Tensor:
    """Standard deviation of a head's scores from mean, squared deviations and number of each row's, (B, H)."""
    pairs = count.sum(-1).clamp(min=1)
    middle = (count * mean).sum(-1) / pairs
    return ((squares + count * (mean - middle.unsqueeze(-1)).square()).sum(-1) / pairs).sqrt()
