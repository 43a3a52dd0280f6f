"""Any way to write and read a cache equals reading, without one, what may be seen: splits, padding, reorder, crop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import regard
from regard.memory.cache import KVCache, PagedCache, SinkCache, SlidingCache, StaticCache
from tests.memory.cache.oracle import Oracle, Sees, all_of, last_of, sinks_and_last

H, G, D, E = 4, 2, 6, 5
WINDOW, SINKS = 5, 2
ROTARY = regard.position.Rotary(regard.score.ScaledDot())


@dataclass(frozen=True)
class Kind:
    """A cache, what its queries see, and whether it can be cropped when it has seen so many pairs."""

    name: str
    make: Any
    sees: Sees
    bounded: int = 10**9

    def __repr__(self) -> str:
        return self.name


KINDS = [
    Kind("KVCache", lambda **parts: KVCache(G, D, E, **parts), all_of),
    Kind("StaticCache", lambda **parts: StaticCache(G, D, E, capacity=80, **parts), all_of),
    Kind("PagedCache", lambda **parts: PagedCache(G, D, E, page=3, **parts), all_of),
    Kind("SlidingCache", lambda **parts: SlidingCache(G, D, E, window=WINDOW, **parts), last_of(WINDOW), WINDOW),
    Kind(
        "SinkCache",
        lambda **parts: SinkCache(G, D, E, sinks=SINKS, window=WINDOW, **parts),
        sinks_and_last(SINKS, WINDOW),
        SINKS + WINDOW,
    ),
]

LENGTHS = st.sampled_from([1, 1, 1, 2, 3, WINDOW - 1, WINDOW, WINDOW + 1, 2 * WINDOW])


def chunk(B: int, L: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.randn(B, H, L, D, dtype=dtype),
        torch.randn(B, G, L, D, dtype=dtype),
        torch.randn(B, G, L, E, dtype=dtype),
    )


def agree(r: regard.Reading, wanted: tuple[Tensor, Tensor, Tensor], dtype: torch.dtype) -> None:
    atol = 1e-10 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(r.output.double(), wanted[0], atol=atol, rtol=0)
    torch.testing.assert_close(r.lse.double(), wanted[1], atol=atol, rtol=0)
    assert torch.equal(r.seen.long(), wanted[2])


def read(cache: Any, state: Any, oracle: Oracle, L: int, dtype: torch.dtype) -> None:
    B = len(oracle.rows)
    q = torch.randn(B, H, L, D, dtype=dtype)
    out, lse, seen = torch.zeros(B, H, L, E).double(), torch.full((B, H, L), -torch.inf).double(), torch.zeros(B, H, L)
    for b in range(B):
        for t in range(L):
            if oracle.rows[b]:
                out[b, :, t], lse[b, :, t], seen[b, :, t] = oracle.read(q[b, :, t], b)
    agree(cache.read(state, q), (out, lse, seen.long()), dtype)


@pytest.mark.parametrize("rotary", [False, True], ids=["plain", "rotary"])
@pytest.mark.parametrize("kind", KINDS, ids=repr)
@settings(max_examples=25)
@given(data=st.data())
def test_any_history_equals_the_loops(kind: Kind, rotary: bool, data: st.DataObject) -> None:
    """Chunks of every size with and without padding, reads, reorders, crops, and writes from states of before."""
    dtype = data.draw(st.sampled_from([torch.float64, torch.float64, torch.float32]), "dtype")
    B = data.draw(st.integers(1, 3), "B")
    cache = kind.make(score=ROTARY if rotary else "scaled_dot")
    state, oracle = cache.reset(B, dtype=dtype), Oracle(kind.sees, rotary, [[] for _ in range(B)])
    before: list[tuple[Any, Oracle]] = []
    for _ in range(data.draw(st.integers(1, 6), "operations")):
        B = len(oracle.rows)
        act = data.draw(st.sampled_from(["step", "step", "step", "write", "read", "reorder", "crop", "back"]), "act")
        if act in ("step", "write"):
            L = data.draw(LENGTHS, "L")
            q, k, v = chunk(B, L, dtype)
            valid = None
            how = data.draw(st.sampled_from(["all", "all", "left", "any"]), "valid")
            if how == "left":
                pads = torch.tensor([data.draw(st.integers(0, L), "pads") for _ in range(B)])
                valid = torch.arange(L) >= pads[:, None]
            elif how == "any":
                valid = torch.tensor([[data.draw(st.booleans(), "there") for _ in range(L)] for _ in range(B)])
            before.append((state, oracle.fork()))
            if act == "write":
                state = cache.write(state, k, v, valid=valid)
                oracle.write(k, v, valid)
            else:
                reading, state = cache.step(state, q, k, v, valid=valid)
                agree(reading, oracle.step(q, k, v, valid), dtype)
        elif act == "read":
            read(cache, state, oracle, data.draw(st.integers(1, 3), "L"), dtype)
        elif act == "reorder":
            index = data.draw(st.lists(st.integers(0, B - 1), min_size=1, max_size=4), "index")
            state = cache.reorder(state, torch.tensor(index))
            oracle = Oracle(oracle.sees, rotary, [list(oracle.rows[b]) for b in index])
        elif act == "crop" and max(len(row) for row in oracle.rows) <= kind.bounded:
            lengths = [data.draw(st.integers(0, len(row)), "length") for row in oracle.rows]
            if data.draw(st.booleans(), "each"):
                state = cache.crop(state, torch.tensor(lengths))
            else:
                lengths = [min(max(lengths), len(row)) for row in oracle.rows]
                state = cache.crop(state, max(lengths))
            oracle.rows = [row[:n] for row, n in zip(oracle.rows, lengths, strict=True)]
            before.clear()  # those that reached further are gone
        elif act == "back" and before:
            state, oracle = before[data.draw(st.integers(0, len(before) - 1), "which")]
            oracle = oracle.fork()
    read(cache, state, oracle, 1, dtype)
    for old, then in before:
        read(cache, old, then, 1, dtype)


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_steps_are_what_the_protocol_says(kind: Kind) -> None:
    """A chunk at once is one pair after the other, telemetry included."""
    cache = kind.make(score=ROTARY + regard.position.ALiBi(H, anchor="end"), engine="reference")
    q, k, v = chunk(3, 2 * WINDOW + 1, torch.float64)
    valid = torch.arange(2 * WINDOW + 1) >= torch.tensor([[0], [3], [2 * WINDOW + 1]])
    start = cache.write(cache.reset(3, dtype=torch.float64), *chunk(3, 3, torch.float64)[1:])
    for there in (None, valid):
        at_once, _ = cache.step(start, q, k, v, valid=there, telemetry=True)
        state = start
        for t in range(q.shape[2]):
            here = slice(t, t + 1)
            mine = None if there is None else there[:, here]
            one, state = cache.step(state, q[:, :, here], k[:, :, here], v[:, :, here], valid=mine, telemetry=True)
            for name in ("output", "lse", "seen", "entropy", "peak", "peak_at", "distance"):
                found = getattr(at_once, name)[:, :, here]
                torch.testing.assert_close(found, getattr(one, name))
