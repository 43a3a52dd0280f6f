"""PTH, DET, CAU, NUM: which path ran and why, dropout that should be off, a triangle at the wrong end, NaN."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from regard.doctor.finding import Finding
from regard.doctor.watch.faults.seen import Seen
from regard.doctor.watch.place import Place


def path_findings(seen: Seen) -> Iterator[Finding]:
    call = seen.call
    _, _, L, S = call.shape
    if call.dropout > 0 and not seen.training:
        yield seen.finding("DET002", f"dropout {call.dropout:g} is applied in eval mode", dropout=call.dropout)
    if call.kind == "sdpa" and call.is_causal and L < S and bool(call.k[:, :, L:].any()):
        yield seen.finding(
            "CAU004",
            f"is_causal hangs the triangle at the start: of {S} keys the last of {L} queries sees the first {L}",
            queries=L,
            keys=S,
        )
    why = _quadratic(seen)
    if why:
        yield seen.finding("PTH001", f"a matrix of {L} × {S} a head was made: {why}")
    out = call.output
    if out is not None and not bool(torch.isfinite(out).all()):
        given = (call.v,) if call.kind == "softmax" else (call.q, call.k, call.v)
        if all(bool(torch.isfinite(x).all()) for x in given):
            rows = int((seen.m.seen == 0).sum())
            also = f"; {rows} rows may see no key" if rows else ""
            yield seen.finding("NUM001", f"the read of finite values is not finite{also}", empty_rows=rows)


def _quadratic(seen: Seen) -> str:
    """Why a call did not run in a fused kernel; empty where it did, and where nobody asked for one."""
    call = seen.call
    if call.kind == "softmax":
        return "weights were asked for" if isinstance(call.place.module, nn.MultiheadAttention) else ""
    if call.kind != "sdpa" or call.q.device.type != "cpu":
        return ""
    if call.dropout > 0:
        return "the fused kernel of the CPU has no dropout"
    D, E = call.q.shape[-1], call.v.shape[-1]
    return f"the fused kernel of the CPU wants one width, keys have {D} and values {E}" if D != E else ""


def slow_path(place: Place, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Finding]:
    """nn.MultiheadAttention's fast path in eval, which PyTorch leaves as soon as anything watches."""
    module = place.module
    if not isinstance(module, nn.MultiheadAttention) or module.training or not module.batch_first:
        return
    learning = torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters())
    plain = module.in_proj_bias is not None and module.bias_k is None and not module.add_zero_attn
    if learning or not plain or module.num_heads % 2 or args[0] is not args[1]:
        return
    message = "PyTorch's fast path for eval is off while watching: padded places hold numbers instead of zeros"
    yield Finding("PTH002", message, place.path, place.source)


def compiled(model: Any) -> Iterator[Finding]:
    """Modules that were compiled, and run as they were written while watching."""
    if not isinstance(model, nn.Module):
        return
    for name, module in model.named_modules():
        inside = (
            getattr(module, "_orig_mod", None) is not None or getattr(module, "_compiled_call_impl", None) is not None
        )
        if inside:
            message = "compiled code runs as it was written while watching: outputs may differ by rounding"
            yield Finding("PTH002", message, name)
