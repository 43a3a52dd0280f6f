"""The flex engine: dot forms with position biases and caps × softmax × any mask, by FlexAttention."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard import mask as masks
from regard.engines.flex.lowering import BLOCK, Lowered, kind, lowered, no_lowering
from regard.engines.visible import counts, depends, key_column, live
from regard.errors import RegardError
from regard.normalize import Softmax
from regard.numerics import wide
from regard.plan import Composition, Cost, Wanted, products
from regard.reading import Reading

_WIDTH = 16  # the least its kernel multiplies
_BACKEND = "inductor"
_ORDER = 32  # of the power mean that bounds the peak: within S^(1/32) of it


class Flex:
    """softmax(cap(scale · q·k + bias)) v, empty tiles of the mask skipped; compiled, on CUDA.

    O(L + S) memory beside the booleans of one mask, from which its block mask is derived. The forward pass and its lse
    are PyTorch's; entropy (of plain dot forms), bound, distance and mass are more columns of values, or more calls.
    With ``compiled=False`` it runs uncompiled and dense on any device, which is for looking at its mathematics and
    nothing else; on the CPU that has no backward.
    """

    name = "flex"
    reports = False

    def __init__(self, compiled: bool = True) -> None:
        self.compiled = compiled

    def refuses(self, c: Composition) -> str:
        machine = self._no_machine(c)
        if machine:
            return machine
        reason = no_lowering(c.score)
        if reason:
            return f"score {type(c.score).__name__}: {reason}"
        if type(c.normalize) is not Softmax:
            return f"normalize {type(c.normalize).__name__}: FlexAttention normalises by softmax alone"
        if c.dropout:
            return "dropout: FlexAttention has none"
        if 0 in c.grid.shape:
            return f"(B, H, L, S) = {c.grid.shape} holds nothing to read"
        return ""

    def _no_machine(self, c: Composition) -> str:
        """Why it cannot run where the tensors are; empty where it can."""
        if not self.compiled:
            learns = torch.is_grad_enabled() and any(x.requires_grad for x in (c.q, c.k, c.v, *c.score.parameters()))
            return "FlexAttention has no backward on the CPU" if learns and c.q.device.type == "cpu" else ""
        if c.q.device.type != "cuda":
            return f"tensors on {c.q.device.type}: FlexAttention has gradients and an lse on CUDA alone"
        if c.q.dtype == torch.float64:
            return "float64: the kernel adds up in float32"
        return "" if find_spec("triton") else "triton is not installed, and FlexAttention is compiled with it"

    def cost(self, c: Composition, telemetry: bool = False, exact: bool = False) -> Cost:
        """In the seconds of sdpa's count, with which they are compared; no device has been asked."""
        tiles, n = live(c, BLOCK, exact)
        held = 0
        if c.mask is not None:
            b, h, _ = depends(c.mask, c.grid)
            held = b * h * c.grid.L * c.grid.S  # a block mask is derived from the booleans, a byte each
        seconds = 1e-4 + products(c, n) / 1.8e11 + held * 1e-9
        return Cost(products(c, n), held, (2.2 if telemetry else 1) * seconds, tiles)

    def attend(self, c: Composition) -> Tensor:
        low, v = lowered(c)
        output, lse = self._call(low, v)
        return (output * _share(c, low, lse)).to(c.q.dtype)

    def read(self, c: Composition, wanted: Wanted) -> Reading:
        low, v = lowered(c)
        names = frozenset({"bound", "distance"} | ({"entropy"} if not low.steps else set()))
        if not wanted.cheap:
            _check(wanted.names, names)
            names = wanted.names
        if names or wanted.groups:
            low, v = replace(low, q=wide(low.q), k=wide(low.k)), wide(v)
        return self._measured(c, low, v, wanted, names)

    def _measured(self, c: Composition, low: Lowered, v: Tensor, wanted: Wanted, names: frozenset[str]) -> Reading:
        columns = {"output": v}
        if "entropy" in names:
            columns["key"] = low.k
        if "distance" in names:
            columns["place"] = _places(c, low)
        by_query = {}
        for name, group in wanted.groups.items():
            column = key_column(group, c.grid, low.k.shape[1])
            if column is None:
                by_query[name] = group
            else:
                columns[f"in {name}"] = column.expand(*low.k.shape[:3], 1).to(low.q.dtype)
        together, lse = self._call(low, torch.cat(list(columns.values()), -1))
        read = dict(zip(columns, together.split([x.shape[-1] for x in columns.values()], -1), strict=True))
        nothing, share = lse == -math.inf, _share(c, low, lse).squeeze(-1)
        total = torch.where(nothing, 0.0, lse)
        found: dict[str, Any] = {}
        if "entropy" in names:
            own = total - low.scale * (low.q * read["key"]).sum(-1)
            # A sink takes a share of every weight: −Σ σw log σw = σH − σ log σ.
            found["entropy"] = torch.where(nothing, 0.0, share * own - torch.xlogy(share, share)).clamp(min=0)
        if "bound" in names:
            sharper = torch.where(nothing, 0.0, self._call(replace(low, order=_ORDER), _no_values(low))[1])
            found["bound"] = torch.where(nothing, 0.0, share * torch.exp(sharper / _ORDER - total).clamp(max=1))
        if "distance" in names:
            found["distance"] = share * self._distance(c, low, read["place"].squeeze(-1), total, nothing)
        mass = {}
        for name in wanted.groups:
            if name in by_query:
                part = self._call(low.within(by_query[name], c.grid), _no_values(low))[1]
                absent = part == -math.inf
                mass[name] = share * torch.where(absent, 0.0, torch.exp(torch.where(absent, 0.0, part) - total))
            else:
                mass[name] = share * read[f"in {name}"].squeeze(-1)
        assert isinstance(c.normalize, Softmax)
        sink = c.normalize.sink_logit(lse)
        return Reading(
            output=(read["output"] * share.unsqueeze(-1)).to(c.q.dtype),
            lse=lse if low.row is None else lse + low.row.squeeze(-1),
            seen=counts(low.mask, c.grid)[0],
            mass=mass,
            sink=None if sink is None else (sink.squeeze(-1) if sink.dim() else sink),
            engine=self.name,
            **found,
        )

    def _distance(self, c: Composition, low: Lowered, mean: Tensor, total: Tensor, nothing: Tensor) -> Tensor:
        """Σ w |i − j|: 2 m (i − p) − (i − p̄), with m and p the mass and mean place of keys up to i, p̄ that of all."""
        S = c.grid.S
        here = c.grid.query_places("end", "distance")[..., 0].to(total.dtype) / S
        ends = S - c.grid.L
        before = masks.where(lambda b, h, i, j: j <= i + ends)
        mean_before, total_before = self._call(low.within(before, c.grid), _places(c, low))
        mass = torch.where(total_before == -math.inf, 0.0, torch.exp(total_before - total))
        past = 2 * mass * (here - mean_before.squeeze(-1)) - (here - mean)
        return torch.where(nothing, 0.0, past * S).clamp(min=0)

    def _call(self, low: Lowered, v: Tensor) -> tuple[Tensor, Tensor]:
        """(Σ w v, log Σ exp s): (B, H, L, ·), (B, H, L). An empty row gives 0 and −∞."""
        from torch.nn.attention.flex_attention import AuxRequest, flex_attention

        q, k, values = (F.pad(x, (0, max(0, _WIDTH - x.shape[-1]))) for x in (low.q, low.k, v))
        run = _compiled(kind(low, v)) if self.compiled and not torch.compiler.is_compiling() else flex_attention
        output, aux = run(
            q,
            k,
            values,
            score_mod=low.score_mod(),
            block_mask=low.block_mask,
            scale=low.scale if low.steps else low.scale * low.order,
            enable_gqa=q.shape[1] != k.shape[1],
            return_aux=AuxRequest(lse=True),
        )
        return output[..., : v.shape[-1]], aux.lse


