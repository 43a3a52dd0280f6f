"""Normalisers: turn a row of scores into a distribution over the keys.

A score of −inf is a key that may not be seen; its weight is exactly 0. A row of nothing but −inf is an empty row: all
its weights are 0 and no gradient flows. Half precision is computed in float32.
"""

from __future__ import annotations

from regard.errors import unknown_name
from regard.normalize.base import Normalizer
from regard.normalize.choice import Annealed, GumbelSoftmax, Hardmax
from regard.normalize.softmax import Softmax
from regard.normalize.threshold import Entmax, Sparsemax
from regard.normalize.topk import TopK

NAMES: dict[str, Normalizer] = {
    "softmax": Softmax(),
    "sparsemax": Sparsemax(),
    "entmax15": Entmax(1.5),
    "hardmax": Hardmax(),
    "gumbel": GumbelSoftmax(),
}


def named(normalize: Normalizer | str) -> Normalizer:
    """The normaliser itself, or the one of that name: softmax, sparsemax, entmax15, hardmax, gumbel."""
    if isinstance(normalize, Normalizer):
        return normalize
    if isinstance(normalize, str) and normalize in NAMES:
        return NAMES[normalize]
    raise unknown_name("normalize", normalize, NAMES)


__all__ = [
    "NAMES",
    "Annealed",
    "Entmax",
    "GumbelSoftmax",
    "Hardmax",
    "Normalizer",
    "Softmax",
    "Sparsemax",
    "TopK",
    "named",
]
