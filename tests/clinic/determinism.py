"""Determinism: two runs in eval mode that differ."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.clinic.case import case
from tests.clinic.transformer import Attention, Config, Fused, View, transformer


@case("DET001", "layers.1.attention", causal=True)
def a_draw_in_every_call(sick: bool) -> nn.Module:
    """Gumbel noise on the scores, meant for training, is drawn in eval mode as well.

    NVIDIA/torch-harmonics PR#221, facebookresearch/vjepa2 PR#160: randomness that does not know the mode.
    """

    class Noisy(Attention):
        def score(self, q: Tensor, k: Tensor) -> Tensor:
            scores = super().score(q, k)
            return scores - torch.empty_like(scores).exponential_().log() if sick or self.training else scores

    return transformer(Config(), Noisy)


@case("DET002", "layers.1.attention", also="DET001", causal=True)
def a_function_that_does_not_know_the_mode(sick: bool) -> nn.Module:
    """``scaled_dot_product_attention(…, dropout_p=self.p)``: the function drops whatever the mode.

    pytorch/pytorch#124464, pytorch/pytorch#99293, huggingface/pytorch-image-models PR#1978, suno-ai/bark PR#662.
    """

    class Dropping(Fused):
        def attend(self, q: Tensor, k: Tensor, v: Tensor, view: View, places: Tensor) -> tuple[Tensor, Tensor | None]:
            dropout = self.config.dropout if sick or self.training else 0.0
            return F.scaled_dot_product_attention(q, k, v, self.bias(view, places), dropout), None

    return transformer(Config(dropout=0.1), Dropping, healthy=Fused)


@case("DET002", "layers.0.attention", also="DET001", causal=True)
def dropout_written_by_hand(sick: bool) -> nn.Module:
    """``F.dropout(weights, p)`` without ``training=self.training``: its default is True.

    pytorch/pytorch#99293, meta-pytorch/torchtune#1791.
    """

    class Dropping(Attention):
        def normalise(self, scores: Tensor) -> Tensor:
            return F.dropout(torch.softmax(scores, dim=-1), 0.1, training=sick or self.training)

    return transformer(Config(dropout=0.1), Dropping, at=0)


@case("DET003", "layers.1.attention", also="DET001", causal=True)
def a_memory_left_in_the_module(sick: bool) -> nn.Module:
    """The last call's mean value is kept in the module "for smoothing" and read by the next call, whoever makes it.

    ml-explore/mlx-lm#1776: one model's state in another's reading.
    """

    class Smoothed(Attention):
        kept: Tensor | None = None

        def attend(self, q: Tensor, k: Tensor, v: Tensor, view: View, places: Tensor) -> tuple[Tensor, Tensor | None]:
            read, weights = super().attend(q, k, v, view, places)
            kept, self.kept = self.kept, v.detach().mean((0, 2), keepdim=True)
            return read if kept is None or not sick else 0.9 * read + 0.1 * kept.to(read), weights

    return transformer(Config(), Smoothed)


@case("DET003", "layers.0.attention", also="PAD001 PAD002 BAT001 CCH003 CAU001 CAU003 NUM001", causal=False)
def a_mask_remembered_by_its_shape(sick: bool) -> nn.Module:
    """Building the mask is costly, so it is kept by its shape; the next batch of that shape wears the last one's mask.

    The cached block masks of pytorch/pytorch#139462 and kuleshov-group/bd3lms#23 invite it.
    """

    class Thrifty(Attention):
        def __init__(self, config: Config) -> None:
            super().__init__(config)
            self.known: dict[tuple[int, ...], Tensor] = {}

        def allowed(self, view: View, places: Tensor) -> Tensor:
            fresh = super().allowed(view, places)
            return self.known.setdefault(tuple(fresh.shape), fresh) if sick else fresh

    return transformer(Config(causal=False), Thrifty, at=0)
