"""Dropout: its mean, its rate, its gradient, its independence, and that a generator's state repeats it."""

import math

import pytest
import torch

from regard.translate.models.dropout import dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_what_is_dropped_is_p_of_all_and_the_rest_grows(p: float) -> None:
    torch.manual_seed(1)
    n = 1_000_003
    y = dropout(torch.ones(n), p)
    share = float((y == 0).double().mean())
    assert abs(share - p) < 5 * math.sqrt(p * (1 - p) / n) + 2**-17
    assert y[y != 0].unique().numel() == 1
    assert abs(float(y.max()) * (1 - p) - 1) < (2**-17 + 1e-7) / (1 - p)


def test_every_one_of_the_four_masks_of_a_number_falls_alike_and_on_its_own() -> None:
    torch.manual_seed(2)
    kept = (dropout(torch.ones(400_000), 0.3) != 0).double().view(-1, 4)
    assert (kept.mean(0) - 0.7).abs().max() < 5 * math.sqrt(0.21 / 100_000)
    together = torch.corrcoef(kept.T) - torch.eye(4)
    assert together.abs().max() < 5 / math.sqrt(100_000)


def test_the_gradient_is_the_masks() -> None:
    torch.manual_seed(3)
    x = torch.randn(7, 11, 13, dtype=torch.float64, requires_grad=True)
    y = dropout(x, 0.4)
    y.sum().backward()
    assert x.grad is not None
    assert torch.allclose(x.grad, (y / x).detach(), rtol=1e-12)
    assert 0 < int((x.grad == 0).sum()) < x.numel()


def test_the_generator_repeats_it() -> None:
    before = torch.get_rng_state()
    one = dropout(torch.ones(5, 7), 0.5)
    two = dropout(torch.ones(5, 7), 0.5)
    torch.set_rng_state(before)
    assert torch.equal(dropout(torch.ones(5, 7), 0.5), one)
    assert not torch.equal(one, two)


def test_nothing_and_everything() -> None:
    x = torch.randn(3, 5)
    assert dropout(x, 0.0) is x
    assert dropout(x, 0.5, training=False) is x
    assert torch.equal(dropout(x, 1.0), torch.zeros(3, 5))
    assert dropout(x[:0], 0.5).shape == (0, 5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_the_type_and_the_strides_stay(dtype: torch.dtype) -> None:
    x = torch.ones(6, 10, dtype=dtype).t()
    y = dropout(x, 0.25)
    assert y.dtype == dtype
    assert y.shape == x.shape
    assert torch.equal(y[y != 0], torch.full_like(y[y != 0], 4 / 3))


def test_a_number_that_is_no_probability_is_refused() -> None:
    with pytest.raises(ValueError, match="probability"):
        dropout(torch.ones(3), 1.5)
