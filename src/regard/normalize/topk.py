"""The softmax over the best few keys of a row."""

from __future__ import annotations

import math
import operator

from torch import Tensor

from regard.errors import RegardError
from regard.normalize.base import Normalizer, prepared
from regard.normalize.softmax import Softmax
from regard.normalize.solved import chosen, solves


class TopK(Normalizer):
    """w_j = exp s_j / Σ_{i: s_i ≥ τ} exp s_i where s_j ≥ τ, the k-th largest score of the row; elsewhere exactly 0.

    Scores (…, S) to weights (…, S) (Zhao et al. 2019, "Explicit Sparse Transformer"; read without keeping all scores:
    Gupta et al. 2021, "Memory-efficient Transformers via Top-k Attention"). All keys that tie at τ stay in, so that
    moving keys moves their weights and changes nothing else: with ties more than k have weight. A row that may see k
    keys or fewer has the plain softmax, an empty row 0. The gradient is the softmax's over the keys that stay; which
    ones stay has none. ``k`` is a whole number of at least 1, else a ``RegardError``; a kernel takes large work in
    single precision.

    >>> import torch
    >>> TopK(2)(torch.tensor([2.0, 0.0, -1.0, -3.0]))
    tensor([0.8808, 0.1192, 0.0000, 0.0000])
    """

    no_merge = "its threshold depends on every key of the row at once"

    def __init__(self, k: int) -> None:
        super().__init__()
        try:
            whole = operator.index(k)
        except TypeError:
            whole = 0
        if isinstance(k, bool) or whole < 1:
            raise RegardError(
                f"TopK: k is {k!r}, wanted a whole number of at least 1: how many keys of a row have weight"
            )
        self.k = whole

    def forward(self, scores: Tensor) -> Tensor:
        if solves(scores):
            return chosen(scores, self.k)
        s, _, dtype = prepared(scores)
        if self.k < s.shape[-1]:
            threshold = s.detach().topk(self.k, -1).values[..., -1:]  # −∞ where fewer may be seen
            s = s.masked_fill(s < threshold, -math.inf)
        weights: Tensor = Softmax()(s)
        return weights.to(dtype)

    def extra_repr(self) -> str:
        return f"k={self.k}"
