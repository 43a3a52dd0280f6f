"""The memory of hops against the paper in plain loops, its rows, its time, and what it refuses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.errors import RegardError
from regard.memory.episodic import EpisodicMemory, Facts, Linear, TimeTable

B, K, S, D, L = 3, 2, 7, 5, 2


def full(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def table(ages: int = 11) -> TimeTable:
    return TimeTable(full(K, ages, D), full(K, ages, D))


def by_the_paper(
    u: list[float], keys: Tensor, values: Tensor, times: TimeTable | None, soft: bool, H: Tensor | None
) -> tuple[list[float], list[list[float]]]:
    """Sukhbaatar et al. 2015, section 2.1 eq. 1–2, 2.2, 4.1: one question over facts (K, n, D), in Python's numbers."""
    hops = []
    for k in range(K):
        n = keys.shape[1]
        m = [[float(keys[k, i, d]) for d in range(D)] for i in range(n)]
        c = [[float(values[k, i, d]) for d in range(D)] for i in range(n)]
        if times is not None:
            for i in range(n):
                for d in range(D):
                    m[i][d] += float(times.keys[k, n - 1 - i, d])
                    c[i][d] += float(times.values[k, n - 1 - i, d])
        s = [sum(u[d] * m[i][d] for d in range(D)) for i in range(n)]
        p = [math.exp(x - max(s)) for x in s] if soft else s
        p = [x / sum(p) for x in p] if soft else p
        o = [sum(p[i] * c[i][d] for i in range(n)) for d in range(D)]
        carried = u if H is None else [sum(float(H[d, e]) * u[e] for e in range(D)) for d in range(D)]
        u = [carried[d] + o[d] for d in range(D)]
        hops.append(o)
    return u, hops


PARTS: list[dict[str, Any]] = [
    {},
    {"normalize": Linear()},
    {"times": True},
    {"times": True, "carry": True},
    {"times": True, "normalize": Linear(), "engine": "reference"},
]


def built(parts: dict[str, Any]) -> tuple[EpisodicMemory, Tensor | None]:
    H = full(D, D) if "carry" in parts else None
    parts = {n: x for n, x in parts.items() if n != "carry"} | ({"times": table()} if "times" in parts else {})
    return EpisodicMemory(D, K, **parts, carry=None if H is None else lambda u: u @ H.mT), H


@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_it_is_the_paper(parts: dict[str, Any]) -> None:
    memory, H = built(parts)
    k, v, u = full(B, K, S, D), full(B, K, S, D), full(B, L, D)
    valid = torch.tensor([[1] * 7, [0, 1, 1, 0, 0, 1, 1], [1, 1, 1, 0, 0, 0, 0]]).bool()
    found = memory.recall(memory.write(memory.reset(B, dtype=torch.float64), k, v, valid=valid), u)
    for b in range(B):
        for l in range(L):
            there = valid[b]
            wanted, hops = by_the_paper(
                u[b, l].tolist(), k[b][:, there], v[b][:, there], memory.times, "normalize" not in parts, H
            )
            torch.testing.assert_close(
                found.query[b, l], torch.tensor(wanted, dtype=torch.float64), rtol=1e-10, atol=1e-10
            )
            for reading, o in zip(found.hops, hops, strict=True):
                torch.testing.assert_close(
                    reading.output[b, 0, l], torch.tensor(o, dtype=torch.float64), rtol=1e-10, atol=1e-10
                )


@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_any_split_and_any_padding_is_the_same_memory(parts: dict[str, Any]) -> None:
    """Written at once, fact by fact with others between that are not there (NaN in them), and row by row."""
    memory, _ = built(parts)
    k, v, u = full(B, K, S, D), full(B, K, S, D), full(B, L, D)
    valid = torch.rand(B, S) < 0.6
    valid[0], valid[1] = True, False
    k[~valid[:, None].expand(B, K, S)] = torch.nan
    v[~valid[:, None].expand(B, K, S)] = torch.nan
    state = memory.reset(B, dtype=torch.float64)
    whole = memory.recall(memory.write(state, k, v, valid=valid), u)
    for at in (slice(0, 2), slice(2, 2), slice(2, 3), slice(3, S)):
        state = memory.write(state, k[:, :, at], v[:, :, at], valid=valid[:, at])
    parted = memory.recall(state, u)
    torch.testing.assert_close(parted.query, whole.query)
    assert state.lengths.tolist() == valid.sum(1).tolist()
    for b in range(B):
        alone = memory.write(memory.reset(1, dtype=torch.float64), k[b : b + 1, :, valid[b]], v[b : b + 1, :, valid[b]])
        torch.testing.assert_close(memory.recall(alone, u[b : b + 1]).query, whole.query[b : b + 1])
    # the second row has no facts at all
    assert whole.hops[0].output[1].abs().max() == 0
    if "carry" not in parts:
        assert torch.equal(whole.query[1], u[1])


