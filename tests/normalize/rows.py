"""Rows, numbers and parts that tests of normalisers share."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.normalize import Entmax, Normalizer

F64 = torch.float64
INF = math.inf
TOY = torch.tensor([1.0, 0.5, 0.0, -0.8], dtype=F64)
ALPHAS = [1.05, 1.25, 1.5, 1.7, 2.0, 3.0]
PER_HEAD = [1.2, 1.5, 2.0]


def sparse(alpha: float | list[float], dtype: torch.dtype) -> Entmax:
    return Entmax(alpha if isinstance(alpha, float) else nn.Parameter(torch.tensor(alpha, dtype=dtype)))


def jacobian(part: Normalizer, s: Tensor) -> Tensor:
    found: Tensor = torch.autograd.functional.jacobian(part, s)
    return found
