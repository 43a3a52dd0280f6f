"""Padding: it is read, it is counted, or it is called real."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from tests.clinic.case import Batch, case, padded
from tests.clinic.memory import Memory
from tests.clinic.pytorch import WIDTH, Knower, Reciter, Tagger, Translator, known, recited, sources
from tests.clinic.transformer import Attention, Config, Fused, Layer, Transformer, View, transformer

READER = Config(causal=False)


@case("PAD001", "layers.1.attention", causal=False)
def a_mask_nobody_hands_on(sick: bool) -> nn.Module:
    """One layer never gets the mask. A zero pad is no mask: its score is 0, so it still has weight.

    OpenNMT/OpenNMT-py#272, OpenNMT/OpenNMT-py#67, tensorflow/tensorflow#512.
    """

    class Deaf(Attention):
        def allowed(self, view: View, places: Tensor) -> Tensor:
            return super().allowed(replace(view, real=None), places)

    return transformer(READER, Deaf if sick else Attention)


@case("PAD001", "layers.0.attention", also="PTH003", causal=False)
def the_fused_path_goes_without_a_mask(sick: bool) -> nn.Module:
    """The hand-written path masks, the fused one was given no mask "for speed"; the two disagree on padding.

    AnswerDotAI/ModernBERT PR#40, pacman100/LLM-Workshop#1.
    """

    class Hasty(Fused):
        def bias(self, view: View, places: Tensor) -> Tensor:
            return super().bias(replace(view, real=None), places)

    return transformer(READER, Hasty if sick else Fused, healthy=Fused, at=0)


@case("PAD001", "layers.1.attention", also="CCH003", causal=True)
def lengths_that_know_one_side(sick: bool) -> nn.Module:
    """The mask becomes lengths and back: right for padding on the right, and on the left it hides the last tokens.

    lucidrains/x-transformers#187, AI4Bharat/IndicBERT#20.
    """

    class OneSided(Attention):
        def allowed(self, view: View, places: Tensor) -> Tensor:
            if view.real is not None:
                lengths = view.real.sum(-1, keepdim=True)
                view = replace(view, real=torch.arange(view.real.shape[1]) < lengths)
            return super().allowed(view, places)

    return transformer(Config(positions="none"), OneSided if sick else Attention)


@case("PAD001", "layers.0.attention", causal=False)
def pads_hidden_from_pads_only(sick: bool) -> nn.Module:
    """The mask is laid on the queries' axis: pads see nothing and every real token sees the pads.

    pytorch/pytorch#63271 (padding applied to rows where columns were meant).
    """

    class Rows(Attention):
        def allowed(self, view: View, places: Tensor) -> Tensor:
            if view.real is None:
                return super().allowed(view, places)
            here = torch.eye(len(places), dtype=torch.bool)
            return super().allowed(replace(view, real=None), places) & (view.real[:, None, :, None] | here)

    return transformer(READER, Rows if sick else Attention, at=0)


class Pooling(Layer):
    """A layer that also adds the mean of its row to each token of it."""

    def forward(self, x: Tensor, view: View, memory: Memory | None) -> tuple[Tensor, Tensor | None]:
        x, weights = super().forward(x, view, memory)
        return x + self.pool(x, view), weights

    def pool(self, x: Tensor, view: View) -> Tensor:
        if view.real is None:
            return x.mean(1, keepdim=True)
        real = view.real[..., None].to(x.dtype)
        return (x * real).sum(1, keepdim=True) / real.sum(1, keepdim=True).clamp(min=1)


@case("PAD001", "layers.0", causal=False, also="PAD002")
def a_mean_over_pads(sick: bool) -> nn.Module:
    """Attention is right; a mean over the row, given back to each token, counts the pads.

    The shape of yg211/bert_nli PR#3 and AI4Bharat/IndicBERT#20: real states move by much of their size.
    """

    class Everyone(Pooling):
        def pool(self, x: Tensor, view: View) -> Tensor:
            return x.mean(1, keepdim=True)

    class Patient(Transformer):
        layer = Everyone if sick else Pooling

    return transformer(READER, model=Patient)


@case("PAD002", "place", also="POS005", causal=False)
def positions_as_a_share_of_the_width(sick: bool) -> nn.Module:
    """Positions run from 0 to 1 over the padded width: a longer neighbour moves every token of a short row.

    huggingface/transformers#26380: results that depend on the longest sample of the batch.
    """

    class Share(nn.Module):
        def forward(self, x: Tensor, view: View) -> Tensor:
            last = torch.tensor(x.shape[1] - 1) if sick else view.positions.amax(-1, keepdim=True).clamp(min=1)
            share = (view.positions / last)[..., None] * torch.linspace(1, 3, x.shape[-1])
            return x + share.to(x.dtype)

    class Patient(Transformer):
        def __init__(self, config: Config, attentions: Sequence[type[Attention]]) -> None:
            super().__init__(config, attentions)
            self.place = Share()

        def embed(self, ids: Tensor, view: View) -> Tensor:
            x: Tensor = self.place(super().embed(ids, view), view)
            return x

    return transformer(replace(READER, positions="none"), model=Patient)


@case("PAD002", "layers.1.attention", also="POS005", causal=False)
def a_temperature_of_the_padded_length(sick: bool) -> nn.Module:
    """Scores grow by the logarithm of the length, and the length is that of the batch, not of the row.

    huggingface/transformers#26380.
    """

    class LogLength(Attention):
        def attend(self, q: Tensor, k: Tensor, v: Tensor, view: View, places: Tensor) -> tuple[Tensor, Tensor | None]:
            keys = torch.tensor(float(len(places)))
            if view.real is not None and not sick:
                keys = view.real.sum(-1).clamp(min=1)[:, None, None, None].to(q.dtype)
            return super().attend(q * keys.log(), k, v, view, places)

    return transformer(READER, LogLength)


def called_real(sick: bool) -> Batch:
    """Padded with the id 1 and, by the same slip, with 1 in the mask."""
    batch = padded(pad=1)
    return {**batch, "attention_mask": torch.ones_like(batch["attention_mask"])} if sick else batch


@case("PAD003", "", batch=called_real, causal=False, pad_id=1)
def a_mask_that_is_all_ones(sick: bool) -> nn.Module:
    """The model is sound; the mask was padded with the pad *id*, which is 1, so every pad is called a token.

    JoakimEdin/medical-coding-reproducibility#13, yg211/bert_nli PR#3, tloen/alpaca-lora PR#107.
    """
    return transformer(READER)


@case("PAD004", "decoder.layers.1.multihead_attn", batch=sources, tokens="decoder_input_ids", causal=True)
def a_decoder_that_reads_the_pads_of_its_source(sick: bool) -> nn.Module:
    """``nn.TransformerDecoder`` without ``memory_key_padding_mask``: the encoder masks, the cross-attention doesn't.

    huggingface/transformers PR#47946, OpenNMT/OpenNMT-py#272.
    """

    class Patient(Translator):
        def cross_mask(self, layer: int, source_real: Tensor) -> Tensor | None:
            return None if sick and layer == 1 else super().cross_mask(layer, source_real)

    return Patient.seeded()


@case("PAD001", "encoder.layers.0.self_attn", causal=False)
def a_tagger_that_forgets_its_key_padding_mask(sick: bool) -> nn.Module:
    """``nn.TransformerEncoder`` called without ``src_key_padding_mask``; labels of pads are ignored, pads are not.

    MaximumEntropy/Seq2Seq-PyTorch#6, OpenNMT/OpenNMT-py#30.
    """

    class Patient(Tagger):
        def hidden(self, mask: Tensor) -> Tensor | None:
            return None if sick else super().hidden(mask)

    return Patient.seeded()


@case("PAD001", "layers.1.attention", causal=False, also="MSK003 MSK004")
def pads_that_keep_a_little(sick: bool) -> nn.Module:
    """A soft penalty of −4 stands for the mask, so a pad keeps e⁻⁴ of its weight.

    The small form of pytorch/pytorch#21518: a float that was meant to hide, and hides too little.
    """

    class Lenient(Attention):
        def hide(self, scores: Tensor, allowed: Tensor) -> Tensor:
            return scores + torch.zeros_like(scores).masked_fill(~allowed, -4.0 if sick else -math.inf)

    return transformer(READER, Lenient)


@case("PAD001", "encoder", batch=recited, causal=True)
def an_encoder_that_reads_the_pads_first(sick: bool) -> nn.Module:
    """A GRU both ways over a padded batch that nobody packed: the way back begins in the padding.

    OpenNMT/OpenNMT-py#272; the bidirectional form of AI4Bharat/IndicBERT#20.
    """

    class Patient(Reciter):
        def read(self, x: Tensor, lengths: Tensor) -> Tensor:
            if not sick:
                return super().read(x, lengths)
            states: Tensor = self.encoder(x)[0]
            return states

    return Patient.seeded()


@case("PAD002", "attention", batch=recited, causal=True)
def a_zero_that_is_no_mask(sick: bool) -> nn.Module:
    """Packing left zeros at the padding, and the look runs over them too: their score is 0, so they have weight.

    OpenNMT/OpenNMT-py#67, tensorflow/tensorflow#512.
    """

    class Patient(Reciter):
        def seen(self, source: Tensor, lengths: Tensor) -> Tensor:
            return torch.ones_like(source, dtype=torch.bool) if sick else super().seen(source, lengths)

    return Patient.seeded()


@case("PAD004", "attention", batch=known, mask="words", target="heard", pad_id=0, causal=True)
def a_look_at_what_pads_are_embedded_as(sick: bool) -> nn.Module:
    """Words are looked at as they are embedded, without an encoder: the pad's embedding is one of them."""

    class Patient(Knower):
        def __init__(self) -> None:
            super().__init__()
            self.project = nn.Linear(WIDTH, 2 * WIDTH)

        def read(self, x: Tensor, lengths: Tensor) -> Tensor:
            states: Tensor = self.project(x)
            return states

        def seen(self, source: Tensor, lengths: Tensor) -> Tensor:
            return torch.ones_like(source, dtype=torch.bool) if sick else super().seen(source, lengths)

    return Patient.seeded()