def test_the_newest_stay() -> None:
    times = table(4)
    memory, every = EpisodicMemory(D, K, slots=4, times=times), EpisodicMemory(D, K, times=times)
    k, v, u = full(B, K, S, D), full(B, K, S, D), full(B, L, D)
    state = memory.reset(B, dtype=torch.float64)
    for t in range(S):
        valid = torch.ones(B, 1, dtype=torch.bool)
        valid[1] = t % 2 == 0
        state = memory.write(state, k[:, :, t : t + 1], v[:, :, t : t + 1], valid=valid)
    assert state.lengths.tolist() == [4, 4, 4]
    kept = torch.stack([torch.tensor([3, 4, 5, 6]), torch.tensor([0, 2, 4, 6]), torch.tensor([3, 4, 5, 6])])
    at = kept[:, None, :, None].expand(-1, K, -1, D)
    short = every.write(every.reset(B, dtype=torch.float64), k.gather(2, at), v.gather(2, at))
    torch.testing.assert_close(memory.recall(state, u).query, every.recall(short, u).query)
    with pytest.raises(RegardError, match="a fact of age 6"):
        every.recall(every.write(every.reset(B, dtype=torch.float64), k, v), u)


@pytest.mark.parametrize("slots", [None, S + 1])
def test_a_crop_is_as_if_no_more_had_been_written(slots: int | None) -> None:
    memory = EpisodicMemory(width=D, hops=K, slots=slots, times=table())
    k, v, u = full(B, K, S, D), full(B, K, S, D), full(B, L, D)
    valid = torch.tensor([[True] * S, [False, True, True] + [False] * (S - 3), [True, False] * (S // 2) + [True]])
    state = memory.write(memory.reset(B, dtype=torch.float64), k, v, valid=valid)  # rows of 7, 2 and 4
    for length in (torch.tensor([5, 0, 3]), torch.tensor([7, 2, 4]), 3, 0):
        kept = length.tolist() if isinstance(length, Tensor) else [min(n, length) for n in (7, 2, 4)]
        first = valid & (valid.cumsum(1) <= torch.tensor(kept)[:, None])
        wanted = memory.write(memory.reset(B, dtype=torch.float64), k, v, valid=first)
        found = memory.crop(state, length)
        assert found.lengths.tolist() == kept
        assert found.keys.shape[2] == max(kept)
        more = k[:, :, :3], v[:, :, :3]
        for one, other in ((found, wanted), (memory.write(found, *more), memory.write(wanted, *more))):
            same = memory.recall(one, u).query
            torch.testing.assert_close(same, memory.recall(other, u).query, atol=1e-12, rtol=0)
    assert memory.crop(memory.reset(0, dtype=torch.float64), 0).lengths.tolist() == []


def test_a_full_row_gives_nothing_back() -> None:
    memory = EpisodicMemory(width=D, hops=K, slots=3)
    state = memory.write(memory.reset(B), torch.ones(B, K, 5, D), torch.ones(B, K, 5, D))
    with pytest.raises(RegardError, match=r"crop of row 0 to 2 may need facts that were let go: it holds 3"):
        memory.crop(state, 2)
    assert memory.crop(state, 3).lengths.tolist() == [3, 3, 3]
    with pytest.raises(RegardError, match="crop to 4, wanted 0 to 3"):
        memory.crop(state, 4)


def test_without_time_facts_have_no_order_and_with_it_they_have() -> None:
    k, v, u = full(B, K, S, D), full(B, K, S, D), full(B, L, D)
    at = torch.randperm(S)
    for memory, same in ((EpisodicMemory(D, K), True), (EpisodicMemory(D, K, times=table()), False)):
        a = memory.write(memory.reset(B, dtype=torch.float64), k, v)
        b = memory.write(memory.reset(B, dtype=torch.float64), k[:, :, at], v[:, :, at])
        assert torch.allclose(memory.recall(a, u).query, memory.recall(b, u).query) == same
        moved = memory.recall(b, u, ages=memory.ages(a)[at]).query  # their ages go with them
        torch.testing.assert_close(moved, memory.recall(a, u).query)


def test_rows_are_reordered_and_gradients_reach_everything() -> None:
    memory = EpisodicMemory(D, K, times=TimeTable(*(full(K, S, D).requires_grad_() for _ in range(2))))
    k, v, u = (full(*shape).requires_grad_() for shape in ((B, K, S, D), (B, K, S, D), (B, L, D)))
    state = memory.write(memory.reset(B, dtype=torch.float64), k, v)
    found = memory.recall(state, u)
    index = torch.tensor([1, 1, 2, 0])
    again = memory.recall(memory.reorder(state, index), u[index])
    torch.testing.assert_close(again.query, found.query[index])
    assert memory.times is not None
    for x in torch.autograd.grad(found.query.sum(), [k, v, u, memory.times.keys, memory.times.values]):
        assert float(x.abs().min()) > 0
    torch.testing.assert_close(memory.read(state, u).output, found.hops[-1].output)


def test_groups_and_bytes() -> None:
    memory = EpisodicMemory(D, K)
    state = memory.write(memory.reset(B, dtype=torch.float64), full(B, K, S, D), full(B, K, S, D))
    group = torch.rand(B, S) < 0.5
    found = memory.recall(state, full(B, L, D), groups={"some": group, "rest": ~group})
    for hop in found.hops:
        torch.testing.assert_close(hop.mass["some"] + hop.mass["rest"], torch.ones(B, 1, L).double())
    assert memory.nbytes(state) == 2 * B * K * S * D * 8 + B * 8
    assert memory.cost(100).bytes > memory.cost(10).bytes
    assert EpisodicMemory(D, K, slots=10).cost(100) == EpisodicMemory(D, K, slots=10).cost(10)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_half_precision_is_near(dtype: torch.dtype, engine: str) -> None:
    memory = EpisodicMemory(D, K, engine=engine)
    k, v, u = full(B, K, S, D).to(dtype), full(B, K, S, D).to(dtype), full(B, L, D).to(dtype)
    short = memory.recall(memory.write(memory.reset(B, dtype=dtype), k, v), u).query
    exact = memory.recall(memory.write(memory.reset(B, dtype=torch.float64), k.double(), v.double()), u.double()).query
    assert short.dtype == dtype
    # a sum of K reads, each rounded, and the scores of the second by a question that was rounded
    torch.testing.assert_close(short.double(), exact, rtol=0, atol=40 * torch.finfo(dtype).eps)


def state() -> Facts:
    memory = EpisodicMemory(D, K)
    return memory.write(memory.reset(B), torch.randn(B, K, S, D), torch.randn(B, K, S, D))


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: EpisodicMemory(0), "width is 0"),
    (lambda: EpisodicMemory(D, 0), "hops is 0"),
    (lambda: EpisodicMemory(D, K, slots=0), "slots is 0"),
    (lambda: EpisodicMemory(D, K, normalize="linear"), "normalize: unknown name 'linear'"),
    (lambda: EpisodicMemory(D, 3, times=table()), "times are for 2 hops, 11 ages and width 5, wanted 3 hops"),
    (lambda: EpisodicMemory(D, K, slots=12, times=table()), r"as many ages as slots \(12\)"),
    (lambda: EpisodicMemory(D, K).write(state(), torch.randn(B, 3, 1, D), torch.randn(B, 3, 1, D)), "k is"),
    (lambda: EpisodicMemory(D, K).write(state(), torch.randn(B, K, 1, D), torch.randn(B, K, 2, D)), "one value a key"),
    (
        lambda: EpisodicMemory(D, K).write(
            state(), torch.randn(B, K, 1, D), torch.randn(B, K, 1, D), valid=torch.ones(B, 2).bool()
        ),
        "valid is",
    ),
    (lambda: EpisodicMemory(D, K).recall(state(), torch.randn(B, D)), r"u is \(3, 5\)"),
    (lambda: EpisodicMemory(D, K).recall(state(), torch.randn(B, 1, D), ages=torch.zeros(B, 2).long()), "ages are"),
    (lambda: EpisodicMemory(D, K).reorder(state(), torch.tensor([3])), "rows 3 to 3"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        call()
