"""The laws of memories of pairs, for all of them: a new one joins by a line in ``MEMORIES``.

Prime sizes, a different one for every axis: B = 3 rows, G = 2 heads read by H = 4, L = 11 pairs, D = 6 (rotary pairs
are even), E = 5.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import regard
from regard import memory as m
from regard.memory import PairMemory
from regard.position import Rotary
from regard.score import ScaledDot

B, G, H, L, D, E = 3, 2, 4, 11, 6, 5
F64 = torch.float64

Made = Callable[[], PairMemory[Any]]
MEMORIES: dict[str, Made] = {
    "kv": lambda: m.KVCache(G, D, E),
    "kv, rotary": lambda: m.KVCache(G, D, E, score=Rotary(ScaledDot())),
    "kv, entmax": lambda: m.KVCache(G, D, E, normalize="entmax15"),
    "static": lambda: m.StaticCache(G, D, E, capacity=29),
    "paged": lambda: m.PagedCache(G, D, E, page=3),
    "sliding": lambda: m.SlidingCache(G, D, E, window=5),
    "sinks": lambda: m.SinkCache(G, D, E, sinks=2, window=7, score=Rotary(ScaledDot())),
    "linear": lambda: m.LinearMemory(G, D, E),
    "performer": lambda: m.PerformerMemory(G, D, E, features=13, generator=torch.Generator().manual_seed(2)),
    "delta": lambda: m.DeltaMemory(G, D, E),
    "state space": lambda: m.StateSpaceMemory(G, D, E),
}
#: Parts merge to the whole: all that was written is seen, wherever it stands.
WHOLE = [name for name in MEMORIES if name in ("kv", "static", "paged", "linear", "performer")]
#: Weights are at least 0 and sum to 1.
AVERAGES = [name for name in MEMORIES if name not in ("state space", "delta")]


def every(names: list[str] | None = None) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", list(MEMORIES) if names is None else names)


def chunk(length: int = L, dtype: torch.dtype = F64) -> tuple[Tensor, Tensor, Tensor]:
    shapes = ((B, H, length, D), (B, G, length, D), (B, G, length, E))
    q, k, v = (torch.randn(shape, dtype=F64).to(dtype) for shape in shapes)
    return q, k, v


def there(seed: int) -> Tensor:
    """Padding on the left, holes, a row with nothing, as drawn."""
    valid = torch.rand(B, L, generator=torch.Generator().manual_seed(seed)) < 0.7
    valid[seed % B, : seed % L] = False
    if seed % 5 == 0:
        valid[1] = False
    return valid


@every()
@given(cuts=st.sets(st.integers(1, L - 1)), seed=st.integers(0, 999), ragged=st.booleans())
@settings(max_examples=5)
def test_any_split_is_one_after_the_other(name: str, cuts: set[int], seed: int, ragged: bool) -> None:
    torch.manual_seed(seed)
    memory = MEMORIES[name]()
    q, k, v = chunk()
    valid = there(seed) if ragged else None
    wanted, last = PairMemory.step(memory, memory.reset(B, dtype=F64), q, k, v, valid=valid)
    state, edges = memory.reset(B, dtype=F64), [0, *sorted(cuts), L]
    for a, b in itertools.pairwise(edges):
        some = None if valid is None else valid[:, a:b]
        found, state = memory.step(state, q[:, :, a:b], k[:, :, a:b], v[:, :, a:b], valid=some)
        torch.testing.assert_close(found.output, wanted.output[:, :, a:b], atol=1e-10, rtol=1e-9)
        torch.testing.assert_close(found.lse, wanted.lse[..., a:b], atol=1e-10, rtol=1e-9, equal_nan=True)
        assert torch.equal(found.seen.expand_as(found.lse), wanted.seen[..., a:b].expand_as(found.lse))
    ask = torch.randn(B, H, 2, D, dtype=F64)
    torch.testing.assert_close(memory.read(state, ask).output, memory.read(last, ask).output, atol=1e-10, rtol=1e-9)


@every()
def test_what_is_not_valid_is_as_if_it_had_never_been(name: str) -> None:
    memory = MEMORIES[name]()
    q, k, v = chunk()
    valid = there(3)
    found, state = memory.step(memory.reset(B, dtype=F64), q, k, v, valid=valid)
    assert found.output.permute(0, 2, 1, 3)[~valid].abs().max() == 0
    for b in range(B):
        at = valid[b]
        alone = memory.reset(1, dtype=F64)
        wanted, after = memory.step(alone, q[b : b + 1, :, at], k[b : b + 1, :, at], v[b : b + 1, :, at])
        torch.testing.assert_close(found.output[b, :, at], wanted.output[0], atol=1e-10, rtol=1e-9)
        row = memory.reorder(state, torch.tensor([b]))
        ask = torch.randn(1, H, 1, D, dtype=F64)
        torch.testing.assert_close(memory.read(row, ask).output, memory.read(after, ask).output, atol=1e-10, rtol=1e-9)


def of_nothing(memory: PairMemory[Any], q: Tensor, k: Tensor, v: Tensor) -> list[regard.Reading]:
    """Readings of an empty memory, and of one that was told nothing valid."""
    nobody = torch.zeros(B, L, dtype=torch.bool)
    silent, state = memory.step(memory.reset(B, dtype=F64), q, k, v, valid=nobody)
    return [memory.read(memory.reset(B, dtype=F64), q), silent, memory.read(state, q)]


@every()
def test_nothing_is_read_of_nothing(name: str) -> None:
    for found in of_nothing(MEMORIES[name](), *chunk()):
        assert found.output.abs().max() == 0
        assert found.seen.abs().max() == 0
        assert bool((found.lse == -math.inf).all()) or bool(found.no_merge)


@every()
def test_nothing_has_no_gradient(name: str) -> None:
    q, k, v = (x.requires_grad_() for x in chunk())
    torch.stack([found.output for found in of_nothing(MEMORIES[name](), q, k, v)]).sum().backward()
    for x in (q, k, v):
        assert x.grad is None or x.grad.abs().max() == 0


@every(AVERAGES)
def test_a_read_lies_among_the_values(name: str) -> None:
    memory = MEMORIES[name]()
    q, k, v = chunk()
    found, _ = memory.step(memory.reset(B, dtype=F64), 5 * q, k, v)
    values = v.repeat_interleave(H // G, 1)
    for t in range(L):
        low, high = values[:, :, : t + 1].amin(2), values[:, :, : t + 1].amax(2)
        assert bool((found.output[:, :, t] >= low - 1e-9).all())
        assert bool((found.output[:, :, t] <= high + 1e-9).all())


@every(WHOLE)
def test_parts_merge_to_the_whole(name: str) -> None:
    memory = MEMORIES[name]()
    q, k, v = chunk()
    whole = memory.read(memory.write(memory.reset(B, dtype=F64), k, v), q)
    parts = [
        memory.read(memory.write(memory.reset(B, dtype=F64), k[:, :, a:b], v[:, :, a:b]), q)
        for a, b in ((0, 2), (2, 7), (7, 7), (7, L))
    ]
    merged = regard.Reading.merge(*parts)
    torch.testing.assert_close(merged.output, whole.output, atol=1e-10, rtol=1e-9)
    torch.testing.assert_close(merged.lse, whole.lse, atol=1e-10, rtol=1e-9)


@every()
def test_rows_know_nothing_of_each_other(name: str) -> None:
    memory = MEMORIES[name]()
    q, k, v = chunk()
    found, state = memory.step(memory.reset(B, dtype=F64), q, k, v)
    index = torch.tensor([2, 0, 2, 1, 1])
    more = chunk(3)
    again, _ = memory.step(memory.reorder(state, index), *(x[index] for x in more))
    wanted, _ = memory.step(state, *more)
    torch.testing.assert_close(again.output, wanted.output[index], atol=1e-10, rtol=1e-9)
    k, v = k.clone(), v.clone()
    k[0], v[0] = 1e3, -1e3
    other, _ = memory.step(memory.reset(B, dtype=F64), q, k, v)
    assert torch.equal(other.output[1:], found.output[1:])


@every()
def test_a_state_stays_what_it_was(name: str) -> None:
    """However it is written from, twice over: the branches know nothing of each other, and it knows of neither."""
    memory = MEMORIES[name]()
    q, k, v = chunk(7)
    state = memory.write(memory.reset(B, dtype=F64), k, v)
    before = memory.read(state, q).output.clone()
    one, other = chunk(2), chunk(3)
    first = memory.write(state, *one[1:])
    seen = memory.read(first, q).output.clone()
    second = memory.write(state, *other[1:])
    torch.testing.assert_close(memory.read(first, q).output, seen, atol=0, rtol=0)
    torch.testing.assert_close(memory.read(state, q).output, before, atol=0, rtol=0)
    apart = memory.write(memory.write(memory.reset(B, dtype=F64), k, v), *other[1:])
    torch.testing.assert_close(memory.read(second, q).output, memory.read(apart, q).output, atol=1e-12, rtol=1e-12)


@every()
def test_what_is_refused_leaves_the_state_whole(name: str) -> None:
    memory = MEMORIES[name]()
    q, k, v = chunk()
    state = memory.write(memory.reset(B, dtype=F64), k[:, :, :7], v[:, :, :7])
    before = memory.read(state, q).output.clone()
    for wrong in (
        (q, k[:2], v, None),
        (q, k[..., :-1], v, None),
        (q, k, v[:, :, :-1], None),
        (q[:, :, :-1], k, v, None),
        (q[:, :3], k, v, None),
        (q, k, v, torch.ones(B, L)),
        (q, k, v, torch.ones(B, L - 1, dtype=torch.bool)),
    ):
        with pytest.raises(regard.RegardError, match=type(memory).__name__):
            memory.step(state, wrong[0], wrong[1], wrong[2], valid=wrong[3])
    with pytest.raises(regard.RegardError, match="index"):
        memory.reorder(state, torch.tensor([0, B]))
    assert torch.equal(memory.read(state, q).output, before)


@every()
def test_gradients_are_those_of_one_after_the_other(name: str) -> None:
    memory = MEMORIES[name]()
    given = chunk()
    valid = there(4)
    up = torch.randn(B, H, L, E, dtype=F64)
    ask = torch.randn(B, H, 2, D, dtype=F64)
    grads = []
    for step in (type(memory).step, PairMemory.step):
        q, k, v = leaves = [x.clone().requires_grad_() for x in given]
        found, state = step(memory, memory.reset(B, dtype=F64), q, k, v, valid=valid)
        ((found.output * up).sum() + memory.read(state, ask).output.sum()).backward()
        grads.append([x.grad for x in leaves])
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-8)


@every()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_every_precision_reads_in_its_own(name: str, dtype: torch.dtype) -> None:
    memory = MEMORIES[name]()
    q, k, v = chunk(dtype=dtype)
    exact, _ = memory.step(memory.reset(B, dtype=F64), q.double(), k.double(), v.double())
    found, state = memory.step(memory.reset(B, dtype=dtype), q, k, v)
    assert found.output.dtype == dtype
    assert memory.read(state, q).output.dtype == dtype
    close = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 6e-2}[dtype]
    scale = exact.output.abs().max()
    assert (found.output.double() - exact.output).abs().max() <= close * scale


@every()
def test_what_it_takes_is_told(name: str) -> None:
    memory = MEMORIES[name]()
    _, k, v = chunk()
    state = memory.write(memory.reset(B, dtype=F64), k, v)
    assert memory.nbytes(state) > 0
    costs = [memory.cost(length) for length in (0, 10, 1000)]
    assert all(cost.flops > 0 and cost.bytes > 0 for cost in costs[1:])
    assert costs[1].flops <= costs[2].flops
