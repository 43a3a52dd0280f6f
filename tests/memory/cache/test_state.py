"""States of a cache: old ones stay right, buffers grow by doubling, gradients flow, what is refused leaves no trace."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch
from torch import Tensor

import regard
from regard.memory import KVCache, PagedCache, SinkCache, SlidingCache, StaticCache

G, D, E = 2, 6, 5


def pairs(B: int, L: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    return torch.randn(B, G, L, D, dtype=dtype), torch.randn(B, G, L, E, dtype=dtype)


def ask(B: int = 1, L: int = 1, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(B, 4, L, D, dtype=dtype)


CACHES: list[Any] = [KVCache(G, D, E), StaticCache(G, D, E, capacity=90)]
ALL = [*CACHES, PagedCache(G, D, E, page=4), SlidingCache(G, D, E, window=50), SinkCache(G, D, E, sinks=2, window=50)]


@pytest.mark.parametrize("cache", ALL, ids=lambda c: type(c).__name__)
def test_two_futures_of_one_state_do_not_touch(cache: Any) -> None:
    start = cache.write(cache.reset(1), *pairs(1, 3))
    one, other, q = pairs(1, 2), pairs(1, 4), ask()
    first = cache.write(start, *one)
    before = cache.read(first, q).output, cache.read(start, q).output
    second = cache.write(start, *other)
    cache.write(second, *other)
    torch.testing.assert_close(cache.read(first, q).output, before[0], rtol=0, atol=0)
    torch.testing.assert_close(cache.read(start, q).output, before[1], rtol=0, atol=0)
    assert cache.read(second, q).seen.max() == 7


@pytest.mark.parametrize("cache", CACHES, ids=lambda c: type(c).__name__)
def test_a_crop_takes_the_buffer_over(cache: Any) -> None:
    short = cache.write(cache.reset(1), *pairs(1, 3))
    long = cache.write(short, *pairs(1, 4))
    k, _ = cache.pairs(long)
    q = ask()
    was = cache.read(short, q).output
    cut = cache.crop(long, 5)
    again = cache.write(cut, *pairs(1, 1))
    assert cache.pairs(again)[0].data_ptr() == k.data_ptr()  # nothing was copied
    refused: list[Any] = [
        lambda: cache.read(long, q),
        lambda: cache.write(long, *pairs(1, 1)),
        lambda: cache.crop(long, 1),
        lambda: cache.reorder(long, torch.tensor([0])),
        lambda: cache.pairs(long),
        lambda: cache.step(long, q, *pairs(1, 1)),
    ]
    for gone in refused:
        with pytest.raises(regard.RegardError, match="a crop gave the end of this state back"):
            gone()
    torch.testing.assert_close(cache.read(short, q).output, was, rtol=0, atol=0)
    assert cache.crop(again, 6) is again


def test_growing_copies_fewer_than_twice_what_is_written() -> None:
    cache = KVCache(G, D, E)
    state, rooms = cache.reset(1), []
    for _ in range(1500):
        state = cache.write(state, *pairs(1, 1))
        rooms.append(state.buffer)
    made = list(dict.fromkeys(rooms))
    assert len(made) == 6  # 64, 128, … 2,048
    copied = sum(room.room // 2 for room in made[1:])
    assert copied < 2 * 1500
    assert cache.nbytes(state) == 1500 * G * (D + E) * 4
    assert cache.nbytes(state) <= cache.reserved(state) < 2 * cache.nbytes(state) + 64 * G * (D + E) * 4


def test_the_capacity_does_not_matter() -> None:
    k, v = pairs(3, 20, torch.float64)
    valid = torch.arange(20) >= torch.tensor([[0], [7], [19]])
    q = ask(3, 20, torch.float64)
    score = regard.position.Rotary(regard.score.ScaledDot())
    found = []
    for capacity in (21, 32, 64, 4096):
        cache = StaticCache(G, D, E, capacity=capacity, score=score)
        reading, state = cache.step(cache.reset(3, dtype=torch.float64), q, k, v, valid=valid)
        more, _ = cache.step(state, q[:, :, :1], k[:, :, :1], v[:, :, :1])
        found.append(torch.cat([reading.output, more.output], 2))
    for other in found[1:]:
        assert torch.equal(other, found[0])


@pytest.mark.parametrize("cache", ALL, ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("ragged", [False, True])
def test_gradients_are_those_of_a_whole_read(cache: Any, ragged: bool) -> None:
    k, v = (x.requires_grad_() for x in pairs(2, 9, torch.float64))
    q = ask(2, 9, torch.float64).requires_grad_()
    valid = torch.arange(9) >= torch.tensor([[4], [0]]) if ragged else None
    state, outputs = cache.reset(2, dtype=torch.float64), []
    for at in (slice(0, 5), slice(5, 6), slice(6, 9)):
        there = None if valid is None else valid[:, at]
        r, state = cache.step(state, q[:, :, at], k[:, :, at], v[:, :, at], valid=there)
        outputs.append(r.output)
    mask: Any = regard.mask.causal()
    if valid is not None:
        mask = mask & regard.mask.dense(valid[:, None, None, :]) & regard.mask.dense(valid[:, None, :, None])
    whole = regard.attend(q, k, v, mask=mask, engine="reference")
    weight = torch.randn_like(whole)
    for mine, wanted in zip(
        torch.autograd.grad((torch.cat(outputs, 2) * weight).sum(), (q, k, v)),
        torch.autograd.grad((whole * weight).sum(), (q, k, v)),
        strict=True,
    ):
        torch.testing.assert_close(mine, wanted)


def test_what_was_read_keeps_its_gradient_while_more_is_written_in_place() -> None:
    cache = KVCache(G, D, E, engine="reference")  # the others may keep copies, which nothing can spoil
    q = ask(1, 1).requires_grad_()
    state = cache.write(cache.reset(1), *pairs(1, 3))
    k, v = (x.clone() for x in cache.pairs(state))
    reading = cache.read(state, q)
    after = cache.write(state, *pairs(1, 2))
    assert after.buffer is state.buffer
    (slope,) = torch.autograd.grad(reading.output.sum(), q)
    (wanted,) = torch.autograd.grad(regard.attend(q, k, v).sum(), q)
    torch.testing.assert_close(slope, wanted)
    reading = cache.read(after, q)
    cache.write(cache.crop(after, 2), *pairs(1, 3))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):  # and not a wrong gradient
        torch.autograd.grad(reading.output.sum(), q)


@pytest.mark.parametrize("cache", ALL, ids=lambda c: type(c).__name__)
def test_a_crop_leaves_the_graph_of_what_was_read_as_it_is(cache: Any) -> None:
    k, v = (x.requires_grad_() for x in pairs(1, 9, torch.float64))
    q = ask(1, 9, torch.float64)
    r, state = cache.step(cache.reset(1, dtype=torch.float64), q, k, v)
    short = cache.crop(state, 4)
    with torch.no_grad():
        cache.write(short, k[:, :, :3] + 1, v[:, :, :3] + 1)
    cache.write(short, k[:, :, :3] + 2, v[:, :, :3] + 2)
    whole = regard.attend(q, k, v, mask=regard.mask.causal(), engine="reference")
    torch.testing.assert_close(cache.read(state, q[:, :, -1:]).output, whole[:, :, -1:])
    for mine, wanted in zip(*(torch.autograd.grad(x.square().sum(), (k, v)) for x in (r.output, whole)), strict=True):
        torch.testing.assert_close(mine, wanted)


@pytest.mark.parametrize("cache", ALL, ids=lambda c: type(c).__name__)
def test_no_rows_and_no_pairs_are_nothing(cache: Any) -> None:
    state = cache.write(cache.reset(2), *pairs(2, 3))
    r, same = cache.step(state, ask(2, 0), *pairs(2, 0))
    assert r.output.shape == (2, 4, 0, E)
    assert same.seen == (3, 3)
    nobody = cache.reorder(state, torch.tensor([], dtype=torch.long))
    r, nobody = cache.step(nobody, ask(0, 2), *pairs(0, 2))
    assert r.output.shape == (0, 4, 2, E)
    assert cache.read(cache.reset(0), ask(0, 1)).output.shape == (0, 4, 1, E)
    assert cache.nbytes(nobody) == 0


def test_a_short_future_of_a_long_state_takes_little_room() -> None:
    cache = KVCache(G, D, E)
    short = cache.write(cache.reset(1), *pairs(1, 3))
    long = cache.write(cache.write(short, *pairs(1, 3)), *pairs(1, 5000))
    assert cache.write(short, *pairs(1, 1)).buffer.room == 64
    assert cache.reorder(cache.crop(long, 4), torch.tensor([0])).buffer.room == 64


def test_inference_mode_and_outside_it_share_a_state() -> None:
    cache = KVCache(G, D, E)
    with torch.inference_mode():
        state = cache.write(cache.reset(1), *pairs(1, 3))
    state = cache.write(state, *pairs(1, 3))
    q = ask().requires_grad_()
    cache.read(state, q).output.sum().backward()
    assert q.grad is not None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_kept_as_given_and_read_in_single(dtype: torch.dtype) -> None:
    """Keys are turned in float32 and rounded once; the read is off by the rounding of q, k, v and o, no more."""
    score = regard.position.Rotary(regard.score.ScaledDot())
    cache = KVCache(G, D, E, score=score)
    q, (k, v) = ask(1, 40, dtype), pairs(1, 40, dtype)
    state, outputs = cache.reset(1, dtype=dtype), []
    for at in (slice(0, 33), slice(33, 34), slice(34, 40)):
        r, state = cache.step(state, q[:, :, at], k[:, :, at], v[:, :, at])
        outputs.append(r.output)
    assert cache.nbytes(state) == 40 * G * (D + E) * 2
    found = torch.cat(outputs, 2)
    assert found.dtype == dtype
    whole = regard.attend(q.double(), k.double(), v.double(), score=score, mask=regard.mask.causal())
    assert (found.double() - whole).abs().max() < 8 * torch.finfo(dtype).eps


@pytest.mark.parametrize("cache", ALL, ids=lambda c: type(c).__name__)
def test_what_does_not_fit_is_refused_and_nothing_is_written(cache: Any) -> None:
    state = cache.write(cache.reset(2), *pairs(2, 3))
    q, (k, v) = ask(2, 2), pairs(2, 2)
    was = cache.read(state, q).output
    refused: list[tuple[str, Any]] = [
        ("k is torch.float64", lambda: cache.write(state, k.double(), v)),
        ("v is torch.float16", lambda: cache.step(state, q, k, v.half())),
        ("q is torch.float64", lambda: cache.step(state, q.double(), k, v)),
        ("q is torch.float64", lambda: cache.read(state, q.double())),
        ("heads and D as the memory", lambda: cache.write(state, k[:, :1], v)),
        ("heads and E as the memory", lambda: cache.write(state, k, v[..., :4])),
        ("one value a key", lambda: cache.write(state, k, v[:, :, :1])),
        ("the state's batch", lambda: cache.write(state, k[:1], v[:1])),
        ("a multiple of 2", lambda: cache.step(state, q[:, :3], k, v)),
        ("q has 1 queries for 2 pairs", lambda: cache.step(state, q[:, :, :1], k, v)),
        ("go backwards in row 0: found 1, wanted 3", lambda: cache.write(state, k, v, places=torch.tensor([1, 2]))),
        ("a gap in row 1: found 5, wanted 4", lambda: cache.write(state, k, v, places=torch.tensor([[3, 4], [3, 5]]))),
        ("wanted integers", lambda: cache.write(state, k, v, places=torch.tensor([3.0, 4.0]))),
        ("wanted integers", lambda: cache.write(state, k, v, places=torch.tensor([3]))),
        ("crop to 4, wanted 0 to 3", lambda: cache.crop(state, 4)),
        ("crop to -1, wanted 0 to 3", lambda: cache.crop(state, -1)),
        ("crop of row 1 to 4, wanted 0 to 3", lambda: cache.crop(state, torch.tensor([3, 4]))),
        ("wanted integers", lambda: cache.crop(state, torch.tensor([3, 3, 3]))),
        ("rows 0 to 2", lambda: cache.reorder(state, torch.tensor([0, 2]))),
        ("valid is", lambda: cache.write(state, k, v, valid=torch.ones(2, 3, dtype=torch.bool))),
    ]  # fmt: skip
    for message, call in refused:
        with pytest.raises(regard.RegardError, match=message):
            call()
    torch.testing.assert_close(cache.read(state, q).output, was, rtol=0, atol=0)
    cache.write(state, k, v, places=torch.tensor([3, 4]))


def test_a_full_cache_says_so_before_it_writes() -> None:
    cache = StaticCache(G, D, E, capacity=5)
    state = cache.write(cache.reset(2), *pairs(2, 3), valid=torch.tensor([[True, False, False], [True] * 3]))
    kept = state.buffer.parts[0].clone()
    with pytest.raises(regard.RegardError, match="row 1 holds 3 pairs and 3 more are written, capacity is 5"):
        cache.write(state, *pairs(2, 3))
    assert torch.equal(state.buffer.parts[0], kept)
    full = cache.write(state, *pairs(2, 3), valid=torch.tensor([[True, True, True], [False, True, True]]))
    assert full.seen == (4, 5)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: KVCache(0, 4), "heads is 0"),
        (lambda: StaticCache(1, 4, capacity=0), "capacity is 0"),
        (lambda: KVCache(1, 4, store=cast(Any, "int8")), "store is str"),
        (lambda: KVCache(1, 4, engine="fast"), "unknown name 'fast'"),
        (lambda: KVCache(1, 4, score=regard.score.ScaledDot().keyed), "score is keyed already"),
        (lambda: KVCache(1, 4, score=regard.score.ScaledDot() + regard.position.ALiBi(2)), 'wanted anchor="end"'),
        (lambda: KVCache(1, 4, score=regard.position.Rotary(regard.score.Dot(), anchor="start")), 'anchor="end"'),
        (lambda: KVCache(1, 4).reset(-1), "batch is -1"),
        (lambda: KVCache(1, 4).reset(dtype=torch.int64), "wanted a floating"),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit_are_refused(build: Any, message: str) -> None:
    with pytest.raises(regard.RegardError, match=message):
        build()


def test_sinks_of_rows_that_hold_equally_many_at_other_places_are_each_rows_own() -> None:
    cache = SinkCache(2, 4, sinks=1, window=3)
    k, v, q = torch.randn(2, 2, 9, 4), torch.randn(2, 2, 9, 4), torch.randn(2, 2, 1, 4)
    state = cache.reset(2)
    for t in range(9):
        state = cache.write(state, k[:, :, t : t + 1], v[:, :, t : t + 1], valid=torch.tensor([[True], [t > 1]]))
    assert len(set(state.held)) == 1 < len(set(state.recent.starts))
    found = cache.read(state, q)
    for b in range(2):
        alone = cache.read(cache.reorder(state, torch.tensor([b])), q[b : b + 1])
        torch.testing.assert_close(found.output[b : b + 1], alone.output)
