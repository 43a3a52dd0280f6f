"""Paths: one model by two roads that lead to different places."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.clinic.case import case, whole
from tests.clinic.transformer import Attention, Config, Fused, View, transformer


@case("PTH003", "layers.1.attention", causal=True)
def a_bias_the_fused_path_leaves_out(sick: bool) -> nn.Module:
    """With weights asked for, scores get their ALiBi; the fused kernel gets the mask and no bias.

    vllm-project/vllm PR#945, AnswerDotAI/ModernBERT PR#40: each path looks sound alone.
    """

    class Unbiased(Fused):
        def bias(self, view: View, places: Tensor) -> Tensor:
            return self.allowed(view, places) if sick else super().bias(view, places)

    return transformer(Config(positions="alibi"), Unbiased, healthy=Fused)


@case("PTH003", "layers.0.attention", batch=whole(2, 29), causal=True)
def another_scale_without_gradients(sick: bool) -> nn.Module:
    """The fast path of inference has its own scale, by the width of the model for that of a head.

    AI-Hypercomputer/maxtext#3138, fla-org/flash-linear-attention#47: a scale that one backend has and another hasn't.
    """

    class Fast(Attention):
        def score(self, q: Tensor, k: Tensor) -> Tensor:
            scores = super().score(q, k)
            return scores / 2 if sick and not torch.is_grad_enabled() else scores

    return transformer(Config(), Fast, at=0)
