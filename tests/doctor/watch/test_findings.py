"""Each fault from inside gets its code at its module; the same model without it gets nothing above a note."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import regard
from regard.doctor.finding import Finding
from tests.doctor.watch import models
from tests.doctor.watch.models import Attention, B, D, H, L, Stack, W, causal

Attend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def found(model: nn.Module, *given: Tensor, **named: Tensor) -> list[Finding]:
    with torch.no_grad(), regard.watch(model) as seen:
        model(*given, **named)
    assert not seen.untested
    return seen.findings()


def loud(findings: list[Finding]) -> set[tuple[str, str]]:
    return {(one.code, one.module) for one in findings if one.severity != "note"}


def scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT / math.sqrt(D)


def repeated(x: Tensor, tile: bool) -> Tensor:
    return x[:, :1].repeat(1, H, 1, 1) if tile else x


TRI = causal()[0, 0]

SICK: dict[str, tuple[str, Attend]] = {
    "inverted": ("MSK001", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=~m)),
    "added 0/1": ("MSK002", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m.to(q.dtype))),
    "added 0/1 by hand": ("MSK002", lambda q, k, v, m: (scores(q, k) + m.float()).softmax(-1) @ v),
    "a small constant": ("MSK003", lambda q, k, v, m: scores(q, k).masked_fill(~m, -100.0).softmax(-1) @ v),
    "a constant that leaks": ("MSK004", lambda q, k, v, m: scores(q, k).masked_fill(~m, -6.0).softmax(-1) @ v),
    "a leaking bias": (
        "MSK004",
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=torch.where(m, 0.0, -6.0)),
    ),
    "the sign lost": ("MSK004", lambda q, k, v, m: scores(q, k).masked_fill(~m, 1e-9).softmax(-1) @ v),
    "scores of unknown make": ("MSK004", lambda q, k, v, m: (-torch.cdist(q, k)).masked_fill(~m, -6.0).softmax(-1) @ v),
    "scores times mask": ("MSK004", lambda q, k, v, m: (scores(q, k) * m).softmax(-1) @ v),
    "weights times mask": ("MSK007", lambda q, k, v, m: (scores(q, k).softmax(-1) * m) @ v),
    "a first row that sees nothing": (
        "MSK005",
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m.tril(-1)),
    ),
    "a row hidden by a constant": (
        "MSK003",
        lambda q, k, v, m: scores(q, k).masked_fill(~m.tril(-1), -1e9).softmax(-1) @ v,
    ),
    "over the queries": ("AXS001", lambda q, k, v, m: scores(q, k).softmax(-2) @ v),
    "over the heads": ("AXS001", lambda q, k, v, m: scores(q, k).softmax(1) @ v),
    "tokens for heads": (
        "AXS004",
        lambda q, k, v, m: models.sdpa(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), m[..., :H, :H]
        ).transpose(1, 2),
    ),
    "not scaled": ("SCL001", lambda q, k, v, m: (q @ k.mT).masked_fill(~m, -torch.inf).softmax(-1) @ v),
    "scaled twice": ("SCL002", lambda q, k, v, m: F.scaled_dot_product_attention(q * D**-0.5, k, v, attn_mask=m)),
    "divided by the width": ("SCL002", lambda q, k, v, m: (q @ k.mT / D).masked_fill(~m, -torch.inf).softmax(-1) @ v),
    "dropout in eval": (
        "DET002",
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m, dropout_p=0.3),
    ),
    "dropout in eval by hand": ("DET002", lambda q, k, v, m: F.dropout(scores(q, k).softmax(-1), 0.3) @ v),
    "NaN from a row of -inf": ("NUM001", lambda q, k, v, m: models.written_out(q, k, v, m.tril(-1))),
}


@pytest.mark.parametrize("name", SICK)
def test_a_fault_has_its_code_at_its_module(name: str) -> None:
    code, attend = SICK[name]
    model = Stack(models.sdpa).eval()
    setattr(model.layers[1], "attend", attend)  # noqa: B010
    findings = found(model, torch.randn(B, L, W), causal())
    assert (code, "layers.1") in loud(findings)
    assert not {one for one in loud(findings) if one[1] == "layers.0"}
    mine = next(one for one in findings if one.code == code)
    assert mine.source.partition(":")[0].endswith(("test_findings.py", "models.py"))


@pytest.mark.parametrize("way", models.WAYS)
@pytest.mark.parametrize("padded", ["", "left", "right"])
def test_a_healthy_way_to_attend_has_nothing_above_a_note(way: str, padded: str) -> None:
    real = torch.ones(B, L, dtype=torch.bool)
    if padded:
        real[1, slice(0, 5) if padded == "left" else slice(9, L)] = False
    keys = real[:, None, None, :]
    allowed = causal() & keys
    if way not in ("minimum", "sdpa", "tiled", "reference", "own_sdpa"):  # a softmax of nothing but -inf is NaN
        allowed = allowed | torch.eye(L, dtype=torch.bool)
    if way == "additive":
        allowed = allowed & keys | torch.eye(L, dtype=torch.bool)
    findings = found(Stack(models.WAYS[way]).eval(), torch.randn(B, L, W), allowed, attention_mask=real.long())
    assert loud(findings) == set(), findings


@pytest.mark.parametrize("way", ["sdpa", "written_out", "tiled"])
def test_padding_that_nothing_hides_is_read(way: str) -> None:
    real = torch.ones(B, L, dtype=torch.long)
    real[1, 9:] = 0
    everything = torch.ones(1, 1, L, L, dtype=torch.bool)
    findings = found(Stack(models.WAYS[way]).eval(), torch.randn(B, L, W), everything, attention_mask=real)
    assert loud(findings) == {("PAD001", "layers.0"), ("PAD001", "layers.1")}
    # Causal and padded on the right: no real token sees a pad, mask or none.
    assert not loud(found(Stack(models.WAYS[way]).eval(), torch.randn(B, L, W), causal(), attention_mask=real))


def test_a_mask_that_shows_only_padding_is_the_wrong_way_round() -> None:
    real = torch.ones(B, L, dtype=torch.bool)
    real[1, 9:] = False
    shown = ~real[:, None, None, :]
    findings = found(Stack(models.sdpa).eval(), torch.randn(B, L, W), shown, attention_mask=real.long())
    assert loud(findings) == {("MSK001", "layers.0"), ("MSK001", "layers.1")}


def test_a_decoder_that_reads_padding_of_its_source() -> None:
    model = nn.Transformer(16, 2, 1, 1, 8, batch_first=True).eval()
    pads = torch.zeros(B, L, dtype=torch.bool)
    pads[1, 9:] = True
    source, target = torch.randn(B, L, 16), torch.randn(B, 7, 16)
    sick = found(model, src=source, tgt=target, src_key_padding_mask=pads)
    assert loud(sick) == {("PAD004", "decoder.layers.0.multihead_attn")}
    healthy = found(model, src=source, tgt=target, src_key_padding_mask=pads, memory_key_padding_mask=pads)
    assert loud(healthy) == set()


class Split(Attention):
    """Heads cut and joined as ``split`` and ``merge`` say."""

    def __init__(self, split: str, merge: str) -> None:
        super().__init__(models.sdpa)
        self.split, self.merge = split, merge

    def forward(self, x: Tensor, allowed: Tensor) -> Tensor:
        B, L, _ = x.shape
        shape = (B, H, L, D) if self.split == "view" else (B, L, H, D)
        q, k, v = (y(x).view(shape) for y in (self.q, self.k, self.v))
        if self.split == "swap":
            q, k, v = (y.transpose(1, 2) for y in (q, k, v))
        o = F.scaled_dot_product_attention(q, k, v)
        o = o.transpose(1, 2) if self.merge == "swap" else o
        y: Tensor = self.out(o.reshape(B, L, W))
        return y


@pytest.mark.parametrize(
    ("split", "merge", "code"),
    [("view", "swap", "AXS003"), ("none", "none", "AXS004"), ("swap", "none", "AXS003"), ("swap", "swap", "")],
)
def test_heads_are_split_and_merged_by_moving_axes(split: str, merge: str, code: str) -> None:
    model = Split(split, merge).eval()
    assert {one for one, _ in loud(found(model, torch.randn(B, L, W), causal()))} == ({code} if code else set())


@pytest.mark.parametrize("tile", [False, True])
def test_key_heads_belong_to_neighbours(tile: bool) -> None:
    q, kv = torch.randn(1, 6, 9, 4), torch.randn(1, 2, 9, 4)
    full = kv.repeat(1, 3, 1, 1) if tile else kv.repeat_interleave(3, 1)
    for attend in (F.scaled_dot_product_attention, lambda q, k, v: (q @ k.mT / 2).softmax(-1) @ v):
        with regard.watch(None) as seen:
            attend(q, full, full)
        assert {one.code for one in seen.findings() if one.severity == "error"} == ({"AXS002"} if tile else set())
    with regard.watch(None) as seen:  # one key head for all is not tiled
        F.scaled_dot_product_attention(q, kv[:, :1].expand(1, 6, 9, 4), kv[:, :1].expand(1, 6, 9, 4))
    assert not seen.findings() or all(one.severity == "note" for one in seen.findings())


def test_the_triangle_of_a_cached_step_hangs_at_the_end() -> None:
    q, k, v = torch.randn(1, 2, 1, 4), torch.randn(1, 2, 9, 4), torch.randn(1, 2, 9, 4)
    with regard.watch(None) as seen:
        F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert "CAU004" in [one.code for one in seen.findings()]
    k[:, :, 3:] = 0  # the slots of a cache that is not full yet
    with regard.watch(None) as seen:
        F.scaled_dot_product_attention(torch.randn(1, 2, 3, 4), k, v, is_causal=True)
    assert "CAU004" not in [one.code for one in seen.findings()]


def test_the_quadratic_path_is_told_with_its_reason() -> None:
    q, k, v = (torch.randn(1, 2, 5, n) for n in (4, 4, 6))
    for given, word in (((q, k, v), "width"), ((q, k, k), "")):
        with regard.watch(None) as seen:
            F.scaled_dot_product_attention(*given)
        told = [one.message for one in seen.findings() if one.code == "PTH001"]
        assert bool(told) == bool(word)
        assert all(word in message for message in told)


def test_heads_without_values_or_listeners_are_dead() -> None:
    model = Stack(models.sdpa).eval()
    with torch.no_grad():
        model.get_parameter("layers.0.out.weight")[:, D : 2 * D] = 0
        model.get_parameter("layers.1.v.weight")[:D] = 0
        model.get_parameter("layers.1.v.bias")[:D] = 0
    dead = {one.module: one.message for one in found(model, torch.randn(B, L, W), causal()) if one.code == "HED001"}
    assert set(dead) == {"layers.0", "layers.1"}
    assert "head 1" in dead["layers.0"]
    assert "head 0" in dead["layers.1"]


def test_products_beyond_float16_are_told_where_they_are_kept() -> None:
    class Grown(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k = nn.Linear(16, 16), nn.Linear(16, 16)

        def forward(self, x: Tensor) -> Tensor:
            q, k = 60 * self.q(x), 60 * self.k(x)
            read: Tensor = (q @ k.mT / 4).softmax(-1) @ x
            return read

    model, x = Grown(), torch.randn(2, 9, 16) * 4
    half = found(model.half(), x.half())
    assert "SCL003" in {one.code for one in half if one.severity == "warning"}


def test_attention_with_the_scale_in_its_norms_or_by_choice_is_healthy() -> None:
    class Normed(nn.Module):
        scale = 1.0

        def __init__(self, norm: bool) -> None:
            super().__init__()
            self.q, self.k, self.norm = nn.Linear(16, 16), nn.Linear(16, 16), norm

        def forward(self, x: Tensor) -> Tensor:
            q, k = self.q(x), self.k(x)
            if self.norm:
                q, k = F.normalize(q, dim=-1) * 4, F.normalize(k, dim=-1) * 4
            read: Tensor = (q @ k.mT).softmax(-1) @ x
            return read

    for norm in (True, False):
        assert loud(found(Normed(norm), torch.randn(2, 9, 16) * 2)) == set()


def test_a_softmax_that_is_no_attention_is_none() -> None:
    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(8, 5)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.out(x).softmax(-1)
            return y

    with regard.watch(Classifier()) as seen:
        seen.model(torch.randn(3, 7, 8))
    assert len(seen.compute()) == 0
    assert seen.findings() == []


def test_slots_that_share_their_inputs_are_no_wrong_axis() -> None:
    slots, x = torch.randn(2, 3, 8), torch.randn(2, 11, 8)
    with regard.watch(None) as seen:
        weights = (slots @ x.mT / math.sqrt(8)).softmax(1)
        (weights / weights.sum(-1, keepdim=True)) @ x
    assert "AXS001" not in [one.code for one in seen.findings()]