@cache
def _compiled(of: Any) -> Any:
    """FlexAttention, compiled for one kind of composition, in one graph: in pieces it would run dense, and not say so.

    The compiler counts how often it compiles a piece of code, and stops at eight: each kind has code of its own.
    """
    from torch.nn.attention.flex_attention import flex_attention

    def attend(*given: Any, **named: Any) -> Any:
        return flex_attention(*given, **named)

    attend.__code__ = attend.__code__.replace(co_name=f"flex_{_compiled.cache_info().currsize}")
    return torch.compile(attend, fullgraph=True, backend=_BACKEND)


def _share(c: Composition, low: Lowered, lse: Tensor) -> Tensor:
    """Σ exp s / (Σ exp s + exp sink), what the sink leaves to the keys, (B, H, L, 1); 1 without a sink."""
    assert isinstance(c.normalize, Softmax)
    sink = c.normalize.sink_logit(lse)
    if sink is None:
        return torch.ones_like(lse).unsqueeze(-1)
    level = lse.unsqueeze(-1) if low.row is None else lse.unsqueeze(-1) + low.row
    return torch.sigmoid(level - sink)


def _places(c: Composition, low: Lowered) -> Tensor:
    """Where each key stands, as a share of S, as one column of values."""
    return (c.grid.j.view(1, 1, -1, 1).to(low.q.dtype) / c.grid.S).expand(*low.k.shape[:3], 1)


def _no_values(low: Lowered) -> Tensor:
    return low.k.new_zeros(()).expand(*low.k.shape[:3], 1)


def _check(asked: frozenset[str], known: frozenset[str]) -> None:
    missing = sorted(asked - known)
    if missing:
        why = "of a score with a bias or a cap" if missing == ["entropy"] else ""
        raise RegardError(
            f'telemetry: engine "flex" does not measure {", ".join(missing)} {why}'.rstrip()
            + '; ask for fewer names, or take engine="reference"'
        )
