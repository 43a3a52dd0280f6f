"""The written-out gradients of the recurrences and of the loss are autograd's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from regard.translate.models.recurrent.encoders import Stack
from regard.translate.models.recurrent.units import gru, gru_step, lstm_step
from regard.translate.training.loss import smoothed_cross_entropy


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def test_a_sequence_is_nn_gru() -> None:
    unit = nn.GRU(3, 5, batch_first=True).double()
    p = dict(unit.named_parameters())
    inputs = torch.randn(7, 11, 3, dtype=torch.float64)
    x = (inputs @ p["weight_ih_l0"].t() + p["bias_ih_l0"]).transpose(0, 1).unsqueeze(0)
    found = gru(x, p["weight_hh_l0"].unsqueeze(0), p["bias_hh_l0"].unsqueeze(0))
    torch.testing.assert_close(found[0].transpose(0, 1), unit(inputs)[0])


def test_a_step_is_nn_gru_cell() -> None:
    cell = nn.GRUCell(3, 5).double()
    inputs, state = torch.randn(7, 3, dtype=torch.float64), torch.randn(7, 5, dtype=torch.float64)
    found = gru_step(inputs @ cell.weight_ih.t() + cell.bias_ih, state @ cell.weight_hh.t() + cell.bias_hh, state)
    torch.testing.assert_close(found, cell(inputs, state))


def test_the_unit_of_the_article_is_another() -> None:
    """s' = (1 − z) s + z tanh(x_n + U (r ∘ s)): the same only where r = 1, and with z turned about."""
    state, x, U = torch.randn(7, 5).double(), torch.randn(7, 15).double(), torch.randn(15, 5).double()

    def article(x: Tensor) -> Tensor:
        U_r, U_z, U_n = U.split(5)
        r, z, n = x.split(5, -1)
        reset, new = (r + state @ U_r.t()).sigmoid(), (z + state @ U_z.t()).sigmoid()
        after: Tensor = (1 - new) * state + new * torch.tanh(n + (reset * state) @ U_n.t())
        return after

    sides = torch.tensor([1.0, -1.0, 1.0]).double().repeat_interleave(5)
    turned = (x * sides, (state @ U.t()) * sides)
    apart = [(gru_step(*given, state) - article(x)).abs().amax() for given in ((x, state @ U.t()), turned)]
    assert min(apart) > 0.1
    x = x + torch.tensor([1e3, 0.0, 0.0]).double().repeat_interleave(5)  # r = 1: nothing is reset
    torch.testing.assert_close(gru_step(x * sides, turned[1], state), article(x))


def test_a_sequence_can_begin_anywhere_and_each_row_have_its_own_bias() -> None:
    cell = nn.GRUCell(3, 5).double()
    x, state, own = torch.randn(4, 7, 15).double(), torch.randn(7, 5).double(), torch.randn(7, 15).double()
    found = gru(x.unsqueeze(0), cell.weight_hh.unsqueeze(0), own.unsqueeze(0), state.unsqueeze(0))[0]
    for t in range(4):
        state = gru_step(x[t], state @ cell.weight_hh.t() + own, state)
        torch.testing.assert_close(found[t], state)


def test_a_long_step_is_nn_lstm_cell() -> None:
    cell = nn.LSTMCell(3, 5).double()
    inputs, h, c = (torch.randn(7, width, dtype=torch.float64) for width in (3, 5, 5))
    gates = inputs @ cell.weight_ih.t() + cell.bias_ih + h @ cell.weight_hh.t() + cell.bias_hh
    torch.testing.assert_close(lstm_step(gates, c), cell(inputs, (h, c)))


@pytest.mark.parametrize("n", [5, 12, 29])
def test_a_row_has_the_same_bits_however_many_stand_below_it(n: int) -> None:
    torch.manual_seed(7)
    given, told, state = (torch.randn(37, width) for width in (4 * n, 4 * n, n))
    whole = gru_step(given[:, : 3 * n], told[:, : 3 * n], state), *lstm_step(given, state)
    for rows in range(1, 37):
        x, u, s = (each[:rows].clone() for each in (given, told, state))
        for found, wanted in zip((gru_step(x[:, : 3 * n], u[:, : 3 * n], s), *lstm_step(x, s)), whole, strict=True):
            assert torch.equal(found, wanted[:rows])


def test_gradients() -> None:
    torch.manual_seed(1)
    assert torch.autograd.gradcheck(gru, (numbers(2, 3, 2, 6), numbers(2, 6, 2), numbers(2, 2, 6), numbers(2, 2, 2)))
    assert torch.autograd.gradcheck(lstm_step, (numbers(3, 1, 8), numbers(3, 1, 2)))
    assert torch.autograd.gradcheck(gru, (numbers(2, 3, 2, 6), numbers(2, 6, 2), numbers(2, 6)))
    assert torch.autograd.gradcheck(gru_step, (numbers(3, 1, 6), numbers(3, 1, 6), numbers(3, 1, 2)))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_is_pytorch_s(smoothing: float) -> None:
    torch.manual_seed(1)
    logits, target = numbers(7, 11), torch.randint(0, 11, (7,))
    ours, theirs = (
        smoothed_cross_entropy(logits, target, smoothing),
        cross_entropy(logits, target, label_smoothing=smoothing),
    )
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(torch.autograd.grad(3 * ours, logits)[0], torch.autograd.grad(3 * theirs, logits)[0])


def test_loss_of_bfloat16_is_computed_in_float32() -> None:
    logits = (100 * torch.randn(7, 11)).bfloat16().requires_grad_()
    target = torch.randint(0, 11, (7,))
    torch.testing.assert_close(smoothed_cross_entropy(logits, target), cross_entropy(logits.float(), target))


def test_dropout_of_a_stack_falls_between_its_layers_alone() -> None:
    torch.manual_seed(1)
    stack = Stack(3, 5, 3, 0.5)
    given, h, c = torch.randn(7, 20), torch.randn(7, 3, 5), torch.randn(7, 3, 5)
    (_, a, _), (_, b, _) = (stack.once(given, None, h, c, stack.joined(3)) for _ in range(2))
    assert torch.equal(a[:, 0], b[:, 0])
    assert not torch.equal(a[:, 1], b[:, 1])
    stack.eval()
    top, found, cells = stack.once(stack.inputs(torch.ones(7, 3)), None, h, c, stack.joined(3))
    before = (h.transpose(0, 1).contiguous(), c.transpose(0, 1).contiguous())
    wanted, after = stack(torch.ones(7, 1, 3), before)
    torch.testing.assert_close(top, wanted[:, 0])
    torch.testing.assert_close((found.transpose(0, 1), cells.transpose(0, 1)), after)
