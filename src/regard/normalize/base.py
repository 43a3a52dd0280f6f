"""What a normaliser is, and what all of them do first."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.numerics import finite, logsumexp, wide


class Normalizer(nn.Module, ABC):
    """w = normalise(s) along the last axis: ``(…, S) → (…, S)``, w ≥ 0, Σw = 1 (0 for an empty row)."""

    #: Why parts read with this normaliser cannot be merged; empty when they can.
    no_merge: str = ""

    @abstractmethod
    def forward(self, scores: Tensor) -> Tensor:
        """Weights of ``scores``, in which −inf marks a key that may not be seen."""

    def lse(self, scores: Tensor) -> Tensor:
        """Λ = log Σ exp(s) over the keys, natural log, (…, S) → (…); −inf for an empty row."""
        return logsumexp(wide(scores), dim=-1)


def check_temperature(who: str, temperature: float) -> None:
    if not temperature > 0:
        raise RegardError(
            f"{who}: temperature is {temperature}, wanted above 0 (a small one is hard, Hardmax() is its limit)"
        )


def prepared(scores: Tensor) -> tuple[Tensor, Tensor, torch.dtype]:
    """Scores in a precision that can sum them, which of them may be seen, and the precision to give back."""
    s = wide(scores)
    return s, s != -math.inf, scores.dtype


def top_of(s: Tensor) -> Tensor:
    """The row's maximum, without gradient, and 0 for an empty row, so that s − top is never inf − inf."""
    return finite(s.detach().amax(-1, keepdim=True))
