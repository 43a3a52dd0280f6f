"""Masks of other libraries, taken over by functions that say from where."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import regard
from regard import RegardError, mask

NONE = -math.inf


def test_torch_key_padding_says_true_for_what_is_ignored() -> None:
    ignored = torch.tensor([[False, False, True], [False, True, True]])
    m = mask.from_torch_key_padding(ignored)
    assert torch.equal(m.tensor(2, 1, 1, 3)[:, 0, 0], ~ignored)
    floats = torch.zeros(2, 3).masked_fill(ignored, NONE)
    assert torch.equal(mask.from_torch_key_padding(floats).tensor(2, 1, 1, 3), m.tensor(2, 1, 1, 3))
    assert mask.from_torch_key_padding(ignored[0]).tensor(1, 1, 1, 3)[0, 0, 0].tolist() == [True, True, False]


def test_torch_attention_masks_say_true_for_what_is_ignored() -> None:
    later = torch.ones(3, 3, dtype=torch.bool).triu(1)
    for given in (later, torch.zeros(3, 3).masked_fill(later, NONE), nn.Transformer.generate_square_subsequent_mask(3)):
        assert torch.equal(mask.from_torch_attn_mask(given).tensor(1, 1, 3, 3), mask.causal().tensor(1, 1, 3, 3))
    stacked = torch.rand(2 * 3, 4, 5) > 0.5
    m = mask.from_torch_attn_mask(stacked, heads=3)
    assert torch.equal(m.tensor(2, 3, 4, 5), ~stacked.view(2, 3, 4, 5))


def test_a_converted_mask_reads_as_multihead_attention_does() -> None:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(12, 3, batch_first=True)
    x, memory = torch.randn(2, 4, 12), torch.randn(2, 5, 12)
    ignored = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    per_head = torch.rand(6, 4, 5) > 0.6
    per_head[..., 0] = False
    wanted, _ = theirs(x, memory, memory, key_padding_mask=ignored, attn_mask=per_head)
    q, k, v = (
        (y @ w.T + b).unflatten(-1, (3, 4)).transpose(1, 2)
        for y, w, b in zip(
            (x, memory, memory), theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3), strict=True
        )
    )
    m = mask.from_torch_key_padding(ignored) & mask.from_torch_attn_mask(per_head, heads=3)
    for engine in ("reference", "sdpa"):
        out = regard.attend(q, k, v, mask=m, engine=engine).transpose(1, 2).flatten(-2)
        assert (theirs.out_proj(out) - wanted).abs().max() < 1e-5


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.bool])
def test_hugging_face_says_1_for_a_token(dtype: torch.dtype) -> None:
    given = torch.tensor([[1, 1, 0], [0, 1, 1]]).to(dtype)
    assert torch.equal(mask.from_huggingface(given).tensor(2, 1, 1, 3)[:, 0, 0], given.bool())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_an_additive_mask_hides_by_minus_infinity_or_by_the_least_number(dtype: torch.dtype) -> None:
    later = torch.ones(3, 3, dtype=torch.bool).triu(1)
    for least in (NONE, torch.finfo(dtype).min, -1e4):
        given = torch.zeros(3, 3, dtype=dtype).masked_fill(later, least)
        assert torch.equal(mask.from_additive(given).tensor(1, 1, 3, 3), mask.causal().tensor(1, 1, 3, 3))
    doubled = torch.full((1, 3), torch.finfo(dtype).min, dtype=dtype) * 2  # two masks added: −inf
    assert not mask.from_additive(doubled).tensor(1, 1, 1, 3).any()


def test_a_float_mask_of_ones_and_zeros_would_hide_nothing_and_is_refused() -> None:
    lower = torch.ones(5, 5).tril()
    kept = torch.softmax(torch.zeros(5, 5) + lower, -1)[0, 1:].sum()
    assert kept.item() == pytest.approx(0.595, abs=1e-3)  # what adding it leaves on the future
    with pytest.raises(
        RegardError, match=r"found the value 1, wanted only 0 .*a 0/1 mask hides nothing .*score \+ bias"
    ):
        mask.from_additive(lower)
    with pytest.raises(RegardError, match="found the value 1"):
        mask.from_torch_attn_mask(lower)


@pytest.mark.parametrize("value", [-1.0, 0.5, math.nan, math.inf, -5000.0])
def test_a_bias_is_not_a_mask(value: float) -> None:
    with pytest.raises(RegardError, match="additive mask: found the value"):
        mask.from_additive(torch.tensor([0.0, value, NONE]))


@pytest.mark.parametrize(
    ("convert", "given", "words"),
    [
        (
            mask.from_torch_key_padding,
            torch.ones(2, 3, dtype=torch.int64),
            "key_padding_mask: found torch.int64, wanted",
        ),
        (
            mask.from_torch_key_padding,
            torch.ones(2, 3, 4).bool(),
            r"found shape \(2, 3, 4\), wanted \(S,\) or \(B, S\)",
        ),
        (mask.from_torch_attn_mask, torch.ones(3).bool(), r"attn_mask: found shape \(3,\), wanted \(L, S\)"),
        (
            mask.from_torch_attn_mask,
            torch.ones(6, 2, 2).bool(),
            r"found \(6, 2, 2\) and heads = None; wanted .*heads = H",
        ),
        (mask.from_huggingface, torch.ones(3), r"attention_mask: found shape \(3,\), wanted \(B, S\) of 1"),
        (mask.from_huggingface, torch.tensor([[1, 2]]), "found the value 2, wanted 1"),
        (mask.from_huggingface, torch.tensor([[0.0, -1e9]]), "found the value -1000000000"),
        (
            mask.from_additive,
            torch.ones(2, 2, dtype=torch.int64),
            "found torch.int64, wanted a float mask of 0 and −inf",
        ),
        (mask.from_additive, torch.ones(2, 2).bool(), "found torch.bool"),
    ],
)
def test_a_mask_of_another_kind_is_refused_by_name(convert: object, given: torch.Tensor, words: str) -> None:
    assert callable(convert)
    with pytest.raises(RegardError, match=words):
        convert(given)


def test_heads_must_divide_a_stacked_mask() -> None:
    with pytest.raises(RegardError, match=r"found \(6, 2, 2\) and heads = 4"):
        mask.from_torch_attn_mask(torch.ones(6, 2, 2).bool(), heads=4)
