"""An effect is a change over the noise of the model."""

from __future__ import annotations

import math

import torch

from regard.doctor.effect import REAL, Effect, Noise, difference, effect


def test_difference_counts_equal_nan_and_equal_infinity_as_no_change() -> None:
    one = torch.tensor([math.nan, math.inf, -math.inf, 1.0])
    assert difference(one, one).tolist() == [0, 0, 0, 0]


def test_a_nan_that_only_one_run_has_is_an_infinite_change() -> None:
    one, other = torch.tensor([math.nan, 1.0, math.inf]), torch.tensor([0.0, 3.0, -math.inf])
    assert difference(one, other).tolist() == [math.inf, 2.0, math.inf]


def test_only_the_places_named_count_and_the_worst_is_said_where() -> None:
    one = torch.zeros(2, 5, 3)
    other = one.clone()
    other[0, 4, 1], other[1, 2, 0] = 9.0, -0.5
    at = torch.ones(2, 5, dtype=torch.bool)
    at[0, 4] = False
    found = effect(one, other, Noise(1e-6, 1.0), at)
    assert (found.change, found.row, found.place) == (0.5, 1, 2)
    assert found.real
    assert found.said() == "by 0.5, 500,000 times the noise"


def test_what_is_real_depends_on_the_noise_and_on_nothing_else() -> None:
    assert not Effect(REAL * 0.9, Noise(1.0, 1e4)).real
    assert Effect(REAL * 1.1, Noise(1.0, 1e4)).real
    assert Effect(math.nan, Noise(1.0, 1e4)).real


def test_a_restless_model_drowns() -> None:
    assert Noise(0.01, 1.0).drowns
    assert not Noise(1e-6, 1.0).drowns
    assert Noise(math.nan, 1.0).drowns
