"""What the tests of the tiled engine read: shapes that its tiles do not divide."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import regard
from regard.normalize import TopK

TOP = TopK(6)


def randn(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def inputs(L: int = 37, S: int = 41, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    return [randn(2, 6, L, 11, dtype=dtype), randn(2, 3, S, 11, dtype=dtype), randn(2, 3, S, 13, dtype=dtype)]


def both(*given: Tensor, **parts: Any) -> tuple[regard.Reading, regard.Reading]:
    wide = [x.detach().double() for x in given]
    truth = regard.read(*wide, engine="reference", **parts)
    return regard.read(*given, engine="tiled", **parts), truth
