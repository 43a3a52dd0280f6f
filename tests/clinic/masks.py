"""Masks: the wrong way round, of the wrong value, at the wrong moment, or with nothing left."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.clinic.case import case, whole
from tests.clinic.pytorch import Speaker, Tagger
from tests.clinic.transformer import Attention, Config, Fused, View, transformer

READER = Config(causal=False)


@case("MSK001", "layers.1.attention", also="PAD001 PAD002 CAU002 MSK005 NUM001 PTH003", causal=False)
def hide_for_look(sick: bool) -> nn.Module:
    """``scaled_dot_product_attention`` reads True as *may look*; it got True for *hide*, and reads nothing but pads.

    pytorch/pytorch PR#170415, pytorch/pytorch PR#114083, rasbt/LLMs-from-scratch#1061, NVIDIA/TransformerEngine#614.
    """

    class Inverted(Fused):
        def allowed(self, view: View, places: Tensor) -> Tensor:
            return ~super().allowed(view, places)

    return transformer(READER, Inverted if sick else Fused, healthy=Fused)


@case(
    "MSK001",
    "layers.0.attention",
    batch=whole(),
    also="CAU001 CAU002 CCH001 PAD001 MSK005 PTH003",
    causal=True,
)
def a_triangle_the_wrong_way_round(sick: bool) -> nn.Module:
    """``triu(1)`` handed to a function that reads it as *may look*: each token reads only the future, the last nothing.

    pytorch/pytorch#117939, patrick-kidger/equinox PR#463, lucidrains/x-transformers#164, karpathy/nanoGPT#170.
    """

    class Upper(Fused):
        def bias(self, view: View, places: Tensor) -> Tensor:
            if len(places) == 1:
                return super().bias(view, places)
            return ~super().bias(view, places)

    return transformer(Config(), Upper if sick else Fused, healthy=Fused, at=0)


@case("MSK001", "encoder.layers.0.self_attn", also="PAD001 PAD002 CAU002 MSK005 NUM001 PTH003", causal=False)
def look_for_hide(sick: bool) -> nn.Module:
    """``nn.MultiheadAttention`` reads True as *hide*; it got ``attention_mask.bool()``, which is True for *real*.

    lucidrains/x-transformers#164, pytorch/pytorch PR#120668.
    """

    class Patient(Tagger):
        def hidden(self, mask: Tensor) -> Tensor | None:
            return mask.bool() if sick else super().hidden(mask)

    return Patient.seeded()


@case("MSK002", "layers.1.attention", also="CAU001 CCH001 PAD001 MSK003 MSK004 PTH003", causal=True)
def ones_and_noughts_added(sick: bool) -> nn.Module:
    """A float mask of 1 and 0 is *added* to the scores, so the first token of five leaves 0.595 of its weight on the
    future.

    pytorch/pytorch#21518, pytorch/pytorch#163026, pytorch/pytorch#136816, timeseriesAI/tsai#171.
    """

    class Numbers(Fused):
        def bias(self, view: View, places: Tensor) -> Tensor:
            return super().bias(view, places).float() if sick else super().bias(view, places)

    return transformer(Config(), Numbers, healthy=Fused)


@case("MSK002", "encoder.layers.0.self_attn", batch=whole(), also="CAU001 MSK003 MSK004 NUM001 PTH003", causal=True)
def a_lower_triangle_added(sick: bool) -> nn.Module:
    """``tril`` as floats in ``nn.TransformerEncoder``: allowed pairs get one more, forbidden ones nothing less.

    pytorch/pytorch#137887, pytorch/pytorch#21518.
    """

    class Patient(Speaker):
        def triangle(self, x: Tensor) -> Tensor | None:
            ones = torch.ones(x.shape[1], x.shape[1])
            return ones.tril() if sick else torch.zeros_like(ones).masked_fill(ones.triu(1) > 0, -math.inf)

    return Patient.seeded()


@case("MSK003", "layers.1.attention", also="NUM002", causal=False)
def a_constant_that_half_precision_cannot_hold(sick: bool) -> nn.Module:
    """``masked_fill(−1e9)``: right in float32, an error in float16, whose numbers end at 65,504, and elsewhere −inf.

    facebookresearch/fairseq#3575, NVIDIA/apex#93, google/flax#982, openai/gpt-2 PR#122.
    """

    class Billion(Attention):
        def hide(self, scores: Tensor, allowed: Tensor) -> Tensor:
            return scores.masked_fill(~allowed, -1e9 if sick else -math.inf)

    return transformer(READER, Billion)


@case("MSK003", "layers.0.attention", also="MSK004 PAD001 PAD002", causal=False)
def a_constant_above_the_scores(sick: bool) -> nn.Module:
    """Scores are squared distances below zero, of which −30 is an ordinary one: the pads, filled with −30, are near.

    ahrefs/ocannl#548, hyunwoongko/transformer PR#40: the constant fits some scores and not others.
    """

    class Thirty(Attention):
        def score(self, q: Tensor, k: Tensor) -> Tensor:
            return -2 * (q[:, :, :, None] - k[:, :, None]).square().sum(-1)

        def hide(self, scores: Tensor, allowed: Tensor) -> Tensor:
            return scores.masked_fill(~allowed, -30.0 if sick else -math.inf)

    return transformer(READER, Thirty, at=0)


@case("MSK004", "layers.1.attention", also="PAD001 PAD002", causal=False)
def scores_multiplied_by_the_mask(sick: bool) -> nn.Module:
    """A hidden score becomes 0, not −inf: of [2, 0, −1, −3] with two kept, weights .711 .096 .096 .096 for .881 .119.

    huggingface/pytorch-image-models PR#2236, georg-wolflein/good-features PR#1.
    """

    class Multiplied(Attention):
        def hide(self, scores: Tensor, allowed: Tensor) -> Tensor:
            return scores * allowed

    return transformer(READER, Multiplied if sick else Attention)


@case("MSK004", "layers.0.attention", also="PAD001 PAD002 MSK003 MSK005", causal=False)
def minus_infinity_with_the_sign_lost(sick: bool) -> nn.Module:
    """The smallest positive number (``finfo.tiny``) where the most negative one (``finfo.min``) was meant.

    gabrielmittag/NISQA#17, lucidrains/memory-compressed-attention#2: masks with the wrong sign or size.
    """

    class Tiny(Attention):
        def hide(self, scores: Tensor, allowed: Tensor) -> Tensor:
            limits = torch.finfo(scores.dtype)
            return scores.masked_fill(~allowed, limits.tiny if sick else limits.min)

    return transformer(READER, Tiny, at=0)


@case("MSK005", "layers.0.attention", batch=whole(), also="NUM001 PTH003", causal=True)
def a_first_token_with_nothing_to_see(sick: bool) -> nn.Module:
    """The triangle leaves out the diagonal, so the first token of every text has no key, and reads 0 without a word.

    pytorch/pytorch#103749, ml-explore/mlx PR#2406, iree-org/iree PR#24178.
    """

    class Strict(Fused):
        def reach(self, back: Tensor, causal: bool) -> Tensor:
            return super().reach(back, causal) & (back != 0)

    return transformer(Config(), Strict if sick else Fused, healthy=Fused, at=0)


@case(
    "MSK003",
    "layers.1.attention",
    batch=whole(),
    also="CAU001 CCH001 PAD001 MSK004 MSK005",
    causal=True,
)
def an_empty_row_that_reads_everything(sick: bool) -> nn.Module:
    """The same with −1e9 for −inf: the constant swallows the scores, and the first token reads the mean of
    *everything*, the future included, without a NaN.

    ajhalthor/Transformer-Neural-Network#15, hyunwoongko/transformer PR#40, huggingface/transformers PR#33317.
    """

    class Mean(Attention):
        def reach(self, back: Tensor, causal: bool) -> Tensor:
            seen = super().reach(back, causal)
            return seen & (back != 0) if sick else seen

        def hide(self, scores: Tensor, allowed: Tensor) -> Tensor:
            return scores.masked_fill(~allowed, -1e9 if sick else -math.inf)

    return transformer(Config(), Mean)


@case("MSK006", "layers.1.attention", causal=True)
def a_mask_and_the_flag(sick: bool) -> nn.Module:
    """A mask *and* ``is_causal=True``: the documentation says error, the fused CPU kernel uses both, another raises.

    keras-team/keras PR#23040 (review), pytorch/pytorch#103082.
    """

    class Both(Fused):
        def attend(self, q: Tensor, k: Tensor, v: Tensor, view: View, places: Tensor) -> tuple[Tensor, Tensor | None]:
            bias, square = self.bias(view, places), len(places) == len(view.places)
            return F.scaled_dot_product_attention(q, k, v, bias, is_causal=sick and square), None

    return transformer(Config(), Both, healthy=Fused)


@case("MSK007", "layers.1.attention", also="CAU001 CCH001 PAD001 MSK004 AXS001", causal=True)
def weights_multiplied_by_the_mask(sick: bool) -> nn.Module:
    """The mask comes after the softmax. Hidden weights are 0, but they had their share of the sum: a forbidden score
    that rises from 3 to 9 moves an allowed weight from 0.090 to 0.0003.

    nerminnuraydogan/vision-transformer#1, huggingface/pytorch-image-models PR#2236.
    """

    class After(Attention):
        def attend(self, q: Tensor, k: Tensor, v: Tensor, view: View, places: Tensor) -> tuple[Tensor, Tensor | None]:
            weights = self.normalise(self.score(q, k)) * self.allowed(view, places)
            return weights @ v, weights

    return transformer(Config(), After if sick else Attention)
