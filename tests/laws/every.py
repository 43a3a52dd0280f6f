"""What the laws range over: every score, normaliser and mask, on every engine that runs them."""

from __future__ import annotations

import pytest

from tests.laws.masks import MASKS
from tests.laws.normalisers import NORMALISERS, PLAIN
from tests.laws.scores import FUSED, SCORES

RUN = [(engine, name) for engine in ("reference", "tiled") for name in SCORES] + [("sdpa", name) for name in FUSED]
RUN_ON_ITSELF = [(engine, name) for engine, name in RUN if SCORES[name].widths[0] == SCORES[name].widths[1]]


def engines_of(scored: str, normalised: str) -> list[str]:
    """The engines that run this on the CPU."""
    return ["reference", "tiled"] + ["sdpa"] * (scored in FUSED and normalised in PLAIN)


every_score = pytest.mark.parametrize("scored", SCORES)
every_normaliser = pytest.mark.parametrize("normalised", NORMALISERS)
every_mask = pytest.mark.parametrize("masked", MASKS)
