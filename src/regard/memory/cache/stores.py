"""How a cache keeps its numbers: as they are given, or in eight bits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import RegardError


class Store(ABC):
    """Vectors (…, D) as tensors of the same leading axes, and back."""

    @abstractmethod
    def put(self, name: str, x: Tensor) -> tuple[Tensor, ...]:
        """What is kept of x; ``name`` is for the error when it cannot be kept."""

    @abstractmethod
    def take(self, parts: tuple[Tensor, ...], dtype: torch.dtype) -> Tensor:
        """The vectors again, in ``dtype``."""

    @abstractmethod
    def nbytes(self, width: int, itemsize: int) -> int:
        """Bytes of one vector of this width, given in numbers of ``itemsize`` bytes."""


@dataclass(frozen=True)
class AsGiven(Store):
    """The numbers themselves."""

    def put(self, name: str, x: Tensor) -> tuple[Tensor, ...]:
        return (x,)

    def take(self, parts: tuple[Tensor, ...], dtype: torch.dtype) -> Tensor:
        return parts[0]

    def nbytes(self, width: int, itemsize: int) -> int:
        return width * itemsize


@dataclass(frozen=True)
class EightBit(Store):
    """x ≈ s · c, c = round(x / s) in −127 … 127, s = max|x| / 127 for each vector, that is each place and head.

    No number is off by more than max|x| / 254 of its vector (and rounding of the dtype it is read in), so a score q·k
    by no more than ‖q‖₁ max|k| / 254. A vector takes D bytes and 4 for s, in float32. Up to eight queries of a key head
    read it as it is, by a softmax of dot products on the CPU; any other read takes the whole memory out first. Rounding
    has no gradient, so what wants one is refused.

    >>> store = EightBit()
    >>> x = torch.tensor([[1.27, -0.5, 0.004]])
    >>> codes, scale = store.put("k", x)
    >>> codes.tolist(), codes.dtype
    ([[127, -50, 0]], torch.int8)
    >>> store.take((codes, scale), torch.float32)
    tensor([[ 1.2700, -0.5000,  0.0000]])
    """

    def put(self, name: str, x: Tensor) -> tuple[Tensor, ...]:
        if x.requires_grad and torch.is_grad_enabled():
            raise RegardError(
                f"EightBit: {name} wants a gradient and rounding has none; write under torch.no_grad(), or keep pairs "
                "as given: store=AsGiven()"
            )
        largest = x.detach().abs().amax(-1, keepdim=True).float()
        if not bool(largest.isfinite().all()):
            raise RegardError(f"EightBit: {name} holds NaN or ±inf, wanted finite numbers: they have a scale")
        scale = largest / 127
        codes = x.detach().float() / torch.where(scale == 0, 1.0, scale)
        return codes.round().clamp(-127, 127).to(torch.int8), scale

    def take(self, parts: tuple[Tensor, ...], dtype: torch.dtype) -> Tensor:
        codes, scale = parts
        if dtype == torch.float64:
            return codes.double() * scale.double()
        return (codes * scale).to(dtype)

    def nbytes(self, width: int, itemsize: int) -> int:
        return width + 4
