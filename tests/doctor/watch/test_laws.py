"""What the recorder measures equals the definition on dense float64 weights; the model's output stays what it was."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import regard
from regard.doctor.watch import Head, Heads, measure
from tests.doctor.watch import models
from tests.doctor.watch.models import WAYS, B, H, L, Stack, W, causal


def value(head: Head, name: str) -> float:
    found: float = head.mass[name] if name in head.mass else getattr(head, name)
    return found


def check(heads: Heads, wanted: dict[str, Tensor], module: str) -> None:
    rows = heads.layers[module]
    for name, expected in wanted.items():
        for head in rows:
            assert value(head, name) == pytest.approx(float(expected[head.head]), abs=2e-5), (module, head.head, name)


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_statistics_are_those_of_float64_weights(way: str, small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not small:  # as a call of millions of weights is measured
        monkeypatch.setattr(measure, "SMALL", 0)
    model = Stack(WAYS[way]).eval()
    x = torch.randn(B, L, W)
    with torch.no_grad(), regard.watch(model) as seen:
        model(x, causal())
    heads = seen.compute()
    assert not seen.untested
    assert list(heads.layers) == ["layers.0", "layers.1"]
    for n, layer in enumerate(model.layers):
        q, k, _, allowed = layer.last  # type: ignore[misc]
        check(heads, models.wanted(q, k, allowed), f"layers.{n}")


@pytest.mark.parametrize("way", WAYS)
def test_the_output_and_its_gradients_stay_bit_for_bit(way: str) -> None:
    model = Stack(WAYS[way])
    x = torch.randn(B, L, W)
    plain = model(x, causal())
    plain.square().sum().backward()
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    with regard.watch(model) as seen:
        watched = model(x, causal())
        watched.square().sum().backward()
    assert torch.equal(plain, watched)
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), gradients, strict=True) if p.grad is not None)
    assert len(seen.compute()) == 2 * H


@pytest.mark.parametrize("way", ["sdpa", "written_out", "minimum", "tiled", "reference"])
@pytest.mark.parametrize("left", [False, True])
def test_padding_and_groups_are_counted_over_real_queries(way: str, left: bool) -> None:
    real = torch.ones(B, L, dtype=torch.bool)
    real[1, : 4 if left else 0] = False
    real[1, L if left else 8 :] = False
    allowed = causal() & real[:, None, None, :]
    odd = (torch.arange(L) % 2 == 1).expand(B, L)
    model = Stack(WAYS[way]).eval()
    with torch.no_grad(), regard.watch(model, groups={"odd": odd}) as seen:
        model(torch.randn(B, L, W), allowed, attention_mask=real.long())
    q, k, _, _ = model.layers[0].last  # type: ignore[misc]
    groups = {"odd": odd, "padding": ~real}
    check(seen.compute(), models.wanted(q, k, allowed, real, groups), "layers.0")
    assert all(head.mass["padding"] == 0 for head in seen.compute())


def test_grouped_keys_and_a_cache_stand_at_the_end() -> None:
    q, k, v = torch.randn(B, 6, 3, 5), torch.randn(B, 2, 11, 5), torch.randn(B, 2, 11, 5)
    allowed = torch.ones(3, 11, dtype=torch.bool).tril(8)[None, None]
    with regard.watch(None) as seen:
        torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed, enable_gqa=True)
    check(seen.compute(), models.wanted(q, k, allowed), "")


@pytest.mark.parametrize(("start", "diagonal"), [(True, 0), (False, 8)])
def test_the_triangle_hangs_where_the_call_hangs_it(start: bool, diagonal: int) -> None:
    from torch.nn.attention.bias import causal_lower_right, causal_upper_left

    q, k, v = torch.randn(B, 2, 3, 5), torch.randn(B, 2, 11, 5), torch.randn(B, 2, 11, 5)
    allowed = torch.ones(3, 11, dtype=torch.bool).tril(diagonal)[None, None]
    bias = (causal_upper_left if start else causal_lower_right)(3, 11)
    with regard.watch(None) as seen:
        torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    check(seen.compute(), models.wanted(q, k, allowed), "")
    if start:
        with regard.watch(None) as seen:
            torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        check(seen.compute(), models.wanted(q, k, allowed), "")


def test_multi_head_attention_on_both_its_paths() -> None:
    layer = nn.MultiheadAttention(W, H, batch_first=True).eval()
    x = torch.randn(B, L, W)
    for weights in (False, True):
        with torch.no_grad(), regard.watch(layer) as seen:
            _, given = layer(x, x, x, need_weights=weights, average_attn_weights=False)
        heads = seen.compute()
        assert len(heads) == H
        if weights:
            peaks = given.amax(-1).mean((0, 2))
            assert [head.peak for head in heads] == pytest.approx(peaks.tolist(), abs=1e-6)
            first = given[..., 0].mean((0, 2))
            assert [head.mass["first"] for head in heads] == pytest.approx(first.tolist(), abs=1e-6)


def test_alike_heads_have_affinity_one_and_apart_heads_less() -> None:
    q, k, v = (torch.randn(1, 3, 40, 8) for _ in range(3))
    q, k = q * 3, k.clone()
    q[:, 2], k[:, 2] = q[:, 0], k[:, 0]
    with regard.watch(None) as seen:
        torch.nn.functional.scaled_dot_product_attention(q, k, v)
    zero, one, two = seen.compute()
    assert (zero.like, two.like) == (2, 0)
    assert zero.similarity == pytest.approx(1.0, abs=1e-5)
    w = regard.weights(q.double(), k.double())[0]
    every = (w[1].sqrt() * w[0].sqrt()).sum(-1)
    assert one.similarity == pytest.approx(float(every.mean()), abs=1e-6)  # 40 queries: all are sampled


def test_a_sink_beside_the_scores_makes_rows_sum_to_less() -> None:
    q, k, v = (torch.randn(1, 2, 7, 4) for _ in range(3))
    sink = torch.tensor([0.3, -0.5]).view(1, 2, 1, 1).expand(1, 2, 7, 1)
    with regard.watch(None) as seen:
        weights = torch.cat([q @ k.mT * 0.5, sink], -1).softmax(-1)[..., :-1]
        weights @ v
    for head, peak, first in zip(seen.compute(), weights.amax(-1)[0], weights[0, ..., 0], strict=True):
        assert head.peak == pytest.approx(float(peak.mean()), abs=1e-6)
        assert head.mass["first"] == pytest.approx(float(first.mean()), abs=1e-6)
    assert not [found for found in seen.findings() if found.severity != "note"]


def test_every_normaliser_and_score_of_regard_is_measured() -> None:
    q, k, v = (torch.randn(2, 3, 11, 6) for _ in range(3))
    score = regard.score.ScaledDot() + regard.position.ALiBi(3)
    for engine in ("tiled", "reference"):
        for normalize in ("sparsemax", "entmax15", regard.normalize.Softmax(temperature=2.0, sink=0.0)):
            with regard.watch(None) as seen:
                regard.attend(q, k, v, score=score, normalize=normalize, mask=regard.mask.causal(), engine=engine)
            w = regard.weights(q.double(), k.double(), score=score, normalize=normalize, mask=regard.mask.causal())
            heads = seen.compute()
            assert not seen.untested
            assert [head.peak for head in heads] == pytest.approx(w.amax(-1).mean((0, 2)).tolist(), abs=1e-5)
            own = torch.diagonal(w, dim1=-2, dim2=-1).mean((0, 2))
            assert [head.mass["self"] for head in heads] == pytest.approx(own.tolist(), abs=1e-5)
