"""Normalisers that give most keys no weight at all: sparsemax and the α-entmax between it and softmax."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.normalize.base import Normalizer, prepared, top_of
from regard.normalize.solved import solved, solves


class Entmax(Normalizer):
    """w = argmax_p p·s + H_α(p) over the simplex: w = [(α−1)s − t]₊^{1/(α−1)} (Peters et al. 2019).

    Some weights are exactly 0. α → 1 is softmax, α = 2 is sparsemax; α = 1.5 and 2 are solved exactly by sorting, any
    other α > 1 by bisection to the last bit; a kernel takes large work in single precision. α may be a tensor that
    learns (one number, or one a head), with its gradient (Correia et al. 2019).

    >>> import torch
    >>> Entmax(1.5)(torch.tensor([1.0, 0.5, 0.0, -0.8]))
    tensor([0.6242, 0.2917, 0.0841, 0.0000])
    """

    no_merge = "its threshold depends on every key of the row at once"

    def __init__(self, alpha: float | Tensor = 1.5) -> None:
        super().__init__()
        found = alpha.detach().min().item() if isinstance(alpha, Tensor) else alpha
        if not found > 1:
            raise RegardError(f"Entmax: alpha is {found}, wanted above 1 (1 itself is Softmax(), 2 is Sparsemax())")
        self.alpha = alpha  # a Parameter registers itself here

    def forward(self, scores: Tensor) -> Tensor:
        if solves(scores, self.alpha):
            return solved(scores, self.alpha)
        s, visible, dtype = prepared(scores)
        alpha: float | Tensor = self.alpha
        if isinstance(alpha, Tensor):
            alpha = alpha.to(s.dtype)
            alpha = alpha.view(-1, 1, 1) if alpha.dim() else alpha
        # Nothing further than 1 below the top (in units of (α−1)s) has any weight, so what is hidden may stand there;
        # a row with nothing else needs a solution all the same, and has one at 0.
        below = torch.where(visible, s - top_of(s), 0.0)
        hidden_at = torch.where(visible.any(-1, keepdim=True), -1.0, 0.0).to(s.dtype)
        x = torch.where(visible, ((alpha - 1) * below).clamp(min=-1.0), hidden_at)
        power = 1 / (alpha - 1)
        with torch.no_grad():
            if not isinstance(alpha, Tensor) and alpha in (1.5, 2.0):
                threshold = (_threshold_sparsemax if alpha == 2.0 else _threshold_entmax15)(x)
            else:
                threshold = _threshold_bisect(x, power)
        # One Newton step on Σ w(t) = 1 from the solution leaves it where it is, and its derivative is that of the
        # solution (the implicit function theorem), in the scores and in α alike.
        p = _power(x - threshold, power)
        slope = (power * _power(x - threshold, power - 1)).sum(-1, keepdim=True).detach()
        threshold = threshold + (p.sum(-1, keepdim=True) - 1) / slope
        return (_power(x - threshold, power) * visible).to(dtype)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"


class Sparsemax(Entmax):
    """w = argmin_{p in simplex} ‖p − s‖², the Euclidean projection (Martins & Astudillo 2016).

    >>> import torch
    >>> Sparsemax()(torch.tensor([1.0, 0.5, 0.0, -0.8]))
    tensor([0.7500, 0.2500, 0.0000, 0.0000])
    """

    def __init__(self) -> None:
        super().__init__(2.0)


def _power(x: Tensor, power: float | Tensor) -> Tensor:
    """[x]₊^power, with gradient 0 (not inf · 0) where x ≤ 0."""
    inside = x > 0
    return torch.where(inside, torch.where(inside, x, 1.0) ** power, 0.0)


def _threshold_sparsemax(x: Tensor) -> Tensor:
    """t with Σ [x − t]₊ = 1: among the sorted x, the last one that still lies above the threshold it would give."""
    ordered = x.sort(-1, descending=True).values
    count = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=x.dtype)
    thresholds = (ordered.cumsum(-1) - 1) / count
    support = (ordered > thresholds).sum(-1, keepdim=True)
    return thresholds.gather(-1, (support - 1).clamp(min=0))


def _threshold_entmax15(x: Tensor) -> Tensor:
    """t with Σ [x − t]₊² = 1: for each prefix of the sorted x the smaller root of a quadratic."""
    ordered = x.sort(-1, descending=True).values
    count = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=x.dtype)
    mean = ordered.cumsum(-1) / count
    spread = (ordered.square().cumsum(-1) / count - mean.square()).clamp(min=0)
    thresholds = mean - (1 / count - spread).clamp(min=0).sqrt()
    support = (ordered > thresholds).sum(-1, keepdim=True)
    return thresholds.gather(-1, (support - 1).clamp(min=0))


def _threshold_bisect(x: Tensor, power: float | Tensor) -> Tensor:
    """t with Σ [x − t]₊^power = 1, by halving [max − 1, max] until the interval is one unit in the last place."""
    low = torch.full_like(x[..., :1], -1.0)
    width = 1.0
    for _ in range(54 if x.dtype == torch.float64 else 25):
        width /= 2
        low = torch.where(_power(x - (low + width), power).sum(-1, keepdim=True) >= 1, low + width, low)
    return low
