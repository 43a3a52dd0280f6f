"""The quadratic form: linear attention is softmax attention whose score is log φ(q)·φ(k)."""

from __future__ import annotations

from torch import Tensor

from regard.grid import Grid
from regard.memory.linear.features import FeatureMap, check_features
from regard.numerics import finite, wide
from regard.score.base import Score


class FeatureScore(Score):
    """s = log φ(q)·φ(k), so that softmax weights are those of linear attention, under any mask; quadratic in length.

    It is what a :class:`LinearMemory` or :class:`PerformerMemory` with the map ``features`` computes, kept apart from
    how: for short inputs, masks that are not causal, and tests.

    >>> import regard, torch
    >>> from regard.memory import EluPlusOne, FeatureScore, LinearMemory
    >>> q, k, v = (torch.randn(1, 2, 7, 4) for _ in range(3))
    >>> memory = LinearMemory(2, 4)
    >>> o = regard.attend(q, k, v, score=FeatureScore(EluPlusOne()), mask=regard.mask.causal())
    >>> torch.allclose(memory.step(memory.reset(), q, k, v)[0].output, o, atol=1e-5)
    True
    """

    no_dot_form = "the logarithm is taken after the product"

    def __init__(self, features: FeatureMap) -> None:
        super().__init__()
        self.features = check_features("FeatureScore", features)

    def queries(self, q: Tensor, grid: Grid | None = None) -> Tensor:
        """log φ(q)."""
        return self.features.log(wide(q))

    def keys(self, k: Tensor, grid: Grid | None = None) -> Tensor:
        """log φ(k)."""
        return self.features.log(wide(k))

    def compare(self, q: Tensor, k: Tensor, grid: Grid | None = None) -> Tensor:
        b, a = (finite(x.detach().amax(-1, keepdim=True)) for x in (q, k))
        return ((q - b).exp() @ (k - a).exp().mT).log() + b + a.mT
