"""Two sentences look at each other: words whose vectors choose one another are linked."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard import operator
from regard.errors import RegardError, unknown_name
from regard.normalize import Normalizer

__all__ = ["SIMILARITIES", "Similarity", "named"]


@dataclass(frozen=True)
class Similarity:
    """√(A ∘ Bᵀ) where both A and Bᵀ pass ``threshold``, else 0; A = weights(x, y) and B = weights(y, x).

    Each source piece looks at the pieces of the target, each target piece at those of the source, scored and normalised
    as any read of the package; a pair is linked where either look is strong enough.

    Args:
        normalize, score: objects or their names.
        threshold: at least so much weight from either side; 0 takes whatever a sparse normaliser leaves.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> Similarity("softmax", "dot", threshold=0.5)(x, 3 * x.flip(0)).round(decimals=2)
    tensor([[0.0000, 0.9500],
            [0.9500, 0.0000]])
    """

    normalize: Normalizer | str = "softmax"
    score: str = "dot"
    threshold: float = 1e-3

    def __post_init__(self) -> None:
        if not 0.0 <= self.threshold <= 1.0:
            raise RegardError(f"threshold: found {self.threshold}, wanted a weight, 0 ≤ threshold ≤ 1")

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        """x (I, D), y (J, D) → (I, J)."""
        if not x.shape[0] or not y.shape[0]:
            return x.new_zeros(x.shape[0], y.shape[0])
        a = operator.weights(x, y, score=self.score, normalize=self.normalize)
        b = operator.weights(y, x, score=self.score, normalize=self.normalize).mT
        least = torch.minimum(a, b)
        return torch.where((least >= self.threshold) & (least > 0), (a * b).sqrt(), 0.0)


#: By the names that :class:`~regard.align.soft.encoder.Encoder` takes.
SIMILARITIES = {
    "softmax": Similarity(),  # awesome-align (Dou & Neubig 2021), threshold 0.001
    "entmax15": Similarity("entmax15", threshold=0.0),  # its sparse form: what entmax leaves in both directions
    "argmax": Similarity("hardmax", "cosine", threshold=0.0),  # SimAlign (Jalili Sabet et al. 2020), "inter"
}


def named(similarity: Similarity | str) -> Similarity:
    """The similarity itself, or the one of that name: softmax, entmax15, argmax."""
    if isinstance(similarity, Similarity):
        return similarity
    if similarity in SIMILARITIES:
        return SIMILARITIES[similarity]
    raise unknown_name("similarity", similarity, SIMILARITIES)
