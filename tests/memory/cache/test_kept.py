"""What is kept and let go: windows, sinks, pages, and what a step costs."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.memory.cache import KVCache, PagedCache, SinkCache, SlidingCache, StaticCache
from regard.score import ScaledDot
from tests.memory.cache.oracle import Oracle, sinks_and_last

H, G, D, E = 4, 2, 6, 5
ROTARY = regard.position.Rotary(ScaledDot())


def chunk(B: int, L: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.randn(B, H, L, D, dtype=dtype),
        torch.randn(B, G, L, D, dtype=dtype),
        torch.randn(B, G, L, E, dtype=dtype),
    )


def test_sinks_equal_the_masked_oracle_at_every_step_and_never_hold_more() -> None:
    """Xiao et al. 2023: places are counted inside the cache; four times the cache and more."""
    cache = SinkCache(G, D, E, sinks=3, window=5, score=ROTARY)
    state, oracle = cache.reset(2, dtype=torch.float64), Oracle(sinks_and_last(3, 5), True, [[], []])
    for t in range(40):
        q, k, v = chunk(2, 1)
        r, state = cache.step(state, q, k, v)
        out, lse, seen = oracle.step(q, k, v, None)
        torch.testing.assert_close(r.output, out, atol=1e-10, rtol=0)
        torch.testing.assert_close(r.lse, lse, atol=1e-10, rtol=0)
        assert torch.equal(r.seen.long(), seen)
        assert state.held == (min(t + 1, 8),) * 2
        assert state.seen == (t + 1,) * 2
        assert cache.nbytes(state) == sum(state.held) * G * (D + E) * 8
        assert cache.reserved(state) <= 2 * (3 + 64) * G * (D + E) * 8


def test_absolute_places_would_read_something_else() -> None:
    """What the oracle above is worth: places of the row instead of the cache are seen to be wrong."""
    cache = SinkCache(G, D, E, sinks=3, window=5, score=ROTARY)
    q, k, v = chunk(1, 30)
    _, state = cache.step(cache.reset(1, dtype=torch.float64), q, k, v)
    kept = [0, 1, 2, 25, 26, 27, 28, 29]
    mask = torch.zeros(30, dtype=torch.bool)
    mask[kept] = True
    score = regard.position.Rotary(ScaledDot(), anchor="end")
    whole = regard.attend(q[:, :, -1:], k, v, score=score, mask=regard.mask.dense(mask))
    assert (cache.read(state, q[:, :, -1:]).output - whole).abs().max() > 1e-3


@pytest.mark.parametrize("window", [1, 4, 200])
def test_a_window_keeps_the_last_and_places_go_on(window: int) -> None:
    cache = SlidingCache(G, D, E, window=window)
    state = cache.reset(1, dtype=torch.float64)
    for t in range(300):
        _, k, v = chunk(1, 1)
        state = cache.write(state, k, v, places=torch.tensor([t]))
        assert state.held == (min(window, t + 1),)
        assert torch.equal(cache.pairs(state)[1][:, :, -1:], v)
        assert cache.reserved(state) == max(2 * window, 64) * G * (D + E) * 8
    k, v = chunk(1, 500)[1:]
    state = cache.write(state, k, v)
    assert state.seen == (800,)
    assert torch.equal(cache.pairs(state)[0], k[:, :, -window:])
    assert cache.reserved(state) == max(2 * window, 64) * G * (D + E) * 8


def test_letting_go_copies_once_a_window() -> None:
    cache, made = SlidingCache(G, D, E, window=100), list[Any]()
    state = cache.reset(1)
    for _ in range(1000):
        state = cache.write(state, *chunk(1, 1, torch.float32)[1:])
        if not made or made[-1] is not state.buffer:
            made.append(state.buffer)
    assert len(made) <= 1 + 1000 // 100


@pytest.mark.parametrize("cache", [SlidingCache(G, D, E, window=4), SinkCache(G, D, E, sinks=1, window=3)], ids=repr)
def test_a_crop_for_which_something_was_let_go_is_refused(cache: Any) -> None:
    state = cache.write(cache.reset(1, dtype=torch.float64), *chunk(1, 4)[1:])
    assert cache.crop(state, 2).seen == (2,)
    state = cache.write(cache.reset(1, dtype=torch.float64), *chunk(1, 5)[1:])
    with pytest.raises(regard.RegardError, match="crop to 4 needs pairs that were let go"):
        cache.crop(state, 4)
    with pytest.raises(regard.RegardError, match="crop to 6, wanted 0 to 5"):
        cache.crop(state, 6)
    assert cache.crop(state, 5).seen == (5,)


def test_rows_that_were_one_share_pages_until_they_write() -> None:
    cache = PagedCache(G, D, E, page=4)
    one = cache.write(cache.reset(1, dtype=torch.float64), *chunk(1, 10)[1:])
    before = cache.nbytes(one)
    three = cache.reorder(one, torch.tensor([0, 0, 0]))
    assert cache.nbytes(three) == before
    k, v = chunk(3, 1)[1:]
    after = cache.write(three, k, v)
    numbers = [[page.number for page in row] for row in after.pages]
    assert [row[:2] for row in numbers] == [[0, 1]] * 3
    assert len({row[2] for row in numbers}) == 3
    assert cache.nbytes(after) == before // 10 * (8 + 3 * 3)
    for b in range(3):
        q = torch.randn(1, H, 1, D, dtype=torch.float64)
        alone = cache.write(one, k[b : b + 1], v[b : b + 1])
        found = cache.read(cache.reorder(after, torch.tensor([b])), q)
        assert torch.equal(found.output, cache.read(alone, q).output)


def test_pages_come_back_when_nobody_has_them() -> None:
    cache = PagedCache(G, D, E, page=4, pages=6)
    state = cache.write(cache.reset(2, dtype=torch.float64), *chunk(2, 12)[1:])  # all six
    kept = [x.clone() for x in state.parts]
    for act, given in ((cache.write, chunk(2, 1)[1:]), (cache.step, chunk(2, 1))):
        with pytest.raises(regard.RegardError, match="2 pages are needed and 0 are free of 6"):
            act(state, *given)
    assert all(torch.equal(x, y) for x, y in zip(kept, state.parts, strict=True))
    short = cache.crop(state, 4)
    with pytest.raises(regard.RegardError, match="0 are free of 6"):  # the longer state still has them
        cache.write(short, *chunk(2, 1)[1:])
    del state
    gc.collect()
    assert sorted(cache.write(short, *chunk(2, 1)[1:]).pages[1][1].free) != []
    assert cache.write(short, *chunk(2, 1)[1:]).seen == (5, 5)


def test_a_row_whose_pages_follow_one_another_is_read_where_it_lies() -> None:
    cache = PagedCache(G, D, E, page=4)
    state = cache.write(cache.reset(1, dtype=torch.float64), *chunk(1, 11)[1:])
    q = torch.randn(1, H, 1, D, dtype=torch.float64)
    assert cache._row(state, 0, q).k[0].data_ptr() == state.parts[0].data_ptr()
    assert cache._row(state, 0, q.requires_grad_()).k[0].data_ptr() != state.parts[0].data_ptr()


class Counting(ScaledDot):
    """A scaled dot product that counts its multiply-adds."""

    count = 0

    def compare(self, q: Tensor, k: Tensor, grid: Any = None) -> Tensor:
        Counting.count += q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2] * q.shape[3]
        return super().compare(q, k, grid)


@pytest.mark.parametrize(
    ("build", "most"),
    [
        (lambda **parts: KVCache(G, D, E, **parts), 10**9),
        (lambda **parts: StaticCache(G, D, E, capacity=64, **parts), 10**9),
        (lambda **parts: PagedCache(G, D, E, page=4, **parts), 10**9),
        (lambda **parts: SlidingCache(G, D, E, window=9, **parts), 9),
        (lambda **parts: SinkCache(G, D, E, sinks=2, window=7, **parts), 9),
    ],
)
def test_a_step_costs_what_is_held_where_recomputation_costs_its_square(build: Any, most: int) -> None:
    cache = build(score=Counting(), engine="reference")
    state, steps, again = cache.reset(1, dtype=torch.float64), [], []
    q, k, v = chunk(1, 40)
    for t in range(40):
        Counting.count = 0
        here = slice(t, t + 1)
        _, state = cache.step(state, q[:, :, here], k[:, :, here], v[:, :, here])
        steps.append(Counting.count)
        Counting.count = 0
        seen = slice(0, t + 1)
        regard.attend(q[:, :, seen], k[:, :, seen], v[:, :, seen], score=cache.score, engine="reference")
        again.append(Counting.count)
    assert steps == [H * D * min(t + 1, most) for t in range(40)]
    assert again == [H * D * (t + 1) ** 2 for t in range(40)]
    assert [cache.cost(t).flops for t in range(40)] == [2 * G * (D + E) * min(t + 1, most) for t in range(40)]
    assert cache.cost(10).bytes == G * (D + E) * 4 * (min(11, most) + 1)
