"""Dropout at the cost of a quarter of its random numbers: drawing them is a tenth of a Transformer's update."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["dropout"]

_LEVELS = 1 << 16


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """x ∘ m / (1 − p), m independently 0 with probability p, else 1; x where not ``training``, or p is 0.

    As ``torch.nn.functional.dropout`` (Srivastava et al. 2014). On a CPU four masks come out of each number drawn, so
    p is the nearest multiple of 2⁻¹⁶ there, in the mask and in the scale both: the mean stays x to rounding.

    Args:
        x: any shape, a floating type.
        p: in [0, 1].

    >>> y = dropout(torch.ones(1000), 0.25)
    >>> sorted({round(each, 3) for each in y.tolist()})
    [0.0, 1.333]
    """
    if not training or p == 0.0:
        return x
    dropped = round(p * _LEVELS)
    if x.device.type != "cpu" or not 0 < dropped < _LEVELS:
        return F.dropout(x, p)
    count = x.numel()
    drawn = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)  # all 64 bits
    keep = drawn.view(torch.int16)[:count].view(x.shape) >= dropped - _LEVELS // 2
    return x * keep.to(x.dtype).mul_(_LEVELS / (_LEVELS - dropped))
