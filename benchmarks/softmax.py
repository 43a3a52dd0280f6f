"""Softmax attention with telemetry on, beside the fused kernel without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.harness.peers import attention_cost, forward_backward, sdpa, x_attend
from benchmarks.harness.row import Row, at_most
from benchmarks.harness.setting import Setting
from benchmarks.harness.timing import Contender, race

TITLE = "softmax, causal and full, H=8 D=64, telemetry on: time against F.scaled_dot_product_attention without"

H, D = 8, 64
FORWARD, BACKWARD = at_most(1.1), at_most(1.3)
PEER, EAGER = "F.scaled_dot_product_attention", "x-transformers Attend"


def rows(setting: Setting) -> Iterator[Row]:
    """Two lengths, causal and full, forward and with backward. Attend holds the weights, so only the shorter."""
    lengths = setting.size(2048, quick=67), setting.size(8192, quick=131)
    for L in lengths:
        for causal in (True, False):
            for backward in (False, True):
                shape = (L, causal, backward)
                contenders = [
                    Contender("regard", partial(ours, setting, *shape)),
                    Contender(PEER, partial(fused, setting, *shape)),
                ]
                if lengths[0] == L:
                    contenders.append(Contender(EAGER, partial(eager, setting, *shape)))
                found = race(setting, contenders)
                work = f"{'causal' if causal else 'full'}, L={L:,}, forward{' + backward' if backward else ''}"
                pairs = L * (L + 1) / 2 if causal else L * L
                cost = attention_cost(setting, pairs, 1, H, L, D, backward=backward)
                yield found.row(PEER, work, goal=BACKWARD if backward else FORWARD, cost=cost)
                if EAGER in found.laps:
                    yield found.row(EAGER, work, cost=cost)


def ours(setting: Setting, L: int, causal: bool, backward: bool) -> Callable[[], object]:
    import regard

    q, k, v = setting.qkv(1, H, L, D, grad=backward)
    mask = regard.mask.causal() if causal else None
    return forward_backward(
        lambda: regard.read(q, k, v, mask=mask, engine=setting.engine, telemetry=True).output, (q, k, v)
    )


def fused(setting: Setting, L: int, causal: bool, backward: bool) -> Callable[[], object]:
    return sdpa(*setting.qkv(1, H, L, D, grad=backward), causal=causal)


def eager(setting: Setting, L: int, causal: bool, backward: bool) -> Callable[[], object]:
    return x_attend(*setting.qkv(1, H, L, D, grad=backward), causal=causal)
