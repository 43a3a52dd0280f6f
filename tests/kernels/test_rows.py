"""Thresholds of rows: against bisection in double precision, on rows made to be hard."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.kernels import rows, vector

INF = math.inf
ALPHAS = [1.05, 1.1, 1.3, 1.5, 1.7, 2.0, 2.5, 4.0]
TINY = 5e-324  # the smallest number above 0 in double precision; single precision takes its own


def solved(s: Tensor, alpha: float) -> Tensor:
    weights = torch.empty_like(s)
    rows.forward(s.numpy(), weights.numpy(), np.array([alpha]), 1, 0, len(s))
    return weights


def bisected(s: Tensor, alpha: float) -> Tensor:
    """[(α−1)(s − max s) − t]₊^{1/(α−1)}, by two hundred halvings in double precision; rows with something to see."""
    x = (alpha - 1) * (s.double() - s.double().amax(-1, keepdim=True))
    low, high = -torch.ones_like(x[:, :1]), torch.zeros_like(x[:, :1])

    def weights(t: Tensor) -> Tensor:
        w: Tensor = (x - t).clamp(min=0) ** (1 / (alpha - 1))
        return w

    for _ in range(200):
        t = (low + high) / 2
        enough = weights(t).sum(-1, keepdim=True) >= 1
        low, high = torch.where(enough, t, low), torch.where(enough, high, t)
    found = weights(low)
    return found / found.sum(-1, keepdim=True)


def hard(dtype: torch.dtype, n: int) -> dict[str, Tensor]:
    """Rows of n scores, each hard in its own way."""
    limits = torch.finfo(dtype)
    places = torch.arange(n, dtype=torch.float64)
    random = torch.randn(n, dtype=torch.float64)
    far = torch.full((n,), -1.0, dtype=torch.float64)
    far[n // 2] = 1e30
    two = random.clone()
    two[[0, -1]] = 7.0
    few = torch.full((n,), -INF, dtype=torch.float64)
    few[n // 3] = few[2 * n // 3] = -3.0
    made = {
        "random": random,
        "all equal": torch.full((n,), 0.3, dtype=torch.float64),
        "all equal and huge": torch.full((n,), limits.max, dtype=torch.float64),
        "all equal and lowest": torch.full((n,), limits.min, dtype=torch.float64),
        "two equal tops": two,
        "one far above": far,
        "geometric": -(2.0 ** (places - n)) * 3,
        "geometric, slowly": 1.05**-places - 1,
        "falling gaps": -(0.9**places),
        "a stair": -(places // 5) / 7,
        "large": 1e4 * random.sign() + random,
        "wide": 1e4 * random,
        "narrow": 1e-5 * random,
        "the least gaps": torch.where(places % 2 == 0, 0.0, -(TINY if dtype == torch.float64 else 1.4e-45)),
        "from limit to limit": torch.where(places % 3 == 0, 1.0, -1.0).double() * limits.max,
        "few may be seen": few,
        "long and small but one": torch.where(places == n - 1, 0.5, -0.01 * random.abs()),
    }
    return {name: row.to(dtype) for name, row in made.items()}


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
@pytest.mark.parametrize("n", [2, 3, 61, 64, 331])
def test_every_row_converges_to_what_bisection_finds(dtype: torch.dtype, close: float, alpha: float, n: int) -> None:
    made = hard(dtype, n)
    s = torch.stack(list(made.values()))
    w = solved(s, alpha)
    assert (w >= 0).all()
    assert ((w.double().sum(-1) - 1).abs().max()) < close
    # For p < 1 a weight rises infinitely steeply at the threshold: what rounding moves x by moves it by its power.
    wrong = (w.double() - bisected(s, alpha)).abs().amax(-1)
    allowed = max(close, (4 * torch.finfo(torch.float64).eps) ** (1 / (alpha - 1)))
    assert {name: x for name, x in zip(made, wrong.tolist(), strict=True) if not x < allowed} == {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_long_rows_too(dtype: torch.dtype) -> None:
    for n in (2048, 20_011):
        s = torch.stack([torch.randn(n, dtype=dtype), torch.zeros(n, dtype=dtype), 0.1 * torch.randn(n, dtype=dtype)])
        for alpha in (1.01, 1.25, 1.5, 2.0):
            assert (solved(s, alpha).double() - bisected(s, alpha)).abs().max() < (1e-7 if s.itemsize == 4 else 1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("alpha", [1.1, 1.5, 2.0, 2.5])
def test_rows_of_one_of_none_and_of_what_is_no_number(dtype: torch.dtype, alpha: float) -> None:
    assert solved(torch.tensor([[-1e4], [3.0], [-INF]], dtype=dtype), alpha).flatten().tolist() == [1, 1, 0]
    assert solved(torch.empty(3, 0, dtype=dtype), alpha).shape == (3, 0)
    s = torch.randn(7, 131, dtype=dtype)
    s[1] = -INF
    s[2, 5], s[3, -1], s[4, 70], s[5] = math.nan, math.nan, INF, math.nan
    w = solved(s, alpha)
    assert w.isnan().all(-1).tolist() == [False, False, True, True, True, True, False]
    assert (w[1] == 0).all()
    assert (w[[0, 6]].sum(-1) - 1).abs().max() < 1e-6


@pytest.mark.parametrize("alpha", [1.1, 1.5, 1.7, 2.0, 2.5])
def test_the_way_back_is_the_jacobian_of_the_support(alpha: float) -> None:
    s, away = torch.randn(5, 67, dtype=torch.float64), torch.randn(5, 67, dtype=torch.float64)
    w = solved(s, alpha)
    g = torch.where(w > 0, w ** (2 - alpha), 0.0)
    jacobian = torch.diag_embed(g) - g[:, :, None] * g[:, None] / g.sum(-1)[:, None, None]
    ds, by_alpha = torch.empty_like(w), torch.empty(5, dtype=torch.float64)
    rows.backward(w.numpy(), away.numpy(), np.array([alpha]), 1, ds.numpy(), by_alpha.numpy(), 0, 5)
    assert (ds - (jacobian @ away[:, :, None]).squeeze(-1)).abs().max() < 1e-12
    step = 1e-5
    slope = ((solved(s, alpha + step) - solved(s, alpha - step)) * away).sum(-1) / (2 * step)
    assert (by_alpha - slope).abs().max() < 1e-4


def test_log_is_right_to_the_last_place() -> None:
    x = np.concatenate([np.exp(np.linspace(-700, 700, 4001)), 1 + np.linspace(-1e-3, 1e-3, 2001), [0.5, 1.0, 2.0]])
    found = np.array([vector.log(y) for y in x.tolist()])
    wanted = np.log(x)
    assert np.abs(found - wanted).max() < 1e-12
    assert np.abs(found / np.where(wanted == 0, 1, wanted) - (wanted != 0)).max() < 1e-15
