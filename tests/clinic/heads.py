"""Heads: dead, or out of the gradient's reach."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.clinic.case import case
from tests.clinic.transformer import Attention, Config, Fused, View, transformer


@case("HED001", "layers.1.attention", also="HED002 HED004", causal=True)
def values_that_are_nought(sick: bool) -> nn.Module:
    """A conversion left the values of one head at zero: it looks about and brings nothing back.

    TransformerLensOrg/TransformerLens#1620.
    """
    model = transformer()
    if sick:
        with torch.no_grad():
            model.get_parameter("layers.1.attention.value.weight")[16:24] = 0.0  # head 2 of 4, of width 8
    return model


@case("HED001", "layers.0.attention", also="HED004", causal=True)
def a_head_nobody_listens_to(sick: bool) -> nn.Module:
    """The output projection has zero columns for one head, as a pruning or a merge of checkpoints leaves them.

    TransformerLensOrg/TransformerLens#1620, huggingface/transformers PR#35786.
    """
    model = transformer(healthy=Fused)
    if sick:
        with torch.no_grad():
            model.get_parameter("layers.0.attention.out.weight")[:, 8:16] = 0.0
    return model


@case("HED004", "layers.1.attention", causal=True)
def queries_cut_off(sick: bool) -> nn.Module:
    """A ``detach`` left from an experiment: the head looks, and never learns where to look.

    Cerebras/modelzoo PR#85: parameters that a model has and does not train.
    """

    class Detached(Attention):
        def score(self, q: Tensor, k: Tensor) -> Tensor:
            return super().score(q.detach(), k.detach()) if sick else super().score(q, k)

    return transformer(Config(), Detached)


@case("HED004", "layers.0.attention", causal=True)
def one_head_cut_off(sick: bool) -> nn.Module:
    """The last head's read passes through ``no_grad``; the three others learn, so every parameter has a gradient."""

    class Partly(Fused):
        def attend(self, q: Tensor, k: Tensor, v: Tensor, view: View, places: Tensor) -> tuple[Tensor, Tensor | None]:
            read, weights = super().attend(q, k, v, view, places)
            return torch.cat([read[:, :-1], read[:, -1:].detach()], dim=1) if sick else read, weights

    return transformer(Config(), Partly, healthy=Fused, at=0)


@case("HED002", "layers.1.attention", causal=True)
def a_head_that_is_a_copy(sick: bool) -> nn.Module:
    """Head 1 was filled from head 0 when a checkpoint grew, and the two have moved alike ever since: a note."""
    model = transformer()
    if sick:
        with torch.no_grad():
            for name in ("query", "key", "value"):
                weight = model.get_parameter(f"layers.1.attention.{name}.weight")
                weight[8:16] = weight[:8]
    return model


@case("SCL005", "layers.0.attention", also="HED004", causal=True)
def queries_that_are_nought(sick: bool) -> nn.Module:
    """Queries begin at zero and a rate of zero keeps them there: every head averages over all it sees, a note."""
    model = transformer()
    if sick:
        nn.init.zeros_(model.get_parameter("layers.0.attention.query.weight"))
    return model
