"""How a system in continuous time becomes one of steps: h′ = A h + B x, held for a time Δ, is h ← Ā h + B̄ x."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor


class Discretization(ABC):
    """Ā and the factor w of B̄ = w B, of a diagonal system, from ΔA and Δ.

    A Δ of 0 must leave the state as it is: Ā = 1 and w = 0.
    """

    @abstractmethod
    def __call__(self, delta: Tensor, A: Tensor) -> tuple[Tensor, Tensor]:
        """Ā and w for steps Δ and a diagonal A that broadcast against each other."""


@dataclass(frozen=True)
class Euler(Discretization):
    """Ā = exp(ΔA), B̄ = ΔB: the exact decay beside Euler's step for the input, as Mamba's published code has it.

    Source: Gu & Dao 2023, its code (``selective_scan_ref``), where the text has :class:`ZeroOrderHold`; the two agree
    to first order in ΔA.

    >>> Euler()(torch.tensor(0.5), torch.tensor(-2.0))
    (tensor(0.3679), tensor(0.5000))
    """

    def __call__(self, delta: Tensor, A: Tensor) -> tuple[Tensor, Tensor]:
        decay = torch.exp(delta * A)
        return decay, delta.expand_as(decay)


@dataclass(frozen=True)
class ZeroOrderHold(Discretization):
    """Ā = exp(ΔA), B̄ = (ΔA)⁻¹ (exp(ΔA) − 1) ΔB: what the system does exactly while its input stands still for Δ.

    Source: Gu & Dao 2023, equation 4. With A = −1 and Δ = softplus(z) it is an RNN's gate: Ā = 1 − σ(z), w = σ(z)
    (its Theorem 1).

    >>> ZeroOrderHold()(torch.tensor(0.5), torch.tensor(-2.0))
    (tensor(0.3679), tensor(0.3161))
    """

    def __call__(self, delta: Tensor, A: Tensor) -> tuple[Tensor, Tensor]:
        z = delta * A
        return torch.exp(z), torch.expm1(z) / A
