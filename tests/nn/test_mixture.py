"""The density of a pen: the paper with plain loops, that it sums to 1, adversarial numbers, samples and bias."""

from __future__ import annotations

from math import exp, log, pi, sqrt, tanh

import pytest
import torch
from torch import Tensor

import regard
from regard.nn import PenMixture

M = 3
F64 = torch.float64


def by_loops(outputs: list[float], point: list[float]) -> float:
    """−log p with numbers of Python: Graves 2013, section 4.1, e by its other sign."""
    end, rest = outputs[0], outputs[1:]
    weights = [exp(x) for x in rest[:M]]
    means, scales, tilts = rest[M : 3 * M], rest[3 * M : 5 * M], rest[5 * M :]
    density = 0.0
    for j in range(M):
        rho, one, two = tanh(tilts[j]), exp(scales[2 * j]), exp(scales[2 * j + 1])
        a, b = (point[0] - means[2 * j]) / one, (point[1] - means[2 * j + 1]) / two
        z = a * a + b * b - 2 * rho * a * b
        normal = exp(-z / (2 * (1 - rho * rho))) / (2 * pi * one * two * sqrt(1 - rho * rho))
        density += weights[j] / sum(weights) * normal
    e = 1 / (1 + exp(-end))
    return -log(density) - log(e if point[2] == 1 else 1 - e)


def test_the_density_is_the_papers() -> None:
    outputs, points = torch.randn(5, 6 * M + 1, dtype=F64), torch.randn(5, 3, dtype=F64)
    points[:, 2] = torch.tensor([0.0, 1, 1, 0, 1])
    wanted = [-by_loops(y, x) for y, x in zip(outputs.tolist(), points.tolist(), strict=True)]
    found = PenMixture.of(outputs).log_density(points)
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=F64), rtol=0, atol=1e-10)
    given = [outputs.requires_grad_(), points[:, :2].clone().requires_grad_()]
    assert torch.autograd.gradcheck(lambda y, x: PenMixture.of(y).log_density(torch.cat([x, points[:, 2:]], -1)), given)


@pytest.mark.parametrize("tilt", [0.0, 1.5, -3.0])
def test_the_density_sums_to_1_over_the_plane_and_both_ends(tilt: float) -> None:
    outputs = torch.randn(6 * M + 1, dtype=F64, generator=torch.Generator().manual_seed(5))
    outputs[3 * M + 1 : 5 * M + 1] *= 0.3  # widths of about 1, so that a grid of this size holds nearly everything
    outputs[5 * M + 1 :] = tilt
    pen = PenMixture.of(outputs)
    side = torch.linspace(-10, 10, 601, dtype=F64)
    x, y = torch.meshgrid(side, side, indexing="ij")
    whole = 0.0
    for end in (0.0, 1.0):
        points = torch.stack([x, y, torch.full_like(x, end)], -1)
        whole += float(pen.log_density(points).exp().sum() * (side[1] - side[0]) ** 2)
    assert abs(whole - 1) < 1e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("size", [20.0, 90.0, 1e4])
def test_the_loss_is_finite_whatever_a_network_says(size: float, dtype: torch.dtype) -> None:
    """Correlations that round to 1, widths that round to 0, all weight on one component, points far away."""
    generator = torch.Generator().manual_seed(1)
    signs = torch.randint(0, 2, (64, 6 * M + 1), generator=generator) * 2.0 - 1
    outputs = (size * signs).to(dtype).requires_grad_()
    points = torch.cat([100 * torch.randn(64, 2, generator=generator), signs[:, :1].clamp(min=0)], -1)
    points[:8, :2] = 0
    for given in (points, outputs.detach().float()[:, 4:7] * torch.tensor([1, 1, 0.0])):  # the second at a mean exactly
        found = PenMixture.of(outputs).log_density(given)
        (gradient,) = torch.autograd.grad(found.sum(), outputs)
        assert bool(found.isfinite().all())
        assert bool(gradient.isfinite().all())


def test_a_tilt_near_1_loses_nothing_in_single_precision() -> None:
    outputs = torch.zeros(7, dtype=F64)
    outputs[6] = 6.0  # 1 − ρ² = 2.5e-5
    points = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.51, 0.0]], dtype=F64)
    wanted = PenMixture.of(outputs).log_density(points)
    found = PenMixture.of(outputs.float()).log_density(points.float())
    torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=0)


def drawn(pen: PenMixture, count: int = 20_000) -> Tensor:
    many = PenMixture(*(part.expand(count, *part.shape) for part in pen))
    return many.sample(torch.Generator().manual_seed(3))


def test_samples_have_the_moments_of_the_density() -> None:
    outputs = torch.tensor([0.7, 0.0, 1.0, -2.0, 1.0, 3.0, 0.5, -0.5, 0.1, 0.2, -1.0, 0.8, -0.4], dtype=F64)
    pen = PenMixture.of(outputs)
    points = drawn(pen)
    share = pen.logits.softmax(-1)
    mean = (share[:, None] * pen.means).sum(0)
    torch.testing.assert_close(points[:, :2].mean(0), mean, rtol=0, atol=0.06)
    sigma, rho = pen.scales.exp(), pen.tilts.tanh()
    cross = (share * (rho * sigma.prod(-1) + pen.means.prod(-1))).sum() - mean.prod()
    torch.testing.assert_close(points[:, :2].T.cov()[0, 1], cross, rtol=0, atol=0.15)
    second = (share[:, None] * (sigma**2 + pen.means**2)).sum(0) - mean**2
    torch.testing.assert_close(points[:, :2].var(0), second, rtol=0.05, atol=0)
    assert abs(points[:, 2].mean() - torch.tensor(0.7).sigmoid()) < 0.02


@pytest.mark.parametrize("tilt", [1.0, -1.0])
def test_samples_lean_as_the_density_does(tilt: float) -> None:
    points = drawn(PenMixture.of(torch.tensor([0.0, 0.0, 2.0, -1.0, 0.5, -1.0, tilt])))[:, :2]
    assert float(points.T.corrcoef()[0, 1]) == pytest.approx(tanh(tilt), abs=0.02)
    torch.testing.assert_close(points.std(0), torch.tensor([0.5, -1.0]).exp(), rtol=0.03, atol=0)


def test_bias_is_the_papers() -> None:
    pen = PenMixture.of(torch.randn(6 * M + 1, dtype=F64))
    neat = pen.biased(1.5)
    torch.testing.assert_close(neat.scales.exp(), pen.scales.exp() * exp(-1.5))
    torch.testing.assert_close(neat.logits.softmax(-1), (2.5 * pen.logits).softmax(-1))
    assert all(torch.equal(a, b) for a, b in zip(pen.biased(0), pen, strict=True))
    still = drawn(pen.biased(40.0), 200)[:, :2]  # nothing is left but the likeliest component's mean, to e^−10
    torch.testing.assert_close(still, pen.means[pen.logits.argmax()].expand_as(still), rtol=0, atol=1e-3)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(regard.RegardError, match=r"outputs are \(2, 18\), wanted \(…, 6M \+ 1\)"):
        PenMixture.of(torch.zeros(2, 18))
    with pytest.raises(regard.RegardError, match=r"points are \(2,\)"):
        PenMixture.of(torch.zeros(7)).log_density(torch.zeros(2))
    for bias in (-1.0, float("nan"), float("inf")):
        with pytest.raises(regard.RegardError, match="bias is"):
            PenMixture.of(torch.zeros(7)).biased(bias)
