"""Law 6, order: a memory is a set until something tells the places."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard import mask
from regard.mask import Mask
from tests.laws.every import RUN_ON_ITSELF, engines_of, every_normaliser
from tests.laws.masks import MASKS
from tests.laws.scores import SCORES, UNPLACED
from tests.laws.shapes import B, H, S
from tests.laws.truth import close, inputs, normaliser_part, score_part, visible


@pytest.mark.parametrize("scored", UNPLACED)
@every_normaliser
def test_law_6_permuting_the_memory_permutes_the_weights_and_leaves_the_read_alone(
    scored: str, normalised: str
) -> None:
    q, k, v = inputs(scored)
    order = torch.tensor([3, 6, 0, 2, 5, 1, 4])
    parts: dict[str, Any] = {"score": score_part(scored), "normalize": normaliser_part(normalised)}
    for masked in MASKS:
        m, moved = mask.dense(visible(masked)), mask.dense(visible(masked)[..., order])
        w = regard.weights(q, k, mask=m, **parts)
        close(regard.weights(q, k[:, :, order], mask=moved, **parts), w[..., order], f"{masked}: weights")
        for engine in engines_of(scored, normalised):
            out = regard.attend(q, k, v, mask=m, engine=engine, **parts)
            close(
                regard.attend(q, k[:, :, order], v[:, :, order], mask=moved, engine=engine, **parts), out, masked, 1e-9
            )


@pytest.mark.parametrize(("engine", "scored"), RUN_ON_ITSELF)
def test_law_6_self_attention_is_equivariant_until_something_tells_the_places(scored: str, engine: str) -> None:
    case = SCORES[scored]
    x = 0.3 * torch.randn(B, H, S, case.widths[0], dtype=torch.float64)  # so that no query sees itself alone
    order = torch.tensor([3, 6, 0, 2, 5, 1, 4])

    def own(x: Tensor, m: Mask | None = None) -> Tensor:
        return regard.attend(x, x, x, score=score_part(scored), mask=m, engine=engine)

    moved = (own(x[:, :, order]) - own(x)[:, :, order]).abs().max().item()
    assert moved > 1e-3 if case.placed else moved < 1e-12
    causal = mask.causal()
    assert (own(x[:, :, order], causal) - own(x, causal)[:, :, order]).abs().max() > 1e-3
