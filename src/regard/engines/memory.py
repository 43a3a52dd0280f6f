"""What every engine does to the memory before reading it: slots nobody may see are emptied."""

from __future__ import annotations

import torch
from torch import Tensor


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
        total = x.detach().sum(dtype=torch.float32 if x.element_size() < 4 else None)
        # A sum of finite numbers may itself overflow; only then each is looked at.
        return bool(torch.isfinite(total)) or bool(torch.isfinite(x).all())
    except RuntimeError:  # a tensor without data, or with many at once
        return None
