"""Arithmetic inside a vectorised loop, where sums may be reordered and a product of two words is wider than a word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard.kernels import vector
from regard.kernels.compile import kernel


@kernel
def _exps(x, out):
    vector.wide_vectors()
    for j in range(x.shape[0]):
        out[j] = vector.exp(x[j])


@kernel
def _exps_below(x, top, out):
    for j in range(x.shape[0]):
        out[j] = vector.exp(x[j] - top)


@kernel
def _tanhs(x, out):
    vector.wide_vectors()
    for j in range(x.shape[0]):
        out[j] = vector.tanh(x[j])


@kernel
def _dice(seed, rows, columns, out):
    for i in range(rows):
        for j in range(columns):
            out[i, j] = vector.dice(seed, np.uint32(i), np.uint32(j))


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 2e-13)])
def test_exp_is_right_wherever_a_weight_matters(dtype: Any, tolerance: float) -> None:
    x = np.linspace(-40, 40, 10_007).astype(dtype)
    found = np.empty_like(x)
    _exps(x, found)
    wanted = np.exp(x.astype(np.float64))
    assert np.abs(found / wanted - 1).max() < 40 * tolerance / 4  # of |x| roundings
    near = np.abs(x) < 1
    assert np.abs(found[near] / wanted[near] - 1).max() < tolerance
    special = np.array([0.0, -1e30, -np.inf, np.nan, -200.0 if dtype == np.float32 else -2000.0], dtype)
    found = np.empty_like(special)
    _exps(special, found)
    assert found[0] == 1
    assert found[1] == found[2] == found[4] == 0
    if dtype == np.float32:
        assert np.isnan(found[3])


@pytest.mark.parametrize("base", [0.0, 100.0, 5859.7807, 1e4])
def test_exp_of_a_difference_is_that_of_the_difference(base: float) -> None:
    x = (np.linspace(-5, 0, 41) + base).astype(np.float32)
    found = np.empty_like(x)
    _exps_below(x, x.max(), found)
    wanted = np.exp(x.astype(np.float64) - np.float64(x.max()))
    # A loop may compute x·c − top·c, which is as good as the scores themselves are.
    assert np.abs(found / wanted - 1).max() < 1e-6 + 2.0**-23 * base


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 3e-7), (np.float64, 1e-14)])
def test_tanh_is_right_to_a_rounding_of_one(dtype: Any, tolerance: float) -> None:
    x = np.concatenate([np.linspace(-60, 60, 5003), [1e30, -1e30, 1e-9]]).astype(dtype)
    found = np.empty_like(x)
    _tanhs(x, found)
    assert np.abs(found - np.tanh(x.astype(np.float64))).max() < tolerance


def test_dice_are_32_bits_and_independent_of_their_neighbours() -> None:
    bits = np.empty((512, 512), np.uint64)
    _dice(np.uint32(7), 512, 512, bits)
    assert bits.max() < 2**32
    assert len(np.unique(bits)) > 512 * 512 * 0.9999
    draws = bits / 2**32
    assert abs(draws.mean() - 0.5) < 0.003
    for near in (draws[:, 1:] * draws[:, :-1], draws[1:] * draws[:-1], draws * draws.T):
        assert abs(near.mean() - 0.25) < 0.004 or near.shape == (512, 512)
    other = np.empty_like(bits)
    _dice(np.uint32(8), 512, 512, other)
    assert (bits == other).mean() < 1e-4
