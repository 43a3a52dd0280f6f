"""Positions: an order where none is meant, and a window that reaches too far."""

from __future__ import annotations

from torch import Tensor, nn

from tests.clinic.case import case, whole
from tests.clinic.transformer import Attention, Config, Transformer, View, transformer

SET = Config(causal=False, positions="none")


@case("POS003", "", batch=whole(2, 19), causal=False, sets=True)
def a_set_with_an_order(sick: bool) -> nn.Module:
    """A model said to read a set still adds positions to its members."""

    class Ordered(Transformer):
        def embed(self, ids: Tensor, view: View) -> Tensor:
            x = super().embed(ids, view)
            if sick:
                x[..., 0] += 0.01 * view.positions
            return x

    return transformer(SET, model=Ordered)


@case(
    "POS003",
    "layers.0.attention",
    batch=whole(2, 19),
    also="AXS003 PAD001 PAD002",
    causal=False,
    sets=True,
)
def a_set_whose_heads_mix_its_members(sick: bool) -> nn.Module:
    """Heads are merged by a ``reshape`` without a transpose, so a member's result holds parts of its neighbours.

    reczoo/FuxiCTR#30, jsbaan/transformer-from-scratch PR#6.
    """

    class Mixed(Attention):
        def merge(self, read: Tensor) -> Tensor:
            return read.reshape(read.shape[0], read.shape[2], -1)

    return transformer(SET, Mixed if sick else Attention, at=0)


@case("POS004", "layers.0.attention", batch=whole(2, 31), causal=True)
def a_window_of_one_key_more(sick: bool) -> nn.Module:
    """A window of 7 keys handed to a kernel that counts neighbours on the left: 7, and the token itself.

    huggingface/transformers#39408, huggingface/transformers#29623, vllm-project/vllm#3385, zml/zml PR#763.
    """

    class Neighbours(Attention):
        def reach(self, back: Tensor, causal: bool) -> Tensor:
            return (back >= 0) & (back <= 7)

    return transformer(Config(sliding_window=7), Neighbours if sick else Attention, at=0)


@case("POS004", "layers.1.attention", batch=whole(2, 31), causal=True)
def a_window_of_one_key_less(sick: bool) -> nn.Module:
    """The same slip the other way: a left extent of 7 − 1, taken for 7 − 1 keys.

    ml-explore/mlx-lm PR#390, huggingface/transformers#29176.
    """

    class Few(Attention):
        def reach(self, back: Tensor, causal: bool) -> Tensor:
            return (back >= 0) & (back < 6)

    return transformer(Config(sliding_window=7), Few if sick else Attention)


@case("POS005", "layers.0.attention", also="PAD002 POS002 CCH003", causal=True)
def a_sink_at_the_first_place(sick: bool) -> nn.Module:
    """Beside a window every token sees the first one of its text, and the first one is taken to stand at place 0.
    With padding on the left a pad stands there, is hidden, and the text has lost its first token, whatever positions
    are given.

    Sinks as in mit-han-lab/streaming-llm#54; the shift as in ndif-team/nnsight#672.
    """

    class Sink(Attention):
        def reach(self, back: Tensor, causal: bool) -> Tensor:
            return super().reach(back, causal) & (back < 7)

        def allowed(self, view: View, places: Tensor) -> Tensor:
            first = places == 0
            if view.real is not None:
                real = view.real[:, None, None, places]
                first = first & real if sick else (view.real.long().cumsum(-1)[:, None, None, places] == 1) & real
            return super().allowed(view, places) | first & (places <= view.places[:, None])

    return transformer(Config(), Sink, at=0)
