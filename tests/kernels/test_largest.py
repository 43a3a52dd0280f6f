"""The k largest of rows: against sorting in double precision, on rows made to be hard."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.kernels import largest
from tests.kernels.test_rows import hard

INF = math.inf
DTYPES = [torch.float32, torch.float64]


def chosen(s: Tensor, k: int) -> Tensor:
    weights = torch.empty_like(s)
    largest.forward(s.numpy(), weights.numpy(), k, 0, len(s))
    return weights


def sorted_out(s: Tensor, k: int) -> Tensor:
    """exp(s − max s) / Σ over the scores that are no lower than the kth when sorted; rows with something to see."""
    x = s.double()
    last = x.sort(-1, descending=True).values[:, min(k, s.shape[1]) - 1, None]
    stays = (x >= last) & (x > -INF)
    powers = torch.where(stays, torch.exp(x - x.amax(-1, keepdim=True)), 0.0)
    return powers / powers.sum(-1, keepdim=True)


def keys_above(row: Tensor, k: int) -> tuple[list[int], float]:
    x, place = np.empty(len(row) + 1), np.empty(len(row) + 1, np.int32)
    count, _, level = largest.support(row.numpy(), k, x, place)
    assert x[:count].tolist() == row[place[:count]].tolist()
    return place[:count].tolist(), level


@pytest.mark.parametrize("k", [1, 2, 5, 31, 330, 331, 400])
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
@pytest.mark.parametrize("n", [2, 3, 61, 64, 331, 2053])
def test_every_row_converges_to_what_sorting_finds(dtype: torch.dtype, close: float, n: int, k: int) -> None:
    made = hard(dtype, n)
    s = torch.stack(list(made.values()))
    wrong = (chosen(s, k).double() - sorted_out(s, k)).abs().amax(-1)
    assert {name: x for name, x in zip(made, wrong.tolist(), strict=True) if not x < close} == {}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [1, 2, 5, 31, 330])
def test_the_keys_are_those_that_sorting_finds_though_their_weights_are_0(dtype: torch.dtype, k: int) -> None:
    for name, row in hard(dtype, 331).items():
        last = row.sort(descending=True).values[k - 1]
        wanted = ((row >= last) & (row > -INF)).nonzero().flatten().tolist()
        found, level = keys_above(row, k)
        assert found == wanted, name
        assert (row.double() > level).nonzero().flatten().tolist() == wanted, name


@pytest.mark.parametrize("dtype", DTYPES)
def test_neighbours_among_all_numbers_are_told_apart(dtype: torch.dtype) -> None:
    for base in (0.0, -0.0, 1e-30, -1e-30, 1.0, -1.0, 1e30, -1e30):
        low = torch.full((131,), base, dtype=dtype)
        above = torch.nextafter(low[0], torch.tensor(INF, dtype=dtype))
        low[[3, 70, 130]] = above
        low[5] = torch.nextafter(above, torch.tensor(INF, dtype=dtype))
        low[9:14] = 1e35
        for k, wanted in ((5, 5), (6, 6), (7, 9), (9, 9), (10, 131)):
            assert len(keys_above(low, k)[0]) == wanted, (base, k)


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_and_minus_no_are_the_same_number(dtype: torch.dtype) -> None:
    row = torch.tensor([-1.0, -0.0, 0.0, -0.0, 5e-324 if dtype == torch.float64 else 1.4e-45], dtype=dtype)
    assert keys_above(row, 1)[0] == [4]
    assert keys_above(row, 2)[0] == [1, 2, 3, 4]


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_one_of_none_and_of_what_is_no_number(dtype: torch.dtype) -> None:
    assert chosen(torch.tensor([[-1e4], [3.0], [-INF]], dtype=dtype), 1).flatten().tolist() == [1, 1, 0]
    assert chosen(torch.empty(3, 0, dtype=dtype), 2).shape == (3, 0)
    s = torch.randn(7, 131, dtype=dtype)
    s[1] = -INF
    s[2, 5], s[3, -1], s[4, 70], s[5] = math.nan, math.nan, INF, math.nan
    w = chosen(s, 3)
    assert w.isnan().all(-1).tolist() == [False, False, True, True, True, True, False]
    assert (w[1] == 0).all()
    assert ((w[[0, 6]] > 0).sum(-1) == 3).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_scores_that_are_made_again_have_k_keys_though_they_are_rounded_otherwise(dtype: torch.dtype) -> None:
    def again(row: Tensor, k: int, level: float) -> list[int]:
        x, place = np.empty(len(row) + 1), np.empty(len(row) + 1, np.int32)
        found: list[int] = place[: largest.support_again(row.numpy(), k, level, x, place)].tolist()
        return found

    row = torch.tensor([0.5, 3.0, 1.0, 1.0, -INF, 2.0, 0.5], dtype=dtype)
    down, up = (torch.nextafter(torch.tensor(1.0, dtype=dtype), torch.tensor(x, dtype=dtype)) for x in (0.0, 2.0))
    for k in range(1, 9):
        assert again(row, k, keys_above(row, k)[1]) == keys_above(row, k)[0]
    ties, level = keys_above(row, 3)
    assert ties == [1, 2, 3, 5]
    lower, higher = row.clone(), row.clone()
    lower[2:4], higher[2:4] = down, up
    assert again(lower, 3, level) == again(higher, 3, level) == ties
    lower[2], higher[2] = 1.0, 1.0
    assert again(lower, 3, level) == [1, 2, 5]
    assert again(higher, 3, level) == [1, 3, 5]
    assert again(row, 3, math.nan) == []  # a row that was none
