"""Arithmetic that every room does alike: half precision is widened, and a sum over nothing has log −∞, not NaN."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def wide(x: Tensor) -> Tensor:
    """x in float32 where it is half precision; float32 and float64 stay as they are."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def logsumexp(x: Tensor, dim: int) -> Tensor:
    """log Σ exp(x) along ``dim``: −∞ with gradient 0 where everything is −∞ or there is nothing.

    >>> logsumexp(torch.tensor([[0.0, 0.0], [-torch.inf, -torch.inf]]), dim=-1)
    tensor([0.6931,   -inf])
    """
    if x.shape[dim] == 0:
        return x.new_full(x.sum(dim).shape, -math.inf)
    top = finite(x.detach().amax(dim, keepdim=True))
    total = torch.exp(x - top).sum(dim)
    empty = total == 0
    return torch.where(empty, -math.inf, top.squeeze(dim) + torch.where(empty, 1.0, total).log())


def as_written(device: torch.device) -> AbstractContextManager[object]:
    """Where autocast is on, it is off inside: what is computed there is computed in the precision it says."""
    on = torch.is_autocast_enabled(device.type)
    return torch.autocast(device.type, enabled=False) if on else nullcontext()


def finite(x: Tensor) -> Tensor:
    """x with 0 for −∞, so that differences of two of them are numbers."""
    return torch.where(x == -math.inf, 0.0, x)
