"""Company: a row's result depends on the rows beside it."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from tests.clinic.case import case, padded, whole
from tests.clinic.memory import Memory
from tests.clinic.pytorch import HEADS, Tagger
from tests.clinic.transformer import Attention, Config, Layer, Transformer, View, transformer

READER = Config(causal=False)


@case("BAT001", "layers.1.attention", batch=padded(29, 13), also="PAD001 PAD002 MSK004", causal=False)
def a_mask_whose_batch_lies_on_the_key_heads(sick: bool) -> nn.Module:
    """Scores become (B, G, H/G, L, S) and the mask stays (B, 1, L, S), so its batch axis meets the key heads. With
    any other batch size this is an error; with as many rows as key heads it runs.

    ml-explore/mlx-lm PR#1903, lucidrains/graph-transformer-pytorch PR#2.
    """

    class Grouped(Attention):
        def hide(self, scores: Tensor, allowed: Tensor) -> Tensor:
            scores = scores.unflatten(1, (self.config.kv_heads, -1))
            allowed = allowed if sick and allowed.shape[0] == 2 else allowed.unsqueeze(2)
            return super().hide(scores, allowed).flatten(1, 2)

    return transformer(Config(causal=False, kv_heads=2), Grouped)


@case("BAT001", "encoder.layers.0.self_attn", also="PAD001 PAD002", causal=False)
def a_mask_repeated_in_the_wrong_order(sick: bool) -> nn.Module:
    """``nn.MultiheadAttention`` wants a mask of (B·H, L, S) with a row's heads side by side; ``repeat`` lays the rows
    side by side, and each row wears its neighbour's mask.

    pytorch/pytorch#63271 and its like.
    """

    class Patient(Tagger):
        def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
            self.mask = attention_mask
            return super().forward(input_ids, attention_mask)

        def hidden(self, mask: Tensor) -> Tensor | None:
            return None

        def triangle(self, x: Tensor) -> Tensor | None:
            if self.mask is None:
                return None
            own = torch.eye(x.shape[1], dtype=torch.bool)
            hide = (self.mask == 0)[:, None, :] & ~own
            return hide.repeat(HEADS, 1, 1) if sick else hide.repeat_interleave(HEADS, dim=0)

    return Patient.seeded()


@case(
    "BAT001",
    "encoder.layers.0.self_attn",
    also="AXS004 PAD001 PAD002 CAU002",
    batch=whole(3, 23),
    causal=False,
)
def batch_first_forgotten(sick: bool) -> nn.Module:
    """``nn.TransformerEncoderLayer`` without ``batch_first=True`` takes (B, L, width) for (L, B, width): each token
    attends to the tokens at its place in the *other* texts.

    The layout slip of nerminnuraydogan/vision-transformer#1 and FudanNLP/fastNLP#254.
    """

    class Patient(Tagger):
        batch_first = not sick

        def hidden(self, mask: Tensor) -> Tensor | None:
            return None if sick else super().hidden(mask)

    return Patient.seeded()


@case("BAT001", "layers.0", batch=whole(3, 23), also="CAU001", causal=False)
def statistics_of_the_batch(sick: bool) -> nn.Module:
    """A normalisation that takes its mean and variance over the rows of the batch, in eval mode too."""

    class Normed(Layer):
        def forward(self, x: Tensor, view: View, memory: Memory | None) -> tuple[Tensor, Tensor | None]:
            over = (0, -1) if sick else (-1,)
            mean, spread = x.mean(over, keepdim=True), x.std(over, keepdim=True)
            return super().forward((x - mean) / spread, view, memory)

    class Patient(Transformer):
        layer = Normed

    return transformer(READER, model=Patient)


@case("BAT001", "layers.1.attention", also="PAD001 PAD002", causal=False)
def four_bits_with_one_scale_for_all(sick: bool) -> nn.Module:
    """Queries are rounded to four bits with one scale for the whole tensor: a loud row makes its neighbours coarse.

    Not to eight: with steps that fine the last bit of a weight takes a number across an edge in 5 models of 60, and
    then the doctor says that it cannot judge.
    """

    class Rounded(Attention):
        def score(self, q: Tensor, k: Tensor) -> Tensor:
            largest = q.abs().amax() if sick else q.abs().amax(-1, keepdim=True)
            step = largest / 7
            return (q / step).round() * step @ k.mT / math.sqrt(self.width)

    return transformer(READER, Rounded)


@case("BAT001", "layers.0.attention", also="PAD001 PAD002 AXS003 CAU001", batch=whole(4, 23), causal=False)
def heads_folded_across_rows(sick: bool) -> nn.Module:
    """Heads are folded into the batch by a ``view`` and taken out in the other order: a row gets its neighbours' heads.

    649453932/Chinese-Text-Classification-Pytorch#10, meta-pytorch/opacus PR#825: head and batch axes exchanged.
    """

    class Folded(Attention):
        def merge(self, read: Tensor) -> Tensor:
            rows, heads, length, width = read.shape
            flat = read.flatten(0, 1)  # (B H, L, D)
            back = flat.view(heads, rows, length, width).transpose(0, 1) if sick else flat.view(read.shape)
            return super().merge(back)

    return transformer(READER, Folded if sick else Attention, at=0)
