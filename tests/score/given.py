"""Numbers in float64, and what their differences may be."""

from __future__ import annotations

import torch
from torch import Tensor

import regard
from regard import score

F64 = torch.float64


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=F64)


def close(found: Tensor, wanted: Tensor, tolerance: float = 1e-10) -> None:
    assert found.shape == wanted.shape
    assert (found - wanted).abs().max() <= tolerance


def weights(q: Tensor, k: Tensor, of: score.Score | str) -> Tensor:
    return regard.weights(q, k, score=of)
