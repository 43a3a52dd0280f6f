"""Names, and what is refused."""

from __future__ import annotations

import math

import pytest
import torch

from regard import RegardError, normalize
from regard.normalize import Annealed, Entmax, GumbelSoftmax, Softmax


@pytest.mark.parametrize("name", list(normalize.NAMES))
def test_a_normaliser_may_be_named(name: str) -> None:
    assert normalize.named(name) is normalize.NAMES[name]


def test_an_unknown_normaliser_lists_the_known_ones_and_suggests_the_nearest() -> None:
    with pytest.raises(
        RegardError, match=r"normalize: unknown name 'sofmax'; did you mean 'softmax'\? Known: entmax15"
    ):
        normalize.named("sofmax")


@pytest.mark.parametrize("alpha", [1.0, 0.5, -2.0, math.nan])
def test_alpha_of_1_or_less_is_refused(alpha: float) -> None:
    with pytest.raises(RegardError, match=r"Entmax: alpha is .*, wanted above 1 \(1 itself is Softmax\(\)"):
        Entmax(alpha)
    with pytest.raises(RegardError, match="wanted above 1"):
        Entmax(torch.tensor([1.5, alpha]))


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan])
@pytest.mark.parametrize("kind", [Softmax, GumbelSoftmax])
def test_a_temperature_of_0_or_less_is_refused(kind: type[Softmax] | type[GumbelSoftmax], temperature: float) -> None:
    with pytest.raises(RegardError, match=rf"{kind.__name__}: temperature is .*, wanted above 0 .*Hardmax\(\)"):
        kind(temperature)


def test_a_schedule_that_reaches_0_is_refused() -> None:
    with pytest.raises(RegardError, match="temperature is 0"):
        GumbelSoftmax(Annealed(floor=0.0))
