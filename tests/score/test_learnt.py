"""Scores that learn: general, concat, additive, and any module."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import regard
from regard import RegardError, position, score
from regard.grid import Grid
from tests.score.given import F64, close, randn, weights


def test_general_is_a_dot_product_after_projecting_either_side() -> None:
    part = score.General(11, 13).double()
    q, k = randn(3, 11), randn(7, 13)
    close(part(q, k), score.Dot()(q @ part.weight, k))
    close(part(q, k), score.Dot()(q, k @ part.weight.T))


def test_a_second_full_projection_does_not_enlarge_what_general_can_say() -> None:
    query, key = randn(11, 11), randn(11, 11)
    q, k = randn(3, 11), randn(7, 11)
    part = score.General(11, 11).double()
    with torch.no_grad():
        part.weight.copy_(query.T @ key)
    close(part(q, k), (q @ query.T) @ (k @ key.T).T)


def test_concat_is_additive_with_the_two_projections_side_by_side() -> None:
    additive, concat = score.Additive(11, 13, width=5).double(), score.Concat(11, 13, width=5).double()
    with torch.no_grad():
        additive.query.weight.normal_()
        additive.key.weight.normal_()
        additive.energy.normal_()
        concat.weight.copy_(torch.cat([additive.query.weight, additive.key.weight], 1))
        concat.energy.copy_(additive.energy)
    q, k = randn(2, 3, 11), randn(2, 7, 13)
    assert torch.equal(concat(q, k), additive(q, k))
    pairs = torch.cat([q.unsqueeze(2).expand(2, 3, 7, 11), k.unsqueeze(1).expand(2, 3, 7, 13)], -1)
    close(concat(q, k), torch.tanh(pairs @ concat.weight.T) @ concat.energy)


def test_without_its_tanh_a_concat_score_would_give_every_query_the_same_weights() -> None:
    part = score.Concat(11, 13, width=5).double()
    q, k = randn(3, 11), 3 * randn(7, 13)
    linear = (part.queries(q).unsqueeze(-2) + part.keys(k).unsqueeze(-3)) @ part.energy
    w = torch.softmax(linear, -1)
    assert (w - w[:1]).abs().max() < 1e-15  # the query is a constant along the row: it cancels
    bent = weights(q, k, part)
    assert (bent - bent[:1]).abs().max() > 1e-2  # which is why tanh is there


def test_an_additive_score_is_no_larger_than_the_sum_of_its_energies() -> None:
    part = score.Additive(11, 13, width=5).double()
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.normal_(0, 10)
    assert part(randn(30, 11), randn(70, 13)).abs().max() <= part.energy.abs().sum() + 1e-12


@pytest.mark.parametrize("engine", ["reference", "tiled"])
def test_an_additive_score_with_a_bias_has_it_beside_the_query(engine: str) -> None:
    """vᵀ tanh(W q + b + U k): as a query with a column of ones more, value and gradients, on a kernel's path too."""
    part, wider = score.Additive(11, 13, width=5, bias=True).double(), score.Additive(12, 13, width=5).double()
    assert (part.query.bias == 0).all()
    assert "query.bias" not in wider.state_dict()
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.normal_()
        wider.query.weight.copy_(torch.cat([part.query.weight, part.query.bias[:, None]], 1))
        wider.key.weight.copy_(part.key.weight)
        wider.energy.copy_(part.energy)
    q, k, v = randn(1, 2, 3, 11), randn(1, 2, 7, 13), randn(1, 2, 7, 17)
    ones = torch.cat([q, torch.ones(1, 2, 3, 1, dtype=F64)], -1)
    output, wanted = (regard.attend(x, k, v, score=s, engine=engine) for x, s in ((q, part), (ones, wider)))
    close(output, wanted)
    for found in (output, wanted):
        found.square().sum().backward()
    assert wider.query.weight.grad is not None
    assert part.query.bias.grad is not None
    assert part.query.weight.grad is not None
    close(part.query.bias.grad, wider.query.weight.grad[:, -1])
    close(part.query.weight.grad, wider.query.weight.grad[:, :-1])


