"""Scale: none, twice, or more than the format holds."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.flex_attention import flex_attention

from tests.clinic.case import case, whole
from tests.clinic.transformer import Attention, Config, Fused, Plain, View, transformer

WIDE = Config(heads=2, width=64, kv_heads=2)  # heads of width 32: an unscaled score has a spread of 5.7


@case("SCL001", "layers.1.attention", causal=True)
def no_root_of_the_width(sick: bool) -> nn.Module:
    """Scores of unit queries and keys spread by √D for 1. The softmax still sums to one, and looks at little.

    delzac/cntkx#10, mlc-ai/mlc-llm PR#3426, Project-MONAI/GenerativeModels#146, PAIR-code/tiny-transformers#71.
    """

    class Unscaled(Attention):
        def score(self, q: Tensor, k: Tensor) -> Tensor:
            return q @ k.mT

    return transformer(WIDE, Unscaled if sick else Attention)


@case("SCL001", "layers.0.attention", causal=True)
def a_scale_of_one(sick: bool) -> nn.Module:
    """``scale=1.0`` to the fused kernel, from code whose queries used to be scaled beforehand.

    tenstorrent/tt-metal#33304, fla-org/flash-linear-attention#47: a scale that one backend has and another ignores.
    """

    class One(Fused):
        def attend(self, q: Tensor, k: Tensor, v: Tensor, view: View, places: Tensor) -> tuple[Tensor, Tensor | None]:
            return F.scaled_dot_product_attention(q, k, v, self.bias(view, places), scale=1.0), None

    return transformer(WIDE, One if sick else Fused, healthy=Fused, at=0)


@case("SCL002", "layers.1.attention", causal=True)
def scaled_and_scaled_again(sick: bool) -> nn.Module:
    """Queries are divided by √D, and the fused kernel divides once more: every head averages.

    AI-Hypercomputer/maxtext#3138.
    """

    class Twice(Fused):
        def attend(self, q: Tensor, k: Tensor, v: Tensor, view: View, places: Tensor) -> tuple[Tensor, Tensor | None]:
            return super().attend(q / math.sqrt(self.width), k, v, view, places)

    return transformer(WIDE, Twice if sick else Fused, healthy=Fused)


@case("SCL002", "layers.0.attention", causal=True)
def the_width_for_its_root(sick: bool) -> nn.Module:
    """Divided by D, not by √D, in code written by hand.

    AI-Hypercomputer/maxtext#3138, by another road.
    """

    class Width(Attention):
        def score(self, q: Tensor, k: Tensor) -> Tensor:
            return q @ k.mT / self.width

    return transformer(WIDE, Width if sick else Attention, at=0)


@case("SCL002", "layers.1.attention", batch=whole(2, 11), causal=True)
def flexed_and_scaled_before(sick: bool) -> nn.Module:
    """``flex_attention`` scales by 1/√D like its sister; the queries came scaled from older code.

    AI-Hypercomputer/maxtext#3138, in its newest dress.
    """

    def causal(score: Tensor, row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return torch.where(key <= query, score, -math.inf)

    class Flexed(Attention):
        def attend(self, q: Tensor, k: Tensor, v: Tensor, view: View, places: Tensor) -> tuple[Tensor, Tensor | None]:
            read = flex_attention(q / math.sqrt(self.width) if sick else q, k, v, score_mod=causal)
            assert isinstance(read, Tensor)
            return read, None

    return transformer(WIDE, Flexed, model=Plain)


@case("SCL003", "layers.1.attention", batch=whole(2, 19), also="NUM001 NUM002 HED004", causal=True)
def queries_and_keys_that_have_grown(sick: bool) -> nn.Module:
    """The norms of queries and keys have grown for weeks, and a product of theirs nears 65,504, where float16 ends.
    The twin normalises both.

    lucidrains/imagen-pytorch#69, facebookresearch/xformers PR#98, huggingface/transformers#45676, NVlabs/PixelDiT#14.
    """

    class Grown(Attention):
        def score(self, q: Tensor, k: Tensor) -> Tensor:
            return super().score(self.tamed(40 * q), self.tamed(40 * k))

        def tamed(self, x: Tensor) -> Tensor:
            return x if sick else F.rms_norm(x.float(), (self.width,)).to(x.dtype)

    return transformer(WIDE, Grown).half()
