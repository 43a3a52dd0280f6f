"""Where a pen goes next, as a density: a mixture of bivariate Gaussians, and whether the stroke ends (Graves 2013)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.errors import RegardError

__all__ = ["PenMixture"]

MOST = 10.0  # σ from e^−10 to e^10, 1 − ρ² from 8e-9 on: every square and its gradient stays a number of float32


class PenMixture(NamedTuple):
    """p(x, y, end) = Σ_j π_j N(x, y; μ_j, σ_j, ρ_j) · Bernoulli(end; e), of a network's numbers for any axes in front.

    π = softmax(logits), μ = means, σ = exp(scales), ρ = tanh(tilts), e = sigmoid(end). What is beyond ±10 in ``scales``
    or ``tilts`` counts as ±10 and has no gradient: a σ of e^−10, or a correlation of 1 − 4e-9, is a line and no pen any
    more. For all real outputs it is a density, and its logarithm and the gradients are finite: 1 − ρ² is taken from the
    tilt itself, and not from a ρ that was rounded to 1.

    Half precision is computed in float32.

    Source: Graves 2013, section 4.1 (where e = 1/(1 + e^ê), the other sign); bias: section 5.4.

    >>> pen = PenMixture.of(torch.zeros(13))  # two components, all numbers 0
    >>> pen.log_density(torch.tensor([0.0, 0.0, 1.0])).exp().item()  # 1/(2π) at the middle, and half of it for the end
    0.0795...
    """

    end: Tensor
    """ê (…)."""
    logits: Tensor
    """π̂ (…, M)."""
    means: Tensor
    """μ (…, M, 2)."""
    scales: Tensor
    """σ̂ = log σ (…, M, 2)."""
    tilts: Tensor
    """ρ̂ (…, M)."""

    @staticmethod
    def of(outputs: Tensor) -> PenMixture:
        """The mixture of a network's outputs (…, 6M + 1): ê, then π̂, μ (M pairs), σ̂ (M pairs), ρ̂."""
        M, left = divmod(outputs.shape[-1] - 1, 6)
        if left or M < 1:
            raise RegardError(f"PenMixture: outputs are {tuple(outputs.shape)}, wanted (…, 6M + 1) for M components")
        end, logits, means, scales, tilts = outputs.split([1, M, 2 * M, 2 * M, M], -1)
        pairs = (*outputs.shape[:-1], M, 2)
        return PenMixture(end.squeeze(-1), logits, means.reshape(pairs), scales.reshape(pairs), tilts)

    def log_density(self, points: Tensor) -> Tensor:
        """log p of points (…, 3): how far the pen went, across and up, and 1 where the stroke ended there, else 0."""
        if points.shape[-1] != 3 or not points.is_floating_point():
            raise RegardError(f"PenMixture: points are {tuple(points.shape)} of {points.dtype}, wanted numbers (…, 3)")
        end, logits, means, scales, tilts = self._kept()
        points = points.to(means.dtype)
        a, b = ((points[..., None, :2] - means) * (-scales).exp()).unbind(-1)
        free = _free(tilts)
        # Z / (1 − ρ²) as a sum of two squares: nothing cancels where ρ is near 1
        across = (a - tilts.tanh() * b) * (-0.5 * free).exp()
        each = -0.5 * (across.square() + b.square() + free) - scales.sum(-1) - math.log(2 * math.pi)
        drawn = (logits.log_softmax(-1) + each).logsumexp(-1)
        return drawn + F.logsigmoid(torch.where(points[..., 2] > 0.5, end, -end))

    def biased(self, bias: float) -> PenMixture:
        """A neater hand: σ̂ − b and π̂ (1 + b), b ≥ 0. 0 is as it was learnt; when b grows, the likeliest is left."""
        if not 0 <= bias < math.inf:
            raise RegardError(f"PenMixture: bias is {bias}, wanted a number of at least 0")
        return self._replace(scales=self.scales - bias, logits=self.logits * (1 + bias))

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """A point drawn from every mixture, (…, 3)."""
        end, logits, means, scales, tilts = self._kept()
        M = logits.shape[-1]
        which = torch.multinomial(logits.softmax(-1).reshape(-1, M), 1, generator=generator).view(end.shape)
        at = which.unsqueeze(-1)
        pair = at.unsqueeze(-1).expand(*at.shape, 2)
        mean, sigma = means.gather(-2, pair).squeeze(-2), scales.gather(-2, pair).squeeze(-2).exp()
        tilt = tilts.gather(-1, at).squeeze(-1)
        one, two = torch.randn(2, *end.shape, dtype=end.dtype, device=end.device, generator=generator)
        up = tilt.tanh() * one + (0.5 * _free(tilt)).exp() * two
        pen = torch.rand(end.shape, dtype=end.dtype, device=end.device, generator=generator) < end.sigmoid()
        return torch.cat([mean + sigma * torch.stack([one, up], -1), pen.to(end.dtype).unsqueeze(-1)], -1)

    def _kept(self) -> PenMixture:
        """In float32 at least, scales and tilts within their bounds."""
        end, logits, means, scales, tilts = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in self)
        return PenMixture(end, logits, means, scales.clamp(-MOST, MOST), tilts.clamp(-MOST, MOST))


def _free(tilts: Tensor) -> Tensor:
    """log(1 − tanh²) = 2 (log 2 − |x| − log(1 + e^(−2|x|)))."""
    far = tilts.abs()
    return 2 * (math.log(2) - far - torch.log1p((-2 * far).exp()))
