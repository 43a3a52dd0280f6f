"""Every score, and s of one query and one key by its definition, which shares no code with the package."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard import position, score
from regard.score import Score
from tests.laws.shapes import EVEN, A, D, H

Pair = Callable[[Any, Tensor, Tensor, int, int, int], Tensor]
"""s of one query (D,) and one key (D,), of head h, standing at i and j on the keys' own ruler."""


@dataclass(frozen=True)
class ScoreCase:
    build: Callable[[], Score]
    pair: Pair
    widths: tuple[int, int] = (D, D)
    placed: bool = False  # whether positions matter, so that keys cannot move


def turned(x: Tensor, place: int, interleaved: bool) -> Tensor:
    """x as complex numbers, each multiplied by its own power of the place."""
    half = x.numel() // 2
    numbers = torch.complex(x[0::2], x[1::2]) if interleaved else torch.complex(x[:half], x[half:])
    for c in range(half):
        angle = place / 10_000.0 ** (2 * c / x.numel())
        numbers[c] = numbers[c] * complex(math.cos(angle), math.sin(angle))
    return torch.view_as_real(numbers).flatten()


def perceptron(p: Any, q: Tensor, k: Tensor, h: int, i: int, j: int) -> Tensor:
    f = p.function
    hidden = torch.tanh(f.hidden.weight @ torch.cat([q, k, q * k]) + f.hidden.bias)
    s: Tensor = (f.out.weight[0] @ hidden) + f.out.bias[0]
    return s


def dot(p: Any, q: Tensor, k: Tensor, h: int, i: int, j: int) -> Tensor:
    return (q * k).sum()


def scaled(p: Any, q: Tensor, k: Tensor, h: int, i: int, j: int) -> Tensor:
    return (q * k).sum() / math.sqrt(q.numel())


def alibi(h: int, i: int, j: int) -> float:
    return -(2.0 ** -[2, 4, 6, 8, 1, 3][h]) * abs(i - j)  # the published slopes for six heads


SCORES = {
    "dot": ScoreCase(score.Dot, dot),
    "scaled dot": ScoreCase(score.ScaledDot, scaled),
    "cosine": ScoreCase(lambda: score.Cosine(3.0), lambda p, q, k, h, i, j: 3 * (q @ k) / (q.norm() * k.norm())),
    "euclidean": ScoreCase(score.Euclidean, lambda p, q, k, h, i, j: -((q - k) ** 2).sum()),
    "general": ScoreCase(lambda: score.General(D, A), lambda p, q, k, h, i, j: q @ p.weight @ k, (D, A)),
    "general per head": ScoreCase(
        lambda: score.General(A, D, heads=H), lambda p, q, k, h, i, j: q @ p.weight[h] @ k, (A, D)
    ),
    "concat": ScoreCase(
        lambda: score.Concat(D, A, width=3),
        lambda p, q, k, h, i, j: p.energy @ torch.tanh(p.weight @ torch.cat([q, k])),
        (D, A),
    ),
    "additive": ScoreCase(
        lambda: score.Additive(A, D, width=3),
        lambda p, q, k, h, i, j: p.energy @ torch.tanh(p.query.weight @ q + p.key.weight @ k),
        (A, D),
    ),
    "perceptron": ScoreCase(lambda: score.Learned.mlp(D, D, width=3), perceptron),
    "bilinear module": ScoreCase(
        lambda: score.Learned(nn.Bilinear(D, A, 1)),
        lambda p, q, k, h, i, j: q @ p.function.weight[0] @ k + p.function.bias[0],
        (D, A),
    ),
    "alibi": ScoreCase(
        lambda: score.ScaledDot() + position.ALiBi(H, anchor="end"),
        lambda p, q, k, h, i, j: scaled(p, q, k, h, i, j) + alibi(h, i, j),
        placed=True,
    ),
    "relative bias": ScoreCase(
        lambda: score.Dot() + position.RelativeBias(H, reach=2, anchor="end"),
        lambda p, q, k, h, i, j: (q @ k) + p.bias.weight[h, max(-2, min(2, j - i)) + 2],
        placed=True,
    ),
    "capped": ScoreCase(lambda: score.Dot().capped(1.5), lambda p, q, k, h, i, j: 1.5 * torch.tanh((q @ k) / 1.5)),
    "capped alibi": ScoreCase(
        lambda: (score.ScaledDot() + position.ALiBi(H, anchor="end")).capped(2.0),
        lambda p, q, k, h, i, j: 2 * torch.tanh((scaled(p, q, k, h, i, j) + alibi(h, i, j)) / 2),
        placed=True,
    ),
    "rotary": ScoreCase(
        lambda: position.Rotary(score.ScaledDot(), anchor="end"),
        lambda p, q, k, h, i, j: scaled(p, turned(q, i, False), turned(k, j, False), h, i, j),
        (EVEN, EVEN),
        placed=True,
    ),
    "rotary interleaved": ScoreCase(
        lambda: position.Rotary(score.Dot(), interleaved=True, anchor="end"),
        lambda p, q, k, h, i, j: turned(q, i, True) @ turned(k, j, True),
        (EVEN, EVEN),
        placed=True,
    ),
    "keyed additive": ScoreCase(
        lambda: score.Additive(D, 2, width=A).keyed,
        lambda p, q, k, h, i, j: p.inner.energy @ torch.tanh(p.inner.query.weight @ q + k),
        (D, A),
    ),
    "keyed cosine": ScoreCase(lambda: score.Cosine(2.0).keyed, lambda p, q, k, h, i, j: 2 * (q @ k) / q.norm()),
}

FUSED = [name for name, case in SCORES.items() if not case.build().no_dot_form]
UNPLACED = [name for name, case in SCORES.items() if not case.placed]