@pytest.mark.parametrize("engine", ["reference", "tiled"])
def test_additive_scores_of_thousands_do_not_overflow(engine: str) -> None:
    """Code has been published that takes exp of these scores as they are."""
    part = score.Additive(11, 13, width=5).double()
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.normal_()
        part.energy.copy_(torch.tensor([3e3, -4e3, 5e3, 2e3, -1e3]))
    q, k, v = randn(1, 2, 3, 11), randn(1, 2, 7, 13), randn(1, 2, 7, 17)
    s = part(q, k)
    assert s.exp().isinf().any()
    assert (s.exp() == 0).any()
    r = regard.read(q, k, v, score=part, engine=engine, telemetry=False)
    top = s.amax(-1, keepdim=True)
    e = (s - top).exp()
    close(r.output, (e / e.sum(-1, keepdim=True)) @ v, 1e-8)
    close(r.lse, (top + e.sum(-1, keepdim=True).log()).squeeze(-1), 1e-8)


def test_an_untrained_additive_score_looks_everywhere_alike() -> None:
    part = score.Additive(512, 512, width=64)
    assert (part.energy == 0).all()
    assert part.query.weight.std().item() == pytest.approx(0.001, rel=0.05)
    q, k = torch.randn(3, 512), torch.randn(7, 512)
    r = regard.read(q, k, k, score=part)
    assert r.evenness.min().item() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    "part",
    [
        score.Additive(11, 13, width=5),
        score.Concat(11, 13, width=5),
        score.General(11, 13),
        score.Cosine(2.0),
        position.Rotary(score.ScaledDot(), anchor="end"),
        score.ScaledDot() + position.ALiBi(1, anchor="end"),
        score.Dot().capped(3.0),
    ],
    ids=lambda part: type(part).__name__,
)
def test_keys_that_are_turned_once_can_be_read_many_times(part: score.Score) -> None:
    part = part.double()
    wide = isinstance(part, score.Additive | score.Concat | score.General)
    even = isinstance(part, position.Rotary)
    q, k, v = randn(1, 1, 3, 11 + even), randn(1, 1, 7, 13 if wide else 11 + even), randn(1, 1, 7, 5)
    grid = Grid.of(1, 1, 3, 7)
    kept = part.keys(k, grid)
    close(regard.attend(q, kept, v, score=part.keyed), regard.attend(q, k, v, score=part))
    assert [id(p) for p in part.keyed.parameters()] == [id(p) for p in part.parameters()]


def test_a_learned_score_takes_any_module_and_says_when_it_gives_the_wrong_shape() -> None:
    q, k = torch.randn(2, 3, 11), torch.randn(2, 7, 13)
    assert score.Learned(nn.Bilinear(11, 13, 1))(q, k).shape == (2, 3, 7)
    with pytest.raises(RegardError, match=r"Learned: the module gave \(2, 3, 7, 4\) .*\(2, 3, 7\).*one number a pair"):
        score.Learned(nn.Bilinear(11, 13, 4))(q, k)


def test_a_perceptron_learns_a_distance_that_no_bilinear_score_can() -> None:
    torch.manual_seed(0)
    q, k = torch.rand(1, 64, 1) * 4 - 2, torch.rand(1, 64, 1) * 4 - 2
    target = -(q - k.transpose(1, 2)).abs()
    left = {}
    for name, part in (("mlp", score.Learned.mlp(1, 1, 16)), ("bilinear", score.General(1, 1))):
        optimiser = torch.optim.Adam(part.parameters(), lr=0.02)
        loss = torch.tensor(math.inf)
        for _ in range(150):
            optimiser.zero_grad()
            s = part(q, k)
            loss = ((s - s.mean(-1, keepdim=True)) - (target - target.mean(-1, keepdim=True))).square().mean()
            torch.autograd.backward(loss)
            optimiser.step()
        left[name] = loss.item()
    assert left["mlp"] < 0.5 * left["bilinear"]
