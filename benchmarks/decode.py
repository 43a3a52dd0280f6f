"""Decoding: one query over a long memory, a question of how fast the memory can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.harness.peers import sdpa
from benchmarks.harness.row import Cost, Row, at_most
from benchmarks.harness.setting import Setting
from benchmarks.harness.timing import Contender, race

TITLE = "decoding one query over 32,768 keys, H=8 D=64: a read, and a step of each cache, against PyTorch's kernel"

H, D = 8, 64
PEER = "F.scaled_dot_product_attention"
COPY = "a copy that moves as many bytes"
HELD = f"{PEER} on what a KVCache holds"
CACHES = ("StaticCache", "PagedCache", "KVCache, rotary", "KVCache, 8 bits")


def rows(setting: Setting) -> Iterator[Row]:
    S = setting.size(32_768, quick=331)
    found = race(setting, [Contender("regard", partial(ours, setting, S)), Contender(PEER, partial(fused, setting, S))])
    cost = Cost(4.0 * H * S * D, 2.0 * setting.bytes(H, S, D))  # every key and value, once
    yield found.row(PEER, f"L=1, S={S:,}", cost=cost)

    peers = [Contender(PEER, partial(fused, setting, S)), Contender(COPY, partial(copied, setting, S))]
    peers.append(Contender(HELD, partial(held, setting, S)))
    mine = Contender("KVCache", partial(stepped, setting, "KVCache", S))
    steps = race(setting, [mine, *peers], rounds=3 * setting.rounds)  # the goals are within what a shared machine sways
    yield steps.row(PEER, f"KVCache, write and read, S={S:,}", goal=at_most(1), cost=cost)
    yield steps.row(COPY, f"KVCache, write and read, S={S:,}", goal=at_most(1.5), cost=cost)
    yield steps.row(HELD, f"KVCache, write and read, S={S:,}", note="the peer reads where the cache lies: large pages")
    for name in CACHES:
        one = race(setting, [Contender(name, partial(stepped, setting, name, S)), peers[0]])
        close = "8 bits" not in name and "rotary" not in name
        yield one.row(PEER, f"{name}, write and read, S={S:,}", cost=cost if close else Cost())
    few = race(
        setting,
        [
            Contender("grouped", partial(stepped, setting, "KVCache", S, 2)),
            Contender(f"{PEER}, enable_gqa", partial(grouped, setting, S, 2)),
        ],
    )
    yield few.row(f"{PEER}, enable_gqa", f"KVCache, G=2 key heads, S={S:,}")
    for name, window in (("SlidingCache", {"window": 1024}), ("SinkCache", {"sinks": 4, "window": 1020})):
        one = race(
            setting,
            [
                Contender(name, partial(bounded, setting, name, S, window)),
                Contender(PEER, partial(fused, setting, min(S, 1024))),
            ],
        )
        yield one.row(PEER, f"{name} of 1,024, {S:,} pairs were written", note="the peer reads 1,024 pairs")


def _inputs(setting: Setting, S: int, G: int = H) -> tuple[Tensor, Tensor, Tensor]:
    return (
        setting.randn(1, H, 1, D, seed=0),
        setting.randn(1, G, S, D, seed=1),
        setting.randn(1, G, S, D, seed=2),
    )


def ours(setting: Setting, S: int) -> Callable[[], object]:
    import regard

    q, k, v = _inputs(setting, S)
    return lambda: regard.attend(q, k, v, engine=setting.engine)


def fused(setting: Setting, S: int) -> Callable[[], object]:
    return sdpa(*_inputs(setting, S))


def held(setting: Setting, S: int) -> Callable[[], object]:
    """PyTorch's kernel where a cache's pairs lie, in large pages if the system grants them."""
    from regard import memory

    q, k, v = _inputs(setting, S)
    cache = memory.KVCache(H, D)
    with torch.no_grad():
        state = cache.write(cache.reset(1, **setting.place()), k[:, :, :-1], v[:, :, :-1])
        state = cache.write(state, k[:, :, -1:], v[:, :, -1:])
    return sdpa(q, *cache.pairs(state))


def grouped(setting: Setting, S: int, G: int) -> Callable[[], object]:
    q, k, v = _inputs(setting, S, G)
    return lambda: F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def copied(setting: Setting, S: int) -> Callable[[], object]:
    """Reads half as many bytes as the cache has, and writes them."""
    _, source, _ = _inputs(setting, S)
    target = torch.empty_like(source)

    def copy() -> None:
        target.copy_(source)

    return copy


def stepped(setting: Setting, name: str, S: int, G: int = H) -> Callable[[], object]:
    """One pair is written behind S − 1 and more, and one query reads them all; the last pair again at every call."""
    from regard import memory, position, score

    parts: dict[str, Any] = {}
    if "rotary" in name:
        parts["score"] = position.Rotary(score.ScaledDot())
    if "8 bits" in name:
        parts["store"] = memory.EightBit()
    if name == "StaticCache":
        parts["capacity"] = S + 4096
    cache = getattr(memory, name.partition(",")[0])(G, D, **parts)
    return _steps(setting, cache, S, G, compared=not {"score", "store"} & set(parts))


def bounded(setting: Setting, name: str, S: int, parts: dict[str, int]) -> Callable[[], object]:
    from regard import memory

    return _steps(setting, getattr(memory, name)(H, D, **parts), S, H, compared=False)


def _steps(setting: Setting, cache: Any, S: int, G: int, *, compared: bool) -> Callable[[], object]:
    q, k, v = _inputs(setting, S, G)
    with torch.no_grad():
        state = cache.write(cache.reset(1, **setting.place()), k[:, :, :-1], v[:, :, :-1])
    new = q, k[:, :, -1:], v[:, :, -1:]

    def step() -> object:
        nonlocal state
        with torch.no_grad():
            reading, state = cache.step(state, *new)
        return reading.output if compared else None

    return step
