"""Hardmax and Gumbel-softmax: one key, or a draw of one."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import regard
from regard.normalize import Annealed, GumbelSoftmax, Hardmax
from tests.normalize.rows import F64, INF, TOY


def test_hardmax_is_exactly_one_hot_and_takes_the_first_of_equals() -> None:
    s = torch.randn(20_000, 6)
    w = Hardmax()(s)
    assert ((w == 0) | (w == 1)).all()
    assert torch.equal(w.argmax(-1), s.argmax(-1))
    assert Hardmax()(torch.tensor([1.0, 3.0, 3.0, 3.0])).tolist() == [0, 1, 0, 0]


def test_hardmax_reads_one_value_whose_gradient_is_the_identity() -> None:
    q, k = torch.randn(1, 5, dtype=F64), torch.randn(7, 5, dtype=F64)
    v = torch.randn(7, 3, dtype=F64, requires_grad=True)
    out = regard.attend(q, k, v, normalize="hardmax")
    chosen = int((q @ k.T).argmax())
    assert torch.equal(out[0], v[chosen])
    (gradient,) = torch.autograd.grad(out.sum(), v)
    assert torch.equal(gradient, nn.functional.one_hot(torch.tensor(chosen), 7).to(F64)[:, None].expand(7, 3))


def test_a_plain_argmax_moves_nothing_and_the_straight_through_gradient_is_the_softmaxs() -> None:
    s = torch.randn(7, dtype=F64, requires_grad=True)
    v = torch.randn(7, dtype=F64)
    base = Hardmax()(s) @ v
    for j in range(7):  # a small step of any score leaves the read where it was: the true gradient is 0
        assert Hardmax()(s + 1e-6 * nn.functional.one_hot(torch.tensor(j), 7)) @ v == base
    (through,) = torch.autograd.grad(base, s)
    (soft,) = torch.autograd.grad(torch.softmax(s, -1) @ v, s)
    assert (through - soft).abs().max() < 1e-12


@pytest.mark.parametrize("temperature", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_a_key_wins_as_often_as_its_softmax_weight_at_any_temperature(temperature: float, seed: int) -> None:
    n = 100_000
    part = GumbelSoftmax(temperature, generator=torch.Generator().manual_seed(seed))
    wins = part(TOY.float().expand(n, 4)).argmax(-1).bincount(minlength=4).double() / n
    p = torch.softmax(TOY, -1)
    z = (wins - p) / (p * (1 - p) / n).sqrt()
    assert z.abs().max() < 4.5


def test_the_mean_of_the_soft_draws_is_the_softmax_only_as_the_temperature_falls() -> None:
    def mean(temperature: float) -> list[float]:
        part = GumbelSoftmax(temperature, generator=torch.Generator().manual_seed(1))
        found: list[float] = part(TOY.float().expand(100_000, 4)).mean(0).tolist()
        return found

    assert mean(1.0) == pytest.approx([0.400, 0.287, 0.201, 0.112], abs=0.005)
    assert mean(0.02) == pytest.approx(torch.softmax(TOY, -1).tolist(), abs=0.006)


def test_draws_harden_as_the_temperature_falls() -> None:
    found = []
    for temperature in (5.0, 1.0, 0.5, 0.1):
        w = GumbelSoftmax(temperature)(TOY.expand(20_000, 4))
        found.append(-torch.xlogy(w, w).sum(-1).mean().item())
    assert found == pytest.approx([1.35, 0.91, 0.55, 0.11], abs=0.03)


def test_bias_falls_and_variance_rises_as_the_temperature_falls() -> None:
    value = torch.tensor([0.0, 3.0, -2.0, 5.0], dtype=F64)
    logits = TOY.clone()
    p = torch.softmax(logits, -1)
    exact = p * (value**2 - (p * value**2).sum())  # of E f(c)², by enumeration
    for seed in range(3):
        biases, spreads = [], []
        for temperature in (2.0, 0.5, 0.1):
            part = GumbelSoftmax(temperature, generator=torch.Generator().manual_seed(seed))
            s = logits.expand(60_000, 4).clone().requires_grad_()
            (gradient,) = torch.autograd.grad((part(s) @ value).square().sum(), s)
            biases.append((gradient.mean(0) - exact).norm().item())
            spreads.append(gradient.std(0).norm().item())
        assert biases[0] > biases[1] > biases[2]
        assert spreads[0] < spreads[1] < spreads[2]


def test_a_hard_draw_is_one_key_and_lets_the_soft_gradient_through() -> None:
    s = torch.randn(500, 6, dtype=F64, requires_grad=True)
    w = GumbelSoftmax(0.5, hard=True)(s)
    assert ((w == 0) | (w == 1)).all()
    (gradient,) = torch.autograd.grad((w * torch.randn(500, 6)).sum(), s)
    assert gradient.abs().sum() > 0
    assert gradient.sum(-1).abs().max() < 1e-12


def test_a_generator_repeats_a_run_and_without_one_draws_differ() -> None:
    s = torch.randn(5, 7)

    def run(seed: int) -> Tensor:
        part = GumbelSoftmax(0.5, generator=torch.Generator().manual_seed(seed))
        return torch.stack([part(s), part(s)])

    assert torch.equal(run(1), run(1))
    assert not torch.equal(run(1), run(2))
    assert not torch.equal(run(1)[0], run(1)[1])
    free = GumbelSoftmax(0.5)
    assert not torch.equal(free(s), free(s))


def test_evaluation_draws_nothing_and_takes_the_likeliest_key() -> None:
    part = GumbelSoftmax(0.5).eval()
    s = torch.randn(50, 7)
    assert torch.equal(part(s), part(s))
    assert torch.equal(part(s), Hardmax()(s))
    assert part.step == 0


def test_noise_never_revives_a_hidden_key() -> None:
    s = torch.tensor([0.0, -INF, 0.0]).expand(10_000, 3)
    w = GumbelSoftmax(0.5)(s)
    assert (w[:, 1] == 0).all()
    assert w.isfinite().all()


def test_an_annealed_temperature_falls_with_the_steps_of_training_to_its_floor() -> None:
    schedule = Annealed(rate=1e-4, floor=0.5)
    assert [schedule(step) for step in (0, 1000, 5000)] == pytest.approx([1.0, math.exp(-0.1), math.exp(-0.5)])
    assert schedule(10**6) == 0.5
    part = GumbelSoftmax(Annealed(rate=0.5, floor=0.1), generator=torch.Generator().manual_seed(0))
    s = TOY.float().expand(5000, 4)
    entropies = []
    for _ in range(4):
        w = part(s)
        entropies.append(-torch.xlogy(w, w).sum(-1).mean().item())
    assert entropies == sorted(entropies, reverse=True)
    assert part.step == 4
