"""Optimisers by name: the articles' rules, written out, on a loss of one number."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
import torch

from regard.errors import RegardError
from regard.translate.training.optimisers import OPTIMISERS, optimiser
from regard.translate.training.settings import Settings

GRADIENTS = [0.5, -2.0, 3.0, 0.25, -1.0]


def walk(name: str, numbers: Mapping[str, float], rate: float) -> float:
    """Where a weight that starts at 1 is after these gradients."""
    weight = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
    rule, full = optimiser(name, numbers)
    moves = rule.make([weight], rate, full)
    for gradient in GRADIENTS:
        weight.grad = torch.full_like(weight, gradient)
        moves.step()
    return float(weight.detach())


def test_adam_as_the_transformer_has_it() -> None:
    b1, b2, eps, rate = 0.9, 0.98, 1e-9, 0.01
    weight, m, v = 1.0, 0.0, 0.0
    for t, g in enumerate(GRADIENTS, 1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        weight -= rate * (m / (1 - b1**t)) / (math.sqrt(v / (1 - b2**t)) + eps)
    assert walk("adam", {"beta1": b1, "beta2": b2, "eps": eps}, rate) == pytest.approx(weight, rel=1e-12)


def test_adadelta_as_the_first_attention_was_trained() -> None:
    """Zeiler 2012, algorithm 1, with ρ = 0.95 and ε = 1e-6: the defaults, at a rate of 1."""
    weight, squares, moves = 1.0, 0.0, 0.0
    for g in GRADIENTS:
        squares = 0.95 * squares + 0.05 * g * g
        move = -math.sqrt(moves + 1e-6) / math.sqrt(squares + 1e-6) * g
        moves = 0.95 * moves + 0.05 * move * move
        weight += move
    assert Settings(optimiser="adadelta").peak == 1.0
    assert walk("adadelta", {}, 1.0) == pytest.approx(weight, rel=1e-12)


def test_plain_descent_as_sutskever_had_it() -> None:
    assert Settings(optimiser="sgd").peak == 0.7
    assert walk("sgd", {}, 0.7) == pytest.approx(1.0 - 0.7 * sum(GRADIENTS), rel=1e-12)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_each_goes_downhill(name: str) -> None:
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
    rule, numbers = optimiser(name, {})
    moves = rule.make([weight], min(rule.rate, 0.1), numbers)
    before = float(weight.detach().square().sum())
    for _ in range(11):
        moves.zero_grad()
        weight.square().sum().backward()
        moves.step()
    assert float(weight.detach().square().sum()) < before


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"optimiser": "adma"}, "optimiser: unknown name 'adma'; did you mean 'adam'"),
        ({"optimiser_numbers": {"rho": 0.9}}, "rho: adam has no such number; it has beta1, beta2, eps"),
        ({"optimiser_numbers": {"beta2": 1.0}}, r"beta2: found 1.0, wanted a number in \[0, 1\)"),
        ({"optimiser_numbers": {"eps": 0.0}}, r"eps: found 0.0, wanted a number in \(0, inf\)"),
    ],
)
def test_optimisers_that_cannot_be(given: dict[str, object], said: str) -> None:
    with pytest.raises(RegardError, match=said):
        Settings(**given)  # type: ignore[arg-type]
