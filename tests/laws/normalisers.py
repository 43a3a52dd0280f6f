"""Every normaliser, and its row by its definition, which shares no code with the package."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard import normalize
from regard.normalize import Normalizer


def softmax_rows(s: Tensor, temperature: float = 1.0, sink: Tensor | None = None) -> Tensor:
    powers = torch.exp(s / temperature)  # the scores of these tests are small: no maximum is subtracted
    total = powers.sum(-1, keepdim=True) + (0.0 if sink is None else torch.exp(sink))
    return torch.where(total > 0, powers / total, 0.0)


def simplex_rows(s: Tensor, alpha: Tensor | float) -> Tensor:
    """[(α−1)s − t]₊^{1/(α−1)} by bisection on t, over the visible keys."""
    z = (alpha - 1) * torch.where(s == -math.inf, -1e6, s)
    low, high = z.amax(-1, keepdim=True) - 1, z.amax(-1, keepdim=True)
    for _ in range(70):
        middle = (low + high) / 2
        heavy = ((z - middle).clamp(min=0) ** (1 / (alpha - 1))).sum(-1, keepdim=True) >= 1
        low, high = torch.where(heavy, middle, low), torch.where(heavy, high, middle)
    return torch.where(s == -math.inf, 0.0, (z - low).clamp(min=0) ** (1 / (alpha - 1)))


def hard_rows(s: Tensor) -> Tensor:
    w = torch.zeros_like(s)
    for cell in itertools.product(*map(range, s.shape[:-1])):
        row = s[cell].tolist()
        if max(row) > -math.inf:
            w[cell][row.index(max(row))] = 1.0
    return w


def top_rows(s: Tensor, k: int) -> Tensor:
    """exp of what is no lower than the kth of a row when sorted, over its sum."""
    w = torch.zeros_like(s)
    for cell in itertools.product(*map(range, s.shape[:-1])):
        row = [x for x in s[cell].tolist() if x > -math.inf]
        last = sorted(row)[-min(k, len(row))] if row else math.inf
        for j, x in enumerate(s[cell].tolist()):
            w[cell][j] = math.exp(x) / sum(math.exp(y) for y in row if y >= last) if x >= last else 0.0
    return w


PER_HEAD_ALPHA = torch.tensor([1.1, 1.3, 1.5, 1.7, 2.0, 2.5], dtype=torch.float64)
ONE_SINK = torch.tensor(0.25, dtype=torch.float64)
PER_HEAD_SINK = torch.tensor([0.5, -1.0, 0.0, 2.0, -3.0, 1.0], dtype=torch.float64)


@dataclass(frozen=True)
class NormaliserCase:
    build: Callable[[], Normalizer]
    rows: Callable[[Tensor], Tensor]
    temperature: float = 1.0
    sink: Tensor | None = None
    merges: bool = False
    surrogate: bool = False  # its gradient is another function's, so finite differences do not know it


NORMALISERS = {
    "softmax": NormaliserCase(normalize.Softmax, softmax_rows, merges=True),
    "tempered": NormaliserCase(
        lambda: normalize.Softmax(0.5), lambda s: softmax_rows(s, 0.5), temperature=0.5, merges=True
    ),
    "sink": NormaliserCase(
        lambda: normalize.Softmax(sink=0.25),
        lambda s: softmax_rows(s, sink=ONE_SINK),
        sink=ONE_SINK,
        merges=True,
    ),
    "tempered sink per head": NormaliserCase(
        lambda: normalize.Softmax(2.0, sink=nn.Parameter(PER_HEAD_SINK.clone())),
        lambda s: softmax_rows(s, 2.0, PER_HEAD_SINK[:, None, None]),
        temperature=2.0,
        sink=PER_HEAD_SINK[:, None],
        merges=True,
    ),
    "sparsemax": NormaliserCase(normalize.Sparsemax, lambda s: simplex_rows(s, 2.0)),
    "entmax 1.5": NormaliserCase(lambda: normalize.Entmax(1.5), lambda s: simplex_rows(s, 1.5)),
    "entmax 1.3": NormaliserCase(lambda: normalize.Entmax(1.3), lambda s: simplex_rows(s, 1.3)),
    "learnt alpha per head": NormaliserCase(
        lambda: normalize.Entmax(nn.Parameter(PER_HEAD_ALPHA.clone())),
        lambda s: simplex_rows(s, PER_HEAD_ALPHA[:, None, None]),
    ),
    "top 3": NormaliserCase(lambda: normalize.TopK(3), lambda s: top_rows(s, 3)),
    "hardmax": NormaliserCase(normalize.Hardmax, hard_rows, surrogate=True),
    "gumbel in eval": NormaliserCase(lambda: normalize.GumbelSoftmax(0.7).eval(), hard_rows, surrogate=True),
}

PLAIN = [name for name, case in NORMALISERS.items() if case.merges and case.sink is None]
TRUE_GRADIENT = [name for name, case in NORMALISERS.items() if not case.surrogate]  # the others' is softmax's
