"""Sparsemax and α-entmax: known rows, the optimum, gradients, a learnt α."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from regard.normalize import Entmax, Normalizer, Softmax, Sparsemax
from tests.normalize.rows import ALPHAS, F64, INF, TOY, jacobian


def test_known_rows_of_sparsemax_and_entmax() -> None:
    assert Sparsemax()(TOY).tolist() == pytest.approx([0.75, 0.25, 0.0, 0.0], abs=1e-12)
    assert Entmax(1.5)(TOY).tolist() == pytest.approx([0.62420, 0.29167, 0.08414, 0.0], abs=1e-5)
    assert Entmax(1.5)(TOY)[3] == 0


@pytest.mark.parametrize(("alpha", "margin"), [(1.25, 4.0), (1.5, 2.0), (2.0, 1.0), (3.0, 0.5)])
def test_a_winner_takes_all_exactly_from_its_margin_on(alpha: float, margin: float) -> None:
    part = Entmax(alpha)
    assert part(torch.tensor([margin + 1e-6, 0.0], dtype=F64)).tolist() == [1.0, 0.0]
    assert part(torch.tensor([margin * 0.9, 0.0], dtype=F64))[1] > 0


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_conditions_of_the_optimum_hold_on_random_rows_with_ties_and_hidden_keys(alpha: float) -> None:
    s = 2 * torch.randn(1000, 11, dtype=F64)
    s[:300] = (2 * s[:300]).round() / 2  # ties
    s[torch.rand(1000, 11) < 0.2] = -INF
    s[:, 4] = torch.randn(1000, dtype=F64)
    p = Entmax(alpha)(s)
    assert (p.sum(-1) - 1).abs().max() < 1e-10
    # Stationarity: s − p^{α−1}/(α−1) is one number t on the support, and no hidden or zero key lies above it.
    level = s - p ** (alpha - 1) / (alpha - 1)
    support = p > 0
    t = torch.where(support, level, 0.0).sum(-1, keepdim=True) / support.sum(-1, keepdim=True)
    # Where p is tiny its power is ill-conditioned: weigh the residual by p, as the objective does.
    assert ((level - t).abs() * p)[support].max() < 1e-10
    assert (torch.where(support, -INF, s) - t).max() < 1e-9


def test_sparsemax_is_the_nearest_point_of_the_simplex() -> None:
    s = torch.randn(200, 6, dtype=F64)
    p = Sparsemax()(s)
    for _ in range(50):
        other = torch.distributions.Dirichlet(torch.ones(6, dtype=F64) * 0.5).sample(torch.Size([200]))
        assert ((other - s).square().sum(-1) - (p - s).square().sum(-1)).min() > 0


@pytest.mark.parametrize("alpha", [1.3, 1.5, 2.0])
def test_entmax_maximises_the_score_with_its_own_entropy(alpha: float) -> None:
    def objective(p: Tensor, s: Tensor) -> Tensor:
        return (p * s).sum(-1) + (p - p**alpha).sum(-1) / (alpha * (alpha - 1))

    s = torch.randn(100, 6, dtype=F64)
    best = objective(Entmax(alpha)(s), s)
    for _ in range(50):
        other = torch.distributions.Dirichlet(torch.ones(6, dtype=F64) * 0.5).sample(torch.Size([100]))
        assert (objective(other, s) - best).max() < 1e-12


@pytest.mark.parametrize("alpha", [1.5, 2.0])
def test_sorting_and_bisection_are_two_ways_to_one_answer(alpha: float) -> None:
    s = 2 * torch.randn(300, 13, dtype=F64)
    exact, bisected = Entmax(alpha), Entmax(torch.tensor(alpha, dtype=F64))
    assert (exact(s) - bisected(s)).abs().max() < 1e-12
    single = s.float()
    assert (exact(single) - exact(s)).abs().max() < 2e-6


def test_alpha_close_to_1_is_softmax() -> None:
    assert (Entmax(1.0001)(TOY) - Softmax()(TOY)).abs().max() < 4.3e-5
    assert (Entmax(1.01)(TOY) - Softmax()(TOY)).abs().max() > 1e-4


@pytest.mark.parametrize("alpha", [1.25, 1.5, 1.7, 2.0])
def test_the_jacobian_of_entmax_lives_on_its_support(alpha: float) -> None:
    s = torch.randn(6, dtype=F64)
    p = Entmax(alpha)(s)
    slope = torch.where(p > 0, p ** (2 - alpha), 0.0)
    wanted = torch.diag(slope) - torch.outer(slope, slope) / slope.sum()
    assert (jacobian(Entmax(alpha), s) - wanted).abs().max() < 1e-8


def test_the_slope_of_sparsemax_jumps_where_that_of_entmax_goes_to_0() -> None:
    def slope(part: Normalizer, gap: float) -> float:
        return jacobian(part, torch.tensor([gap, 0.0], dtype=F64))[0, 0].item()

    assert slope(Sparsemax(), 0.999) == pytest.approx(0.5)
    assert slope(Sparsemax(), 1.001) == 0
    assert slope(Entmax(1.5), 1.9) == pytest.approx(0.0465, abs=2e-4)
    assert slope(Entmax(1.5), 1.999) == pytest.approx(0.0005, abs=1e-4)
    assert slope(Entmax(1.5), 2.001) == 0


@pytest.mark.parametrize("alpha", [1.2, 1.5, 1.7, 2.0, 2.5])
def test_the_gradient_in_alpha_is_that_of_differences_and_of_the_published_formula(alpha: float) -> None:
    # So near each other that several keys of a row have weight: a row that one key has taken has gradient 0.
    s, away = 0.3 * torch.randn(5, 7, dtype=F64), torch.randn(5, 7, dtype=F64)
    a = nn.Parameter(torch.tensor(alpha, dtype=F64))
    (gradient,) = torch.autograd.grad((Entmax(a)(s) * away).sum(), a)

    def at(value: float) -> Tensor:
        w: Tensor = Entmax(torch.tensor(value, dtype=F64))(s)
        return (w * away).sum()

    step = 1e-5
    assert gradient.item() == pytest.approx(((at(alpha + step) - at(alpha - step)) / (2 * step)).item(), rel=2e-4)
    p = Entmax(a)(s).detach()
    slope = torch.where(p > 0, p ** (2 - alpha), 0.0)
    share = slope / slope.sum(-1, keepdim=True)
    h = -torch.xlogy(p, p)
    published = (p - share) / (alpha - 1) ** 2 + (h - share * h.sum(-1, keepdim=True)) / (alpha - 1)
    assert gradient.item() == pytest.approx((published * away).sum().item(), rel=1e-8)
    flipped = (p - share) / (alpha - 1) ** 2 - (h - share * h.sum(-1, keepdim=True)) / (alpha - 1)
    assert abs(gradient.item() - (flipped * away).sum().item()) > 1e-3  # the other sign is another number


def test_alpha_learns_in_every_head_by_itself() -> None:
    a = nn.Parameter(torch.tensor([1.2, 1.5, 2.0], dtype=F64))
    s = torch.randn(2, 3, 5, 7, dtype=F64)
    s[..., 3] = -INF
    part = Entmax(a)
    assert list(part.parameters()) == [a]
    w = part(s)
    for h in range(3):
        assert (w[:, h] - Entmax(a[h].item())(s[:, h])).abs().max() < 1e-12
    (gradient,) = torch.autograd.grad(w.square().sum(), a)
    assert gradient.isfinite().all()
    assert (gradient > 0).all()  # a larger alpha is sharper


@pytest.mark.parametrize("build", [Sparsemax, lambda: Entmax(1.5), lambda: Entmax(1.3), lambda: Entmax(1.001)])
def test_a_very_long_row_is_still_a_distribution_in_single_precision(build: Callable[[], Normalizer]) -> None:
    w = build()(torch.randn(3, 20_000))
    assert (w.sum(-1) - 1).abs().max() < 1e-4
    equal = build()(torch.zeros(1, 4096))
    assert (equal - 1 / 4096).abs().max() < 1e-6
