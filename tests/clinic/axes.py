"""Axes: normalised, split, paired or laid out along the wrong one."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.clinic.case import case, whole
from tests.clinic.transformer import Attention, Config, Fused, View, transformer

READER = Config(causal=False)


@case("AXS001", "layers.1.attention", also="CAU001 PAD001 PAD002 CCH001 CCH002 CCH003 CCH004 CCH005", causal=True)
def a_softmax_over_the_queries(sick: bool) -> nn.Module:
    """``softmax(dim=-2)``: columns sum to one, and rows to 1.66, 0.89, 2.45. Training "works".

    PetrochukM/PyTorch-NLP#2, DEEP-PolyU/KEQA_WSDM19#2, FudanNLP/fastNLP#254,
    xmu-xiaoma666/External-Attention-pytorch#18.
    """

    class Columns(Attention):
        def normalise(self, scores: Tensor) -> Tensor:
            return torch.softmax(scores, dim=-2)

    return transformer(Config(), Columns if sick else Attention)


@case("AXS001", "layers.0.attention", also="PAD001", causal=False)
def a_softmax_over_the_heads(sick: bool) -> nn.Module:
    """``softmax(dim=1)`` on (B, H, L, S): heads compete for a pair, and no row sums to one.

    labmlai/annotated_deep_learning_paper_implementations#146, catalyst-team/catalyst PR#285.
    """

    class Heads(Attention):
        def normalise(self, scores: Tensor) -> Tensor:
            return torch.softmax(scores, dim=1).nan_to_num(0.0)  # a pair hidden in every head

    return transformer(READER, Heads if sick else Attention, at=0)


@case("AXS002", "layers.1.attention", causal=True)
def key_heads_tiled(sick: bool) -> nn.Module:
    """Four query heads read two key heads as 0, 1, 0, 1 where they were trained as 0, 0, 1, 1.

    onnx/onnx PR#7274, ByteDance-Seed/VeOmni PR#162.
    """

    class Tiled(Attention):
        def pair(self, x: Tensor) -> Tensor:
            return x.repeat(1, self.config.heads // self.config.kv_heads, 1, 1)

    return transformer(Config(kv_heads=2), Tiled if sick else Attention)


@case("AXS002", "layers.0.attention", causal=True)
def values_tiled_and_keys_not(sick: bool) -> nn.Module:
    """Keys are paired rightly and values by another helper: heads 1 and 2 look by one key head and read the other's
    values.

    apple/axlearn PR#842, PrimeIntellect-ai/prime-rl PR#2681.
    """

    class Mixed(Fused):
        def attend(self, q: Tensor, k: Tensor, v: Tensor, view: View, places: Tensor) -> tuple[Tensor, Tensor | None]:
            groups = v[:, :: self.config.heads // self.config.kv_heads]
            return super().attend(q, k, groups.repeat(1, self.config.heads // self.config.kv_heads, 1, 1), view, places)

    return transformer(Config(kv_heads=2), Mixed if sick else Fused, healthy=Fused, at=0)


@case("AXS003", "layers.0.attention", also="CAU001 PAD001 PAD002 CCH001 CCH002 CCH003 CCH004", causal=True)
def heads_split_by_a_view(sick: bool) -> nn.Module:
    """``view(B, H, L, D)`` on (B, L, H·D): head 0 holds all features of the first tokens, not its own of every token.

    reczoo/FuxiCTR#30, ajhalthor/Transformer-Neural-Network#8, gazelle93/Transformer-Various-Positional-Encoding#1.
    """

    class Viewed(Attention):
        def split(self, x: Tensor, heads: int) -> Tensor:
            return x.reshape(x.shape[0], heads, x.shape[1], self.width)

    return transformer(Config(), Viewed if sick else Attention, at=0)


@case("AXS003", "layers.1.attention", also="CAU001 PAD001 PAD002 CCH001 CCH002 CCH003 CCH004", causal=True)
def heads_merged_by_a_view(sick: bool) -> nn.Module:
    """The split is right and the merge is not: (B, H, L, D) is reshaped to (B, L, H·D) without a transpose.

    jsbaan/transformer-from-scratch PR#6, hackiey/QAnet-pytorch#2, 649453932/Chinese-Text-Classification-Pytorch#53.
    """

    class Reshaped(Attention):
        def merge(self, read: Tensor) -> Tensor:
            return read.reshape(read.shape[0], read.shape[2], -1)

    return transformer(Config(), Reshaped if sick else Attention)


@case("AXS004", "layers.0.attention", batch=whole(), also="CAU002", causal=False)
def tokens_in_the_place_of_heads(sick: bool) -> nn.Module:
    """``scaled_dot_product_attention`` got (B, L, H, D): each token attends over its own four heads, and to no token.

    The layout of flash kernels handed to PyTorch's; apple/axlearn PR#842 met it in a helper.
    """

    class Swapped(Fused):
        def attend(self, q: Tensor, k: Tensor, v: Tensor, view: View, places: Tensor) -> tuple[Tensor, Tensor | None]:
            q, k, v = (x.transpose(1, 2) for x in (q, k, v))
            return F.scaled_dot_product_attention(q, k, v).transpose(1, 2), None

    return transformer(READER, Swapped if sick else Fused, healthy=Fused, at=0)


@case("AXS004", "layers.1.attention", batch=whole(), also="CAU002", causal=False)
def a_product_over_the_heads(sick: bool) -> nn.Module:
    """An einsum whose letters sum tokens' own heads: ``blhd,blgd->blhg``. Every shape fits, no text is read.

    hackiey/QAnet-pytorch#2 and labmlai/annotated_deep_learning_paper_implementations#282 are about such letters.
    """

    class Letters(Attention):
        def attend(self, q: Tensor, k: Tensor, v: Tensor, view: View, places: Tensor) -> tuple[Tensor, Tensor | None]:
            weights = torch.softmax(torch.einsum("bhld,bgld->blhg", q, k) / math.sqrt(self.width), dim=-1)
            return torch.einsum("blhg,bgld->bhld", weights, v), weights

    return transformer(READER, Letters if sick else Attention)
