"""The caches' own kernel for few queries over many pairs: what a fused one would give, in floats and in eight bits."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import regard
from regard.memory.cache import EightBit, KVCache, SlidingCache
from regard.memory.cache.few import few
from regard.position import Rotary
from regard.score import Cosine, ScaledDot

B, G, R, S, D, E = 2, 3, 5, 1291, 34, 19


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("eight", [False, True])
def test_it_is_the_softmax_of_the_scores(dtype: torch.dtype, threads: int, eight: bool) -> None:
    torch.set_num_threads(threads)
    q = 4 * torch.randn(B, G * R, 1, D, dtype=dtype)
    k, v = torch.randn(B, G, 2 * S, D, dtype=dtype)[:, :, 5 : 5 + S], torch.randn(B, G, S, E, dtype=dtype)
    store = EightBit()
    kept_k, kept_v = (store.put("k", k), store.put("v", v)) if eight else ((k,), (v,))
    output, lse, sound = few(q, kept_k, kept_v, 0.3)
    assert sound
    if eight:
        k, v = store.take(kept_k, torch.float64), store.take(kept_v, torch.float64)
    s = 0.3 * q.double().view(B, G, R, D) @ k.double().transpose(2, 3)
    atol = 1e-5 if dtype == torch.float32 else 1e-12
    truth = (torch.softmax(s, -1) @ v.double()).view(B, G * R, 1, E)
    torch.testing.assert_close(output.double(), truth, atol=atol, rtol=0)
    torch.testing.assert_close(lse.double(), s.logsumexp(-1).view(B, G * R, 1), atol=10 * atol, rtol=0)


@pytest.mark.parametrize("score", [ScaledDot(), Rotary(ScaledDot()), Cosine(5.0)], ids=str)
@pytest.mark.parametrize(("eight", "E", "engine"), [(False, 64, "cache"), (False, 48, "cache"), (True, 64, "cache")])
def test_caches_read_by_it(score: Any, eight: bool, E: int, engine: str) -> None:
    """Query heads that share a key head, one query and two, a temperature, and a window that begins inside a buffer;
    what PyTorch's kernel takes as it is kept goes there."""
    parts: dict[str, Any] = {"score": score, "normalize": regard.normalize.Softmax(0.8)}
    parts |= {"store": EightBit()} if eight else {}
    S = 10007
    k, v, q = torch.randn(1, 4, S, 64), torch.randn(1, 4, S, E), torch.randn(1, 8, 2, 64)
    builds: list[tuple[Any, dict[str, int]]] = [(KVCache, {}), (SlidingCache, {"window": 9400})]
    for build, more in builds:
        cache = build(4, 64, E, **parts, **more)
        state = cache.write(cache.reset(1), k, v)
        for asked in (q, q[:, :, :1]):
            found = cache.read(state, asked)
            assert found.engine == engine
            truth = build(4, 64, E, engine="reference", **parts, **more).read(state, asked)
            torch.testing.assert_close(found.output, truth.output, atol=1e-5, rtol=0)
            torch.testing.assert_close(found.lse, truth.lse, atol=1e-5, rtol=0)
            assert torch.equal(found.seen, truth.seen)
    asked = q.requires_grad_()
    assert cache.read(state, asked).engine != "cache"


def test_what_is_no_number_is_told() -> None:
    cache = KVCache(8, 64)
    state = cache.write(cache.reset(1), torch.randn(1, 8, 9001, 64), torch.randn(1, 8, 9001, 64))
    q = torch.randn(1, 8, 1, 64)
    q[0, 3, 0, 5] = torch.nan
    with pytest.warns(regard.RegardWarning, match="q .* holds 1 NaN"):
        found = cache.read(state, q)
    assert bool(found.output[0, 3].isnan().all())
    assert bool(found.output[0, :3].isfinite().all())


def test_who_listens_hears_of_the_read() -> None:
    """A mode sees regard.read, as it does without a cache; the ways around the plan are for when nobody listens."""

    class Listening(torch.overrides.TorchFunctionMode):
        heard = 0

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            Listening.heard += func is regard.read
            return func(*args, **(kwargs or {}))

    cache = KVCache(8, 64)
    k, v, q = (torch.randn(1, 8, n, 64) for n in (9001, 9001, 1))
    state = cache.write(cache.reset(1), k, v)
    with Listening():
        assert cache.read(state, q).engine != "cache"
    assert Listening.heard == 1
