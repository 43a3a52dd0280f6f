"""Options: an argument that is accepted and changes nothing."""

from __future__ import annotations

from torch import Tensor, nn

from tests.clinic.case import Batch, case, padded
from tests.clinic.pytorch import Tagger
from tests.clinic.transformer import Config, Decoder, View, transformer


def with_positions(sick: bool) -> Batch:
    batch = padded(23, 13, 19, left=True)
    return {**batch, "position_ids": (batch["attention_mask"].cumsum(-1) - 1).clamp(min=0)}


@case("API001", "", batch=with_positions, also="PAD002", causal=True)
def positions_swallowed(sick: bool) -> nn.Module:
    """``position_ids`` is in the signature, and the model counts for itself: left padding can't be repaired from
    outside.

    huggingface/transformers#18478, huggingface/transformers#21080, TransformerLensOrg/TransformerLens#1609.
    """

    class Deaf(Decoder):
        def view(self, ids: Tensor, mask: Tensor | None, positions: Tensor | None, past: int) -> View:
            return super().view(ids, mask, None if sick else positions, past)

        def count(self, mask: Tensor) -> Tensor:
            return mask.new_ones(mask.shape).cumsum(-1) - 1

    return transformer(Config(positions="learned"), model=Deaf)


@case("API001", "", also="PAD001 PAD002", causal=False)
def a_mask_swallowed(sick: bool) -> nn.Module:
    """``attention_mask`` is accepted, and no line of the model uses it.

    jax-ml/jax#23349 (valid lengths without effect), huggingface/transformers PR#35786, pacman100/LLM-Workshop#1.
    """

    class Patient(Tagger):
        def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
            return super().forward(input_ids, None if sick else attention_mask)

    return Patient.seeded()
