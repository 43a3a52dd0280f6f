"""Weights that are the scores themselves, which a memory network is trained with at first."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.normalize import Normalizer


class Linear(Normalizer):
    """w = s, and 0 where a key may not be seen: no softmax, which training starts with ("linear start").

    *No distribution*: weights may be negative and sum to anything, so a read leaves the hull of its values, and entropy
    means nothing. Without the softmax the whole network is polynomial, and gradient reaches every hop; when the loss no
    longer falls the softmax is put in (Sukhbaatar et al. 2015, section 4.2).

    >>> Linear()(torch.tensor([2.0, -1.0, -torch.inf]))
    tensor([ 2., -1.,  0.])
    """

    no_merge = "its weights are the scores themselves, which no log-sum-exp weighs"

    def forward(self, scores: Tensor) -> Tensor:
        return torch.where(scores == -torch.inf, 0.0, scores)
