"""Caches with every score, normaliser, store and telemetry: a split read is the whole one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.grid import Grid
from regard.memory.cache import EightBit, KVCache, PagedCache, SinkCache, SlidingCache, StaticCache
from regard.position import ALiBi, RelativeBias, Rotary
from regard.score import Additive, Concat, Cosine, Dot, Euclidean, General, Learned, ScaledDot, Score

B, H, G, L, D, E = 2, 4, 2, 13, 6, 5
CUTS = [slice(0, 5), slice(5, 6), slice(6, 7), slice(7, 13)]


class Own(Score):
    """A score nobody knows: the dot product of vectors shifted by where they stand."""

    no_dot_form = "it is the user's own"

    def queries(self, q: Tensor, grid: Grid | None = None) -> Tensor:
        assert grid is not None
        return q + grid.query_places("end", "Own")[0, 0] / 10

    def keys(self, k: Tensor, grid: Grid | None = None) -> Tensor:
        assert grid is not None
        return k * (1 + grid.j.view(-1, 1) / 10)

    def compare(self, q: Tensor, k: Tensor, grid: Grid | None = None) -> Tensor:
        return q @ k.transpose(-2, -1)


def learnt(build: Callable[[], Score]) -> Callable[[], Score]:
    def made() -> Score:
        part = build().double()
        for x in part.parameters():
            torch.nn.init.normal_(x, 0.0, 0.5)
        return part

    return made


def biased() -> Score:
    bias = RelativeBias(H, 3, anchor="end")
    torch.nn.init.normal_(bias.weight)
    return (ScaledDot() + bias).double()


SCORES: dict[str, Callable[[], Score]] = {
    "dot": Dot,
    "cosine": lambda: Cosine(4.0),
    "euclidean": Euclidean,
    "general": learnt(lambda: General(D, D, H)),
    "additive": learnt(lambda: Additive(D, D, 7)),
    "concat": learnt(lambda: Concat(D, D, 7)),
    "learned": learnt(lambda: Learned.mlp(D, D, 4)),
    "rotary": lambda: Rotary(ScaledDot()),
    "rotary of additive": learnt(lambda: Rotary(Additive(D, D, 7), interleaved=True)),
    "capped rotary cosine": lambda: Rotary(Cosine(3.0)).capped(2.0),
    "alibi": lambda: (Rotary(ScaledDot()) + ALiBi(H, anchor="end")).double(),
    "relative": biased,
    "own": Own,
}
NORMALIZERS = ["softmax", "sparsemax", "entmax15", "hardmax", regard.normalize.Softmax(0.7, sink=0.3).double()]
CACHES: dict[str, Any] = {
    "kv": lambda **parts: KVCache(G, D, E, **parts),
    "static": lambda **parts: StaticCache(G, D, E, capacity=17, **parts),
    "paged": lambda **parts: PagedCache(G, D, E, page=4, **parts),
    "sliding": lambda **parts: SlidingCache(G, D, E, window=4, **parts),
}


def chunk() -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.randn(B, H, L, D, dtype=torch.float64),
        torch.randn(B, G, L, D, dtype=torch.float64),
        torch.randn(B, G, L, E, dtype=torch.float64),
    )


def split(
    cache: Any, q: Tensor, k: Tensor, v: Tensor, valid: Tensor | None = None, **more: Any
) -> tuple[list[regard.Reading], Any]:
    state, found = cache.reset(B, dtype=q.dtype), []
    for at in CUTS:
        there = None if valid is None else valid[:, at]
        r, state = cache.step(state, q[:, :, at], k[:, :, at], v[:, :, at], valid=there, **more)
        found.append(r)
    return found, state


def together(found: list[regard.Reading], name: str) -> Tensor:
    return torch.cat([getattr(r, name) for r in found], 2)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("which", ["kv", "paged", "sliding"])
@torch.no_grad()
def test_every_score(which: str, name: str) -> None:
    score = SCORES[name]()
    cache, (q, k, v) = CACHES[which](score=score), chunk()
    mask = regard.mask.window(3, 0) if which == "sliding" else regard.mask.causal()
    found, _ = split(cache, q, k, v)
    whole = regard.read(q, k, v, score=score, mask=mask, engine="reference")
    torch.testing.assert_close(together(found, "output"), whole.output, atol=1e-10, rtol=0)
    torch.testing.assert_close(together(found, "lse"), whole.lse, atol=1e-10, rtol=0)
    valid = torch.arange(L) >= torch.tensor([[0], [4]])
    found, state = split(cache, q, k, v, valid)
    late = regard.read(q[1:, :, 4:], k[1:, :, 4:], v[1:, :, 4:], score=score, mask=mask, engine="reference")
    output = together(found, "output")
    torch.testing.assert_close(output[0], whole.output[0], atol=1e-10, rtol=0)
    torch.testing.assert_close(output[1:, :, 4:], late.output, atol=1e-10, rtol=0)
    assert output[1, :, :4].abs().max() == 0
    last = cache.read(state, q[:, :, -1:].expand(-1, -1, 3, -1))  # all of them stand at the newest pair
    torch.testing.assert_close(last.output, output[:, :, -1:].expand(-1, -1, 3, -1), atol=1e-10, rtol=0)


@pytest.mark.parametrize("normalize", NORMALIZERS, ids=str)
@pytest.mark.parametrize("which", list(CACHES))
@torch.no_grad()
def test_every_normaliser(which: str, normalize: Any) -> None:
    score = Rotary(ScaledDot())
    cache, (q, k, v) = CACHES[which](score=score, normalize=normalize), chunk()
    mask = regard.mask.window(3, 0) if which == "sliding" else regard.mask.causal()
    whole = regard.read(q, k, v, score=score, normalize=normalize, mask=mask, engine="reference")
    found, state = split(cache, q, k, v)
    torch.testing.assert_close(together(found, "output"), whole.output, atol=1e-10, rtol=0)
    again = cache.read(state, q[:, :, -1:])
    torch.testing.assert_close(again.output, whole.output[:, :, -1:], atol=1e-10, rtol=0)


@pytest.mark.parametrize("which", list(CACHES))
@torch.no_grad()
def test_telemetry_goes_through_and_peaks_are_told_by_places_in_the_row(which: str) -> None:
    cache, (q, k, v) = CACHES[which](score=Rotary(ScaledDot()), engine="reference"), chunk()
    mask = regard.mask.window(3, 0) if which == "sliding" else regard.mask.causal()
    found, state = split(cache, q, k, v, telemetry=True)
    whole = regard.read(q, k, v, score=cache.score, mask=mask, engine="reference")
    for name in ("seen", "entropy", "peak", "peak_at", "distance"):
        torch.testing.assert_close(together(found, name), getattr(whole, name), atol=1e-10, rtol=0)
    valid = torch.arange(L) >= torch.tensor([[0], [4]])
    found, state = split(cache, q, k, v, valid, telemetry=("entropy", "peak", "distance"))
    late = regard.read(q[1:, :, 4:], k[1:, :, 4:], v[1:, :, 4:], score=cache.score, mask=mask, engine="reference")
    for name in ("seen", "entropy", "peak", "peak_at", "distance"):
        torch.testing.assert_close(together(found, name)[1:, :, 4:], getattr(late, name), atol=1e-10, rtol=0)
        torch.testing.assert_close(together(found, name)[:1], getattr(whole, name)[:1], atol=1e-10, rtol=0)
    read = cache.read(state, q[:, :, -1:], telemetry=True)
    for name in ("distance", "peak_at"):
        torch.testing.assert_close(getattr(read, name)[:1], getattr(whole, name)[:1, :, -1:])
        torch.testing.assert_close(getattr(read, name)[1:], getattr(late, name)[:, :, -1:])


@pytest.mark.parametrize("engine", ["sdpa", "tiled"])
@pytest.mark.parametrize("which", [*CACHES, "sink"])
@torch.no_grad()
def test_every_engine_that_is_asked_for_reads_it(which: str, engine: str) -> None:
    more = {"sinks": 2, "window": 4} if which == "sink" else {}
    build = CACHES.get(which, lambda **parts: SinkCache(G, D, E, **parts))
    q, k, v = (x.float() for x in chunk())
    found, truth = (
        split(build(score=Rotary(ScaledDot()), engine=e, **more), q, k, v)[0] for e in (engine, "reference")
    )
    torch.testing.assert_close(together(found, "output"), together(truth, "output"), atol=1e-5, rtol=0)
    assert {r.engine for r in found} == {engine}


@pytest.mark.parametrize("which", [*CACHES, "sink"])
@torch.no_grad()
def test_eight_bits_are_off_by_no_more_than_they_say(which: str) -> None:
    """|k − k̂| ≤ max|k|/254 moves a score by ε = ‖q‖₁ max|k| / 254 / √D at most, so a weight by a factor e^{±2ε}."""
    more = {"sinks": 2, "window": 4} if which == "sink" else {}
    build = CACHES.get(which, lambda **parts: SinkCache(G, D, E, **parts))
    q, k, v = chunk()
    k, v = k * torch.logspace(-3, 1, L, dtype=torch.float64)[:, None], v * 10
    found, state = split(build(store=EightBit(), **more), q, k, v)
    truth, as_given = split(build(**more), q, k, v)
    epsilon = q.abs().sum(-1).amax() * k.abs().amax() / 254 / D**0.5
    bound = v.abs().amax() * (torch.expm1(2 * epsilon) + 1 / 254)
    assert (together(found, "output") - together(truth, "output")).abs().max() <= bound
    cache = build(store=EightBit(), **more)
    pairs = sum(state.held) if hasattr(state, "held") else B * L
    assert cache.nbytes(state) == pairs * G * (D + 4 + E + 4)
    assert cache.nbytes(state) < build(**more).nbytes(as_given) / 4


def test_a_number_is_off_by_half_a_step() -> None:
    x = torch.randn(3, 2, 50, 16) * torch.logspace(-6, 6, 50)[:, None]
    x[0, 0, 0] = 0
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        given = x.to(dtype)
        back = EightBit().take(EightBit().put("x", given), dtype)
        most = given.double().abs().amax(-1, keepdim=True)
        rounding = torch.finfo(dtype).eps + 2 * torch.finfo(torch.float32).eps
        assert ((back.double() - given.double()).abs() <= most * (1 / 254 + rounding)).all()
        assert back[0, 0, 0].abs().max() == 0


def test_eight_bits_refuse_what_has_no_scale_or_wants_a_gradient() -> None:
    cache = KVCache(G, D, E, store=EightBit())
    state = cache.reset(1)
    k, v = torch.randn(1, G, 3, D), torch.randn(1, G, 3, E)
    bad = v.clone()
    bad[0, 0, 1, 2] = torch.nan
    with pytest.raises(regard.RegardError, match="EightBit: v holds NaN"):
        cache.write(state, k, bad)
    with pytest.raises(regard.RegardError, match="rounding has none"):
        cache.write(state, k.requires_grad_(), v)
    assert cache.read(state, torch.randn(1, H, 1, D)).seen.max() == 0
    with torch.no_grad():
        assert cache.write(state, k, v).seen == (3,)
