"""Top-k: known rows, ties, its ends, its gradient, its kernel."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from regard import RegardError
from regard.normalize import Hardmax, Softmax, TopK, solved
from tests.normalize.rows import F64, INF, TOY, jacobian


def test_known_rows_of_top_k_and_the_form_that_leaks() -> None:
    s = torch.tensor([2.0, 0.0, -1.0, -3.0], dtype=F64)
    assert TopK(2)(s).tolist() == pytest.approx([0.8808, 0.1192, 0.0, 0.0], abs=1e-4)
    assert (TopK(2)(s)[2:] == 0).all()
    leaks = Softmax()(torch.where(s >= 0, s, 0.0))  # what falls out is scored 0 and not −∞
    assert leaks.tolist() == pytest.approx([0.7112, 0.0963, 0.0963, 0.0963], abs=1e-4)
    assert TopK(1)(TOY).tolist() == [1, 0, 0, 0]


def test_all_keys_that_tie_at_the_threshold_stay_in_wherever_they_stand() -> None:
    s = torch.tensor([1.0, 3.0, 1.0, 0.0, 1.0, -INF], dtype=F64)
    w = TopK(2)(s)
    assert (w > 0).tolist() == [True, True, True, False, True, False]
    assert w[1].item() == pytest.approx(1 / (1 + 3 * math.exp(-2)))
    for order in (torch.randperm(6) for _ in range(20)):
        assert (TopK(2)(s[order]) - w[order]).abs().max() < 1e-15
    assert TopK(3)(torch.zeros(5)).tolist() == pytest.approx([0.2] * 5)


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
def test_the_ends_of_k_are_hardmax_and_softmax(size: float) -> None:
    s = size * torch.randn(50, 9, dtype=F64)
    s[7:9, 3:] = -INF
    s[9] = -INF
    assert torch.equal(TopK(1)(s), Hardmax()(s))
    for k in (9, 10, 10**9):
        assert torch.equal(TopK(k)(s), Softmax()(s))
    assert torch.equal(TopK(3)(s)[7:10], Softmax()(s)[7:10])  # no more than three may be seen
    w = TopK(4)(s)
    assert ((w[:7] > 0).sum(-1) <= 4).all()
    assert (w.sum(-1)[9], w.sum(-1)[:9].min()) == (0, pytest.approx(1))


@pytest.mark.parametrize("wrong", [math.nan, INF])
def test_top_k_of_what_is_no_number_is_none_as_the_softmax_says(wrong: float) -> None:
    s = torch.randn(3, 9, dtype=F64)
    s[1, 4] = wrong
    for k in (1, 3, 9):
        assert TopK(k)(s).isnan().all(-1).tolist() == Softmax()(s).isnan().all(-1).tolist() == [False, True, False]


def test_the_gradient_of_top_k_is_the_softmaxs_over_the_keys_that_stay() -> None:
    s = torch.randn(8, dtype=F64)
    w = TopK(3)(s)
    assert (jacobian(TopK(3), s) - (torch.diag(w) - torch.outer(w, w))).abs().max() < 1e-15
    rows = torch.randn(4, 8, dtype=F64)
    rows[1, 2:] = rows[2] = -INF
    visible = (rows > -INF).nonzero(as_tuple=True)

    def function(x: Tensor) -> Tensor:
        found: Tensor = TopK(3)(torch.full_like(rows, -INF).index_put(visible, x))
        return found

    leaf = rows[visible].requires_grad_()
    assert torch.autograd.gradcheck(function, leaf)
    assert torch.autograd.gradgradcheck(function, leaf)


@pytest.mark.usefixtures("eager_kernel")
@pytest.mark.parametrize("k", [1, 2, 7, 66, 67])
def test_the_kernel_and_the_readable_operators_agree_on_top_k(k: int) -> None:
    s = (4 * torch.randn(2, 3, 5, 67)).round() / 4  # with ties
    s[0, 1, 2], s[1, :, :, 7] = -INF, -INF
    away = torch.randn_like(s)
    found = []
    for dtype in (torch.float32, F64):
        x = s.to(dtype).requires_grad_()
        assert solved.solves(x) == (dtype == torch.float32)
        w = TopK(k)(x)
        found.append([w.detach(), *torch.autograd.grad((w * away).sum(), x)])
    (w, ds), (wanted, wanted_ds) = found
    assert torch.equal(w > 0, wanted > 0)
    assert (w - wanted).abs().max() < 1e-6
    assert (ds - wanted_ds).abs().max() < 1e-6


def test_the_kernel_of_top_k_has_a_gradient_of_its_gradient() -> None:
    s = torch.randn(2, 3, 7, dtype=F64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: solved.chosen(x, 3), s)
    assert torch.autograd.gradgradcheck(lambda x: solved.chosen(x, 3), s)


@pytest.mark.usefixtures("eager_kernel")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_kernel_of_top_k_widens_half_precision(dtype: torch.dtype) -> None:
    s = (3 * torch.randn(5, 130)).to(dtype)
    assert TopK(9)(s).dtype == dtype
    assert torch.equal(TopK(9)(s), TopK(9)(s.float()).to(dtype))


@pytest.mark.parametrize("k", [0, -3, 2.0, 2.5, math.nan, "2", None, True, torch.tensor(1.5)])
def test_a_k_that_is_no_whole_number_from_1_is_refused_in_a_line(k: object) -> None:
    with pytest.raises(RegardError, match=r"^TopK: k is .*, wanted a whole number of at least 1: .*$"):
        TopK(k)  # type: ignore[arg-type]
