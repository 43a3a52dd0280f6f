"""Feature maps: φ(x) ≥ 0 of a query or a key, given by its logarithm, so that no denominator is lost to rounding."""

from __future__ import annotations

import functools
import math
import zlib
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import RegardError


class FeatureMap(ABC):
    """φ: (…, D) → (…, F), no feature negative; the weight of key j for query i is ∝ φ(qᵢ)·φ(kⱼ).

    A map is written as ``log(x)`` = log φ(x). A memory adds logarithms and takes the exponential of differences, so a
    feature of e⁻²⁰⁰ counts for what it is, where e⁻²⁰⁰ itself is 0 in single precision.
    """

    #: Whether φ > 0 everywhere. Then a denominator is above 0 by construction; else a read of nothing is an error.
    positive: bool = True

    @abstractmethod
    def size(self, width: int) -> int:
        """F, how many features a vector of ``width`` numbers has."""

    @abstractmethod
    def log(self, x: Tensor) -> Tensor:
        """log φ(x), (…, F); −∞ where a feature is 0."""

    def __call__(self, x: Tensor) -> Tensor:
        """φ(x), (…, F)."""
        return self.log(x).exp()

    def flops(self, width: int) -> float:
        """Operations for the features of one vector, by count."""
        return 4.0 * self.size(width)

    @functools.cached_property
    def mark(self) -> int:
        """A number that tells this map from others: a state is read by the map that wrote it."""
        return zlib.crc32(repr(self).encode())


@dataclass(frozen=True)
class EluPlusOne(FeatureMap):
    """φ(x) = elu(x) + 1 = x + 1 above 0, eˣ below (Katharopoulos et al. 2020, eq. 7): as many features as numbers.

    >>> import torch
    >>> EluPlusOne()(torch.tensor([-1.0, 0.0, 2.0]))
    tensor([0.3679, 1.0000, 3.0000])
    >>> EluPlusOne().log(torch.tensor([-200.0])), torch.nn.functional.elu(torch.tensor([-200.0])) + 1
    (tensor([-200.]), tensor([0.]))
    """

    def size(self, width: int) -> int:
        return width

    def log(self, x: Tensor) -> Tensor:
        above = torch.relu(x)  # its slope at 0 is 0, so the two parts never count an x twice
        return torch.log1p(above) + (x - above)


@dataclass(frozen=True)
class Exponential(FeatureMap):
    """φ(x) = eˣ, number by number: sharper than elu + 1, so that Σ_f e^(q_f + k_f) is led by its largest sum.

    >>> import torch
    >>> Exponential()(torch.tensor([0.0, 1.0]))
    tensor([1.0000, 2.7183])
    """

    def size(self, width: int) -> int:
        return width

    def log(self, x: Tensor) -> Tensor:
        return x


@dataclass(frozen=True)
class SquaredReLU(FeatureMap):
    """φ(x) = max(x, 0)² + floor.

    With ``floor`` = 0 a query may share no feature with any key; its weights are then 0/0, and the memory raises
    rather than answer. Any floor above 0 rules that out.

    >>> import torch
    >>> SquaredReLU()(torch.tensor([-1.0, 0.0, 3.0])), SquaredReLU(floor=0.5).positive
    (tensor([0., 0., 9.]), True)
    """

    floor: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.floor < math.inf:
            raise RegardError(f"SquaredReLU: floor is {self.floor}, wanted a number of at least 0")

    @property
    def positive(self) -> bool:  # type: ignore[override]  # a value of its own instead of the class's
        return self.floor > 0

    def size(self, width: int) -> int:
        return width

    def log(self, x: Tensor) -> Tensor:
        if self.floor:
            return (torch.relu(x) ** 2 + self.floor).log()
        # log of 1 in the branch not taken: its slope is finite, where that of log 0 times 0 is NaN.
        return torch.where(x > 0, 2 * torch.where(x > 0, x, 1.0).log(), -math.inf)


def check_features(who: str, features: object) -> FeatureMap:
    """``features`` if a memory can average by it; what has negative values, or is no map, is refused."""
    if isinstance(features, FeatureMap):
        return features
    wanted = "a FeatureMap such as EluPlusOne(), SquaredReLU(floor=0.1) or PositiveFeatures.drawn(...)"
    if getattr(features, "signed", False):
        raise RegardError(
            f"{who}: features is {type(features).__name__}, whose products may be negative, so that denominators may "
            f"vanish; wanted {wanted}"
        )
    raise RegardError(f"{who}: features is {features!r}, wanted {wanted}")
