"""Law 2, hull: weights are a distribution, and a read stays inside its values."""

from __future__ import annotations

import math

import pytest
import torch

import regard
from tests.laws.every import every_normaliser, every_score
from tests.laws.masks import MASKS
from tests.laws.normalisers import NORMALISERS
from tests.laws.shapes import B, E, G, H, L, S
from tests.laws.truth import close, inputs, normaliser_part, read, score_part, visible


@every_score
@every_normaliser
def test_law_2_weights_are_a_distribution_and_a_read_stays_inside_its_values(scored: str, normalised: str) -> None:
    q, k, v = inputs(scored)
    values = v.repeat_interleave(2, dim=1).unsqueeze(2)  # (B, H, 1, S, E)
    for masked in MASKS:
        w = regard.weights(
            q, k, score=score_part(scored), normalize=normaliser_part(normalised), mask=MASKS[masked].build()
        )
        sees = visible(masked)
        looks = sees.any(-1)
        assert (w >= 0).all()
        assert (w[~sees] == 0).all()
        if NORMALISERS[normalised].sink is None:
            close(w.sum(-1), looks, f"{masked}: row sums", 1e-12)
        else:
            assert (w.sum(-1) < 1).all()
            assert (w.sum(-1)[looks] > 0).all()
        out = read(scored, normalised, masked, telemetry=False).output
        low = torch.where(sees.unsqueeze(-1), values, math.inf).amin(-2)
        high = torch.where(sees.unsqueeze(-1), values, -math.inf).amax(-2)
        if NORMALISERS[normalised].sink is not None:  # what went to the sink reads 0
            low, high = low.clamp(max=0), high.clamp(min=0)
        inside = (out >= low - 1e-12) & (out <= high + 1e-12)
        assert inside[looks].all(), masked


@pytest.mark.parametrize("engine", ["reference", "sdpa", "tiled"])
def test_law_2_equal_values_are_read_exactly_as_they_are(engine: str) -> None:
    q, k, _ = inputs("dot")
    out = regard.attend(q, k, torch.full((B, G, S, E), 2.5, dtype=q.dtype), engine=engine)
    close(out, torch.full((B, H, L, E), 2.5), "the average of equal values")
