"""Softmax: its gradient, temperature and sink."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import regard
from regard.normalize import Softmax
from tests.normalize.rows import F64, jacobian


def test_the_softmax_jacobian_is_diag_w_less_w_wt_and_never_stretches_beyond_a_half() -> None:
    largest = 0.0
    for _ in range(100):
        s = 2 * torch.randn(5, dtype=F64)
        w = torch.exp(s) / torch.exp(s).sum()
        j = jacobian(Softmax(), s)
        assert (j - (torch.diag(w) - torch.outer(w, w))).abs().max() < 1e-12
        largest = max(largest, torch.linalg.matrix_norm(j, 2).item())
    assert largest <= 0.5 + 1e-12
    half = torch.linalg.matrix_norm(jacobian(Softmax(), torch.zeros(2, dtype=F64)), 2)
    assert half.item() == pytest.approx(0.5, abs=1e-12)


def test_a_falling_temperature_shares_the_weight_among_ties_and_does_not_pick_one() -> None:
    w = Softmax(1e-4)(torch.tensor([1.0, 1.0, 0.5], dtype=F64))
    assert w.tolist() == pytest.approx([0.5, 0.5, 0.0])


@pytest.mark.parametrize(("dtype", "under", "over"), [(torch.float32, 100.0, 105.0), (F64, 740.0, 747.0)])
def test_a_softmax_weight_does_become_exactly_0_in_floating_point(
    dtype: torch.dtype, under: float, over: float
) -> None:
    assert Softmax()(torch.tensor([0.0, -under], dtype=dtype))[1] > 0
    assert Softmax()(torch.tensor([0.0, -over], dtype=dtype))[1] == 0


def test_large_scores_do_not_overflow_because_the_maximum_is_taken_off() -> None:
    assert torch.exp(torch.tensor(89.0)).isinf()
    w = Softmax()(torch.tensor([1000.0, 999.0]))
    assert w.tolist() == pytest.approx([0.7310586, 0.2689414])
    assert Softmax()(torch.tensor([-1000.0, -1001.0])).tolist() == pytest.approx([0.7310586, 0.2689414])


def test_entropy_and_its_gradient_are_those_of_the_formula() -> None:
    q, k = torch.randn(1, 5, dtype=F64, requires_grad=True), torch.eye(5, dtype=F64)
    for engine in ("reference", "sdpa"):
        r = regard.read(q, k, k, score="dot", engine=engine, telemetry="entropy")
        assert r.entropy is not None
        (gradient,) = torch.autograd.grad(r.entropy.sum(), q)
        w = torch.softmax(q.detach(), -1)
        entropy = -(w * w.log()).sum()
        assert (gradient + w * (w.log() + entropy)).abs().max() < 1e-9
        even = regard.read(torch.zeros_like(k), k, k, score="dot", engine=engine, telemetry="entropy")
        assert even.entropy is not None
        assert (even.entropy - math.log(5)).abs().max() < 1e-12
        assert (even.evenness - 1).abs().max() < 1e-12


def test_a_sink_takes_what_the_keys_do_not_want() -> None:
    s = torch.tensor([1.0, 2.0, 0.0], dtype=F64)
    w = Softmax(sink=0.0)(s)
    assert (w - torch.exp(s) / (1 + torch.exp(s).sum())).abs().max() < 1e-12
    assert Softmax(sink=50.0)(s).sum() < 1e-15
    assert (Softmax(sink=-50.0)(s) - Softmax()(s)).abs().max() < 1e-12
    extra = torch.softmax(torch.cat([s, torch.zeros(1, dtype=F64)]), -1)  # one more key, whose value is 0
    assert (w - extra[:3]).abs().max() < 1e-12


def test_a_learnt_sink_is_a_parameter_with_the_right_gradient() -> None:
    part = Softmax(sink=nn.Parameter(torch.tensor([0.3, -0.4], dtype=F64)))
    assert [name for name, _ in part.named_parameters()] == ["sink"]
    s = torch.randn(2, 3, 4, dtype=F64)
    w = part(s)
    assert isinstance(part.sink, Tensor)
    (gradient,) = torch.autograd.grad(w.sum(), part.sink)
    kept = w.sum(-1)
    assert (gradient + (kept * (1 - kept)).sum(-1)).abs().max() < 1e-12
