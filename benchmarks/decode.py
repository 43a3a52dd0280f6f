"""Decoding: one query over a long memory, a question of how fast the memory can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from torch import Tensor

from benchmarks.harness.peers import sdpa
from benchmarks.harness.row import Cost, Row
from benchmarks.harness.setting import Setting
from benchmarks.harness.timing import Contender, race

TITLE = "decoding one query over 32,768 keys, H=8 D=64: time against F.scaled_dot_product_attention"

H, D = 8, 64
PEER = "F.scaled_dot_product_attention"


def rows(setting: Setting) -> Iterator[Row]:
    S = setting.size(32_768, quick=331)
    found = race(setting, [Contender("regard", partial(ours, setting, S)), Contender(PEER, partial(fused, setting, S))])
    moved = 2.0 * setting.bytes(H, S, D)  # every key and value, once
    yield found.row(PEER, f"L=1, S={S:,}", cost=Cost(4.0 * H * S * D, moved))


def _inputs(setting: Setting, S: int) -> tuple[Tensor, Tensor, Tensor]:
    return (
        setting.randn(1, H, 1, D, seed=0),
        setting.randn(1, H, S, D, seed=1),
        setting.randn(1, H, S, D, seed=2),
    )


def ours(setting: Setting, S: int) -> Callable[[], object]:
    import regard

    q, k, v = _inputs(setting, S)
    return lambda: regard.attend(q, k, v, engine=setting.engine)


def fused(setting: Setting, S: int) -> Callable[[], object]:
    return sdpa(*_inputs(setting, S))
