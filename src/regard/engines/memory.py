"""What engines do about memories with NaN in them: slots nobody may see are emptied, others are reported."""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor

from regard.errors import RegardWarning
from regard.plan import Composition


def without_hidden(k: Tensor, v: Tensor, allowed: Tensor | None) -> tuple[Tensor, Tensor]:
    """k and v with zeros in the slots that no query may see; ``allowed`` (B|1, H|1, L|1, S).

    Masking a key equals deleting it, also when the slot holds NaN or inf (an unwritten cache): 0 · NaN would be NaN, in
    the read or in its gradient. Finite memories are returned as they are.
    """
    if allowed is None or _all_finite(k, v):
        return k, v
    seen = allowed.any(-2)  # (B|1, H|1, S)
    if seen.shape[1] not in (1, k.shape[1]):
        seen = seen.unflatten(1, (k.shape[1], -1)).any(2)  # query heads that share a key head
    seen = seen.unsqueeze(-1)
    return torch.where(seen, k, 0.0), torch.where(seen, v, 0.0)


def _all_finite(*tensors: Tensor) -> bool:
    """Whether all are known to be finite."""
    return all(is_finite(x) is True for x in tensors)


def is_finite(x: Tensor) -> bool | None:
    """Whether every number is finite, by one sum in most cases; None where asking costs a wait or cannot be answered.

    That is on an accelerator, while compiling, and inside ``torch.func.vmap`` or a fake tensor mode.
    """
    if torch.compiler.is_compiling() or x.device.type != "cpu":
        return None
    try:
        total = x.detach().sum(dtype=torch.float32 if x.element_size() < 4 else None).item()
        # A sum of finite numbers may itself overflow; only then each is looked at.
        return math.isfinite(total) or bool(torch.isfinite(x).all())
    except RuntimeError:  # a tensor without data, or with many at once
        return None


def report_non_finite(c: Composition, stacklevel: int) -> None:
    """Warns, once a place in the code, of NaN or inf in what is read of q and k; an accelerator would have to wait.

    Asked after the read: the threads that torch's sums wake are still spinning when the next thing begins.
    """
    if is_finite(c.q) is not False and is_finite(c.k) is not False:
        return
    allowed = torch.ones(1, 1, 1, 1, dtype=torch.bool) if c.mask is None else c.mask.allows(c.grid)
    for name, x, read in (("q", c.q, allowed.any(-1)), ("k", c.k, allowed.any(-2))):
        if read.shape[1] not in (1, x.shape[1]):
            read = read.unflatten(1, (x.shape[1], -1)).any(2)  # query heads that share a key head
        strange = ~x.isfinite() & read.unsqueeze(-1)
        if strange.any():
            nan = int((x.isnan() & strange).sum())
            warnings.warn(
                f"{name} {tuple(x.shape)} holds {nan} NaN and {int(strange.sum()) - nan} ±inf among what may be "
                "read; what "
                "attends to them is not a number either. Look at what made them (a fully masked row, an overflow in "
                "half "
                "precision), or mask those slots",
                RegardWarning,
                stacklevel=stacklevel,
            )
