"""SCL: a scale that is missing or put on twice, and scores near a format's limit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from regard.doctor.finding import Finding
from regard.doctor.watch.faults.seen import Seen

#: Families whose scores are not scaled on purpose: the scale is in how the projections were trained.
_UNSCALED = ("t5", "gpt_neo", "switch_transformers", "pix2struct", "pop2piano", "udop")
#: Names under which modules keep the scale they chose.
_CHOSEN = ("scaling", "scale", "softmax_scale", "norm_factor", "scale_factor")
#: The spread of unscaled scores from which on a missing scale is worth a word: scaled ones would have this over √D.
_SPREAD = 0.6
_NEAR = 0.01


def scale_findings(seen: Seen) -> Iterator[Finding]:
    call = seen.call
    yield from _limit(seen)
    D, asks = call.width, call.queries_keys
    if D < 2 or asks is None or not call.factors_known:
        return
    once = D**-0.5
    total = math.prod(call.factors)
    if _near(total, once * once) and D > 3 and not _declared(call.place.module, total):
        message = f"scores are multiplied by {total:.4g} = 1/D in {len(call.factors)} steps, wanted {once:.4g}"
        yield seen.finding("SCL002", message, scale=total, width=D)
    if _near(total, 1.0) and not _on_purpose(seen):
        q, k = asks
        spread = math.sqrt(D) * _rms(q) * _rms(k)
        if spread >= _SPREAD:
            yield seen.finding(
                "SCL001",
                f"queries and keys of width {D} are multiplied and not scaled: scores spread by about {spread:.2g}, "
                f"scaled by {spread * once:.2g}",
                spread=spread,
                width=D,
            )


def _limit(seen: Seen) -> Iterator[Finding]:
    """Only where a product was kept in half precision can it run over."""
    call = seen.call
    if call.kind != "softmax" or not call.factors_known:
        return
    top = seen.m.lse - seen.m.seen.clamp(min=1).to(seen.m.lse.dtype).log()
    top = torch.where(seen.m.seen > 0, top, 0.0).nan_to_num(0.0)
    shrunk = math.prod(call.after_product) or 1.0
    largest = float(top.abs().max()) / abs(shrunk) if top.numel() else 0.0
    half = call.output is not None and call.output.dtype == torch.float16
    limit = torch.finfo(torch.float16).max
    if half and largest > limit / 4:
        yield seen.finding("SCL003", f"products reach {largest:.3g}, float16 ends at {limit:.0f}", largest=largest)
    elif largest > limit:
        yield seen.finding(
            "SCL003", f"products reach {largest:.3g}: in float16 they would be inf", "note", largest=largest
        )  # fmt: skip


def _on_purpose(seen: Seen) -> bool:
    call, module = seen.call, seen.call.place.module
    if any(tag is None or tag.normed for tag in (call.of_q, call.of_k)):
        return True
    if _declared(module, 1.0):
        return True
    kind = str(getattr(getattr(module, "config", None), "model_type", ""))
    return any(name in kind for name in _UNSCALED)


def _declared(module: Any, scale: float) -> bool:
    """Whether the module keeps this scale under a name of its own (as muP's 1/D), or scales by its depth besides."""
    kept = (getattr(module, name, None) for name in _CHOSEN)
    chosen = any(isinstance(x, int | float) and not isinstance(x, bool) and _near(x, scale) for x in kept)
    return chosen or bool(getattr(getattr(module, "config", None), "scale_attn_by_inverse_layer_idx", False))


def _near(x: float, wanted: float) -> bool:
    return abs(x - wanted) <= _NEAR * abs(wanted)


def _rms(x: Tensor) -> float:
    return float(x.detach().float().square().mean().sqrt()) if x.numel() else 0.0
