"""Random features of the softmax kernel, FAVOR+ (Choromanski et al. 2021): E[φ(x)·φ(y)] = exp(x·y)."""

from __future__ import annotations

import functools
import math
import zlib
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.memory.linear.features import FeatureMap


def haar(count: int, width: int, generator: torch.Generator | None = None) -> Tensor:
    """``count`` orthogonal matrices (count, width, width), uniformly distributed (Haar), in float64.

    The Q of a QR factorisation alone is not: its signs follow LAPACK's convention, which leaves an entry of the first
    direction always negative, and makes positive features biased. Q · sign(diag R) is Haar (Mezzadri 2007).
    """
    q, r = torch.linalg.qr(torch.randn(count, width, width, generator=generator, dtype=torch.float64))
    signed: Tensor = q * torch.where(r.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0).unsqueeze(-2)
    return signed


def directions(
    features: int,
    width: int,
    *,
    orthogonal: bool = True,
    draws: int = 1,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Rows w ~ N(0, 1) of ``draws`` projections (draws, features, width), in float64.

    ``orthogonal``: in blocks of ``width`` rows at right angles, each as long as a normal vector is (χ with ``width``
    degrees of freedom, independent of the others), so that every row alone is still normal.

    >>> w = directions(5, 3, generator=torch.Generator().manual_seed(0))[0]
    >>> w.shape, bool((w[0] @ w[1]).abs() < 1e-12)
    (torch.Size([5, 3]), True)
    """
    for name, value in (("features", features), ("width", width), ("draws", draws)):
        if value < 1:
            raise RegardError(f"directions: {name} is {value}, wanted at least 1")
    rows = torch.randn(draws, features, width, generator=generator, dtype=torch.float64)
    if not orthogonal:
        return rows
    blocks = -(-features // width)
    turned = haar(draws * blocks, width, generator).reshape(draws, blocks * width, width)[:, :features]
    found: Tensor = turned * rows.norm(dim=-1, keepdim=True)
    return found


@dataclass(frozen=True, eq=False)
class RandomFeatures(FeatureMap):
    """Features of ``scale · x`` by the rows (M, D) of one draw. The kernel they estimate is exp(scale² x·y)."""

    rows: Tensor = field(repr=False)
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.rows.dim() != 2 or not self.rows.is_floating_point():
            raise RegardError(
                f"{type(self).__name__}: rows is {tuple(self.rows.shape)} of {self.rows.dtype}, wanted a floating "
                "tensor (M, D), a direction a row"
            )

    def size(self, width: int) -> int:
        if width != self.rows.shape[1]:
            raise RegardError(
                f"{type(self).__name__}: rows has directions of width {self.rows.shape[1]} for vectors of {width}, "
                "wanted equal widths; draw them for this width"
            )
        return self.rows.shape[0]

    def flops(self, width: int) -> float:
        return 2.0 * self.rows.shape[0] * width + 4.0 * self.size(width)

    @functools.cached_property
    def mark(self) -> int:  # rows are many, and it is asked for at every step
        return zlib.crc32(self.rows.detach().cpu().double().numpy().tobytes(), zlib.crc32(repr(self).encode()))

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """W x (…, M) and ‖x‖²/2 (…, 1) of the scaled x."""
        x = x * self.scale
        return x @ self.rows.to(x).mT, (x * x).sum(-1, keepdim=True) / 2


@dataclass(frozen=True, eq=False)
class PositiveFeatures(RandomFeatures):
    """φ(x) = M^{−1/2} exp(W x − ‖x‖²/2) (Choromanski et al. 2021, lemma 1); M features.

    >>> import torch
    >>> phi = PositiveFeatures(directions(4096, 4, generator=torch.Generator().manual_seed(0))[0])
    >>> x, y = torch.tensor([0.5, 0.1, -0.3, 0.2]), torch.tensor([0.4, -0.5, 0.1, 0.6])
    >>> bool((phi(x) @ phi(y) / (x @ y).exp() - 1).abs() < 0.1)
    True
    """

    def log(self, x: Tensor) -> Tensor:
        along, half = self.projected(x)
        return along - (half + math.log(self.rows.shape[0]) / 2)


@dataclass(frozen=True, eq=False)
class HyperbolicFeatures(RandomFeatures):
    """φ(x) = (2M)^{−1/2} e^{−‖x‖²/2} [e^{W x}, e^{−W x}] (lemma 1, its second form); 2M features, less variance."""

    def size(self, width: int) -> int:
        return 2 * super().size(width)

    def log(self, x: Tensor) -> Tensor:
        along, half = self.projected(x)
        return torch.cat([along, -along], -1) - (half + math.log(2 * self.rows.shape[0]) / 2)


@dataclass(frozen=True, eq=False)
class TrigonometricFeatures:
    """φ(x) = M^{−1/2} e^{‖x‖²/2} [sin W x, cos W x] (eq. 5): unbiased too, but their products may be negative.

    They are here to be compared with; no memory takes them, because a denominator of theirs may vanish.
    """

    rows: Tensor = field(repr=False)
    scale: float = 1.0
    signed: bool = field(default=True, init=False, repr=False)

    def __call__(self, x: Tensor) -> Tensor:
        x = x * self.scale
        along, half = x @ self.rows.to(x).mT, (x * x).sum(-1, keepdim=True) / 2
        return torch.cat([along.sin(), along.cos()], -1) * (half.exp() / math.sqrt(self.rows.shape[0]))
