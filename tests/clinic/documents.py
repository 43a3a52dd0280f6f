"""Packed documents: several texts in one row, which must not see each other."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.clinic.case import Batch, case, text
from tests.clinic.transformer import Attention, Transformer, View, transformer


class Packed(Transformer):
    """Where positions start again, a new document begins."""

    def view(self, ids: Tensor, mask: Tensor | None, positions: Tensor | None, past: int) -> View:
        view = super().view(ids, mask, positions, past)
        return view if positions is None else replace(view, documents=self.documents(positions, mask))

    def documents(self, positions: Tensor, mask: Tensor | None) -> Tensor | None:
        return F.pad(positions.diff(dim=-1) != 1, (1, 0)).cumsum(-1)


def packed(sick: bool) -> Batch:
    """Two rows of three documents each."""
    lengths = [(11, 13, 7), (5, 7, 19)]
    positions = torch.stack([torch.cat([torch.arange(n) for n in row]) for row in lengths])
    return {"input_ids": text(2, 31), "position_ids": positions}


def packed_and_masked(sick: bool) -> Batch:
    batch = packed(sick)
    return {**batch, "attention_mask": torch.ones_like(batch["input_ids"])}


@case("DOC001", "layers.0.attention", batch=packed, causal=True)
def positions_start_again_and_nothing_else(sick: bool) -> nn.Module:
    """Positions are reset at each document, and that is taken for isolation. It is no mask.

    alex-hh/profam#495, huggingface/trl#784, huggingface/transformers#25452, karpathy/nanoGPT#280.
    """
    return transformer(model=Transformer if sick else Packed)


@case("DOC001", "layers.0.attention", batch=packed_and_masked, causal=True)
def a_mask_of_ones_that_turns_isolation_off(sick: bool) -> nn.Module:
    """Packing is recognised from the positions only where no mask is given, and a collator gives one of all ones.

    huggingface/transformers PR#46634, huggingface/transformers PR#39194.
    """

    class Either(Packed):
        def documents(self, positions: Tensor, mask: Tensor | None) -> Tensor | None:
            return None if mask is not None else super().documents(positions, mask)

    return transformer(model=Either if sick else Packed)


@case("DOC001", "layers.0.attention", batch=packed, also="POS005", causal=True)
def a_border_one_token_late(sick: bool) -> nn.Module:
    """The first token of a document is counted to the one before it, and reads all of it.

    The bounds of huggingface/nanoVLM PR#204 and DeepOpt-com/WrinkleFree-Monorepo#53 are where such slips live.
    """

    class Late(Packed):
        def documents(self, positions: Tensor, mask: Tensor | None) -> Tensor | None:
            ids = super().documents(positions, mask)
            return ids if ids is None else torch.cat([ids[:, :1], ids[:, :-1]], dim=1)

    return transformer(model=Late if sick else Packed)


@case("DOC001", "layers.1.attention", batch=packed, causal=True)
def one_layer_that_reads_across(sick: bool) -> nn.Module:
    """Layers of two kinds, and only one kind was given the documents.

    mosaicml/llm-foundry#1464, allenai/open-instruct#669: do packed samples see each other? It depends on the layer.
    """

    class Global(Attention):
        def allowed(self, view: View, places: Tensor) -> Tensor:
            return super().allowed(replace(view, documents=None), places)

    return transformer(attention=Global if sick else Attention, model=Packed)
