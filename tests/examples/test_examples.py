"""Every experiment gives the numbers that are known from elsewhere: closed forms, tables, other implementations."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from examples import EXPERIMENTS
from examples.argmax_gradient import argmax_gradient
from examples.four_line_read import four_line_read
from examples.gumbel_noise import gumbel_noise
from examples.half_overflow import half_overflow
from examples.nothing_in_particular import nothing_in_particular
from examples.saturation import saturation
from examples.sparse_zeros import sparse_zeros
from examples.square_root import square_root
from examples.temperature import temperature
from examples.unmasked_padding import unmasked_padding
from examples.wrong_axis import wrong_axis

FOLDER = Path(__file__).resolve().parents[2] / "examples"
E = [math.exp(s) for s in (1.0, 0.5, 0.0, -0.8)]  # of the toy memory's four scores
WEIGHTS = [e / sum(E) for e in E]


def found(name: str) -> Callable[[], dict[str, list[float]]]:
    function: Callable[[], dict[str, list[float]]] = getattr(importlib.import_module(f"examples.{name}"), name)
    return function


def test_the_list_names_every_file_of_the_folder() -> None:
    assert sorted(EXPERIMENTS) == sorted(path.stem for path in FOLDER.glob("[!_]*.py"))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_is_short_says_what_it_shows_and_gives_numbers(name: str) -> None:
    function, module = found(name), importlib.import_module(f"examples.{name}")
    assert len(inspect.getsource(function).splitlines()) < 25
    assert module.__doc__ is not None
    assert "\n" not in module.__doc__
    assert function.__doc__
    numbers = function()
    assert all(isinstance(x, float) for row in numbers.values() for x in row)
    assert all(len(row) <= 5 or name == "temperature" for row in numbers.values())  # so that it prints in 80 columns


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_gives_the_same_numbers_each_time(name: str) -> None:
    assert str(found(name)()) == str(found(name)())


def test_the_four_line_read() -> None:
    read = four_line_read()
    assert read["score of each candidate"] == pytest.approx([1.0, 0.5, 0.0, -0.8])
    assert read["weight of each"] == pytest.approx([0.467, 0.283, 0.172, 0.077], abs=5e-4)
    assert read["weight of each"] == pytest.approx(WEIGHTS, abs=1e-6)
    assert read["what is read"] == pytest.approx([0.547, 0.376], abs=5e-4)
    # The row that is printed elsewhere belongs to a fourth score of about −0.4.
    assert read["weight of each"] != pytest.approx([0.451, 0.273, 0.165, 0.111], abs=0.01)


def test_a_ten_times_longer_candidate_saturates() -> None:
    both = saturation()
    assert both["weights after"] == pytest.approx([0.999859369, 7.4841e-5, 4.5394e-5, 2.0397e-5], rel=1e-4)
    assert both["read after"] == pytest.approx([9.99861, 0.99995], abs=1e-4)
    assert both["slope of the weights after"][0] < both["slope of the weights before"][0] / 1000


def test_argmax_has_no_slope_and_softmax_has_the_one_it_states() -> None:
    slopes = argmax_gradient()
    assert slopes["hardmax: slope when nudged"] == [0.0, 0.0]
    assert slopes["softmax: slope when nudged"] == pytest.approx(slopes["softmax: slope in backward"], abs=1e-9)
    assert slopes["hardmax: slope in backward"] == pytest.approx(slopes["softmax: slope in backward"])
    # d(Σ w v₁)/dq = Σ w v₁ k − (Σ w v₁)(Σ w k), a covariance.
    memory = torch.tensor([[1.0, 0.1], [0.5, 0.5], [0.0, 1.0], [-0.8, 0.2]], dtype=torch.float64)
    w = torch.tensor(WEIGHTS, dtype=torch.float64)
    covariance = (w * memory[:, 0]) @ memory - (w @ memory[:, 0]) * (w @ memory)
    assert slopes["softmax: slope in backward"] == pytest.approx(covariance.tolist())


def test_temperature_goes_from_even_to_hard_and_leaves_ties_alone() -> None:
    heat = temperature()
    assert heat["largest weight"] == sorted(heat["largest weight"])
    assert heat["entropy"] == sorted(heat["entropy"], reverse=True)
    assert heat["entropy"][0] == pytest.approx(math.log(4), abs=1e-3)
    assert heat["entropy"][heat["temperature"].index(1.0)] == pytest.approx(1.2133869, abs=1e-5)
    assert heat["largest weight"][-1] == pytest.approx(1.0)
    assert heat["of two equal"][-1] == pytest.approx(0.5)


def test_without_the_square_root_width_saturates() -> None:
    widths = square_root()
    for width, variance in zip(widths["width D"], widths["variance of a score"], strict=True):
        assert variance == pytest.approx(width, rel=0.1)
    assert widths["plain: largest weight"] == pytest.approx([0.346, 0.626, 0.812, 0.913, 0.959], abs=0.05)
    assert widths["plain: entropy"] == pytest.approx([2.26, 1.15, 0.51, 0.22, 0.10], abs=0.15)
    assert widths["plain: slope"] == pytest.approx([0.294, 0.289, 0.200, 0.108, 0.054], abs=0.05)
    assert widths["over √D: largest weight"] == pytest.approx([0.163] * 5, abs=0.02)
    assert widths["over √D: entropy"] == pytest.approx([3.02] * 5, abs=0.05)
    assert widths["over √D: slope"] == pytest.approx([0.24] * 5, abs=0.02)


def test_sparsemax_and_entmax_give_exact_zeros() -> None:
    weights = sparse_zeros()
    assert weights["softmax"] == pytest.approx(WEIGHTS, abs=1e-6)
    assert weights["sparsemax"] == pytest.approx([0.75, 0.25, 0.0, 0.0], abs=1e-6)
    assert weights["entmax15"] == pytest.approx([0.62420, 0.29167, 0.08414, 0.0], abs=1e-5)
    assert [row.count(0.0) for row in weights.values()] == [0, 1, 2]


def test_gumbel_draws_follow_softmax_and_harden_in_the_cold() -> None:
    draws = gumbel_noise()
    assert draws["entropy of one draw"] == pytest.approx([1.35, 0.91, 0.55, 0.11], abs=0.02)
    deviation = math.sqrt(WEIGHTS[0] * (1 - WEIGHTS[0]) / 20_000)
    assert draws["first: wins"] == pytest.approx([WEIGHTS[0]] * 4, abs=4.5 * deviation)
    assert draws["first: mean weight"][1] == pytest.approx(0.400, abs=0.01)
    assert draws["first: mean weight"] == sorted(draws["first: mean weight"])
    assert draws["first: mean weight"][-1] == pytest.approx(WEIGHTS[0], abs=0.02)


def test_a_softmax_over_the_wrong_axis_reads_ones_as_something_else() -> None:
    axes = wrong_axis()
    assert axes["right: sum of each row"] == pytest.approx([1.0] * 4)
    assert axes["right: reading ones"] == pytest.approx([1.0] * 4)
    assert max(abs(x - 1) for x in axes["wrong: reading ones"]) > 0.1
    assert sum(axes["wrong: sum of each row"]) == pytest.approx(4.0)  # its columns are what sums to 1


def test_unmasked_padding_takes_a_share_and_masked_padding_none() -> None:
    pads = unmasked_padding()
    shares = [n / (sum(E) + n) for n in pads["slots of padding"]]  # a zero key has exp(0) = 1
    assert pads["share unmasked"] == pytest.approx(shares, abs=1e-6)
    assert pads["share masked"] == [0.0] * 4
    alone = pads["read masked, first number"][0]
    assert pads["read masked, first number"] == pytest.approx([alone] * 4)
    assert pads["read unmasked, first number"] == pytest.approx([alone * (1 - share) for share in shares], abs=1e-6)


def test_half_precision_overflows_unless_the_maximum_is_taken_off() -> None:
    half = half_overflow()
    assert math.isnan(half["large: exp / sum"][0])
    assert all(math.isnan(x) for x in half["small: exp / sum"])
    right = torch.softmax(torch.tensor([0.0, -1.0, -12.0]), 0).tolist()
    for size in ("large", "small"):
        assert half[f"{size}: less the maximum"] == pytest.approx(right, rel=2e-2, abs=1e-6)
        assert half[f"{size}: regard"] == pytest.approx(right, rel=2e-2, abs=1e-6)
    # The limits that the text states are those of the format.
    assert math.log(torch.finfo(torch.float16).max) == pytest.approx(11.09, abs=5e-3)
    assert math.log(torch.finfo(torch.float32).max) == pytest.approx(88.7, abs=0.05)
    assert math.log(2**-25) == pytest.approx(-17.3, abs=0.05)  # half of the smallest number rounds to 0


def test_a_query_for_nothing_reads_the_average() -> None:
    nothing = nothing_in_particular()
    assert nothing["nothing: read"] == pytest.approx(nothing["plain average"])
    assert nothing["nothing: entropy, evenness"] == pytest.approx([math.log(4), 1.0])
    assert nothing["something: entropy, evenness"] == pytest.approx([1.2133869, 1.2133869 / math.log(4)], abs=1e-5)
    assert nothing["one thing: entropy, evenness"][1] < 0.01
