"""How a head of a Neural Turing Machine finds its place, step by step (Graves, Wayne & Danihelka 2014, section 3.3).

By what is written there (:func:`content`), or where it was (:func:`interpolate`), moved along (:func:`shift`) and drawn
together again (:func:`sharpen`). Every function is pure and takes any axes in front; memories are (…, S, D), weights
(…, H, S) with one head after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Address", "address", "content", "cosine", "interpolate", "sharpen", "shift"]

EPS = 1e-6  # added to squared lengths: rows of zeros match nothing, and their gradients are finite


class Address(NamedTuple):
    """Where heads are told to go."""

    key: Tensor
    """k (…, H, D): what is looked for."""
    strength: Tensor
    """β > 0 (…, H): how much the best match stands out."""
    gate: Tensor
    """g in [0, 1] (…, H): 1 goes by content alone, 0 stays where the head was."""
    shift: Tensor
    """s (…, H, 2n+1), a distribution over moves by −n … n slots."""
    sharpness: Tensor
    """γ ≥ 1 (…, H)."""


def cosine(memory: Tensor, keys: Tensor) -> Tensor:
    """K_hi = k_h · M_i / √((|k_h|² + ε)(|M_i|² + ε)), ε = 1e-6: (…, H, S), equation 6 with an ε.

    The ε stands inside the root, so that a row or a key of zeros gives 0 with a finite gradient.

    >>> cosine(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), torch.tensor([[4.0, 3.0]])).tolist()
    [[0.9599..., 0.0]]
    """
    lengths = memory.square().sum(-1) + EPS  # (…, S)
    own = keys.square().sum(-1, keepdim=True) + EPS  # (…, H, 1)
    return (keys @ memory.mT) * (lengths.unsqueeze(-2) * own).rsqrt()


def content(memory: Tensor, keys: Tensor, strengths: Tensor) -> Tensor:
    """w = softmax over slots of β_h K_hi: memory (…, S, D), keys (…, H, D), strengths (…, H) → (…, H, S), equation 5.

    >>> content(torch.eye(2), torch.tensor([[1.0, 0.0]]), torch.tensor([20.0])).round().tolist()
    [[1.0, 0.0]]
    """
    return (strengths.unsqueeze(-1) * cosine(memory, keys)).softmax(-1)


def interpolate(found: Tensor, last: Tensor, gate: Tensor) -> Tensor:
    """w = g · found + (1 − g) · last, equation 7: weights (…, H, S), gate (…, H).

    >>> interpolate(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]]), torch.tensor([0.25])).tolist()
    [[0.25, 0.75]]
    """
    return torch.lerp(last, found, gate.unsqueeze(-1))


def shift(weights: Tensor, moves: Tensor) -> Tensor:
    """w'_i = Σ_j w_j s(i − j), indices modulo S, equation 8: weights (…, H, S), moves (…, H, 2n+1) for −n … n.

    A head at slot i with all of s at +1 is at slot i + 1 afterwards; from the last slot it comes to the first.

    >>> shift(torch.tensor([[0.0, 0.0, 1.0]]), torch.tensor([[0.0, 0.0, 1.0]])).tolist()
    [[1.0, 0.0, 0.0]]
    """
    n, S = moves.shape[-1] // 2, weights.shape[-1]
    around = torch.cat([weights[..., S - n :], weights, weights[..., :n]], -1)  # (…, H, S + 2n)
    moved = moves[..., :1] * around[..., 2 * n :]
    for j in range(1, 2 * n + 1):  # move by j − n comes from slot i − (j − n)
        moved = torch.addcmul(moved, moves[..., j : j + 1], around[..., 2 * n - j : 2 * n - j + S])
    return moved


def sharpen(weights: Tensor, sharpness: Tensor) -> Tensor:
    """w'_i = w_i^γ / Σ_j w_j^γ, equation 9: weights (…, H, S) of which some are above 0, sharpness γ ≥ 1 (…, H).

    The largest weight is divided out before the power is taken, so that no γ makes the sum 0.

    >>> sharpen(torch.tensor([[2 / 3, 1 / 3]]), torch.tensor([2.0]))
    tensor([[0.8000, 0.2000]])
    """
    largest = weights.detach().amax(-1, keepdim=True)  # it cancels, so that it needs no gradient
    powers = (weights / largest).pow(sharpness.unsqueeze(-1))
    return powers / powers.sum(-1, keepdim=True)


def address(memory: Tensor, last: Tensor, to: Address) -> Tensor:
    """Where heads are that were at ``last`` (…, H, S) and are told to go ``to``: the four steps in their order."""
    found = interpolate(content(memory, to.key, to.strength), last, to.gate)
    return sharpen(shift(found, to.shift), to.sharpness)
