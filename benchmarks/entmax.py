"""Sparse normalisers, alone and inside attention, beside the entmax package, and top-k beside PyTorch's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.harness import peers
from benchmarks.harness.curve import Series, curve, exponent
from benchmarks.harness.memory import memory_row
from benchmarks.harness.peers import attention_cost, forward_backward
from benchmarks.harness.row import Cost, Point, Row, at_least, at_most
from benchmarks.harness.setting import Setting
from benchmarks.harness.timing import Contender, race

TITLE = (
    "1.5-entmax and sparsemax, alone (2,048 × 2,048) and in attention (L=2,048, H=8 D=64): against the entmax package; "
    "top-k in attention: against torch.topk"
)

H, D, KEPT = 8, 64, 32
SOFTMAX, EAGER, TOPK = "torch.softmax", "entmax15 on eager scores", "torch.topk on eager scores"
FASTER_INSIDE, LINEAR = at_least(10), at_most(1.1)
#: what it is called, regard's name, the package's exact and bisecting forms, and the goal beside the exact one
ALONE = [
    ("1.5-entmax", "entmax15", "entmax15", "entmax_bisect", at_least(50)),
    ("sparsemax", "sparsemax", "sparsemax", "sparsemax_bisect", at_least(40)),
]


def rows(setting: Setting) -> Iterator[Row | Point]:
    n = setting.size(2048, quick=97)
    for name, mine, exact, bisecting, goal in ALONE:
        found = race(
            setting,
            [
                Contender("regard", partial(ours_alone, setting, n, mine)),
                *(Contender(f"entmax.{peer}", partial(package_alone, setting, n, peer)) for peer in (exact, bisecting)),
                Contender(SOFTMAX, partial(softmax_alone, setting, n)),
            ],
        )
        found.laps[SOFTMAX].differs = 0.0  # another function: what a dense row costs
        moved = Cost(bytes=2.0 * setting.bytes(n, n))
        work = f"{name} alone, {n:,} × {n:,}"
        yield found.row(f"entmax.{exact}", work, goal=goal, cost=moved)
        yield found.row(f"entmax.{bisecting}", work, cost=moved)
        yield found.row(SOFTMAX, work, cost=moved)
    yield from _inside(setting)
    yield _top(setting)


def _top(setting: Setting) -> Row:
    L = setting.size(2048, quick=97)
    contenders = [Contender("regard", partial(ours_top, setting, L)), Contender(TOPK, partial(eager_top, setting, L))]
    cost = attention_cost(setting, L * L, 1, H, L, D, backward=True)
    return race(setting, contenders).row(TOPK, f"top-{KEPT} attention, H=8, L={L:,}, forward + backward", cost=cost)


def _inside(setting: Setting) -> Iterator[Row | Point]:
    L = setting.size(2048, quick=97)
    found = race(
        setting, [Contender("regard", partial(ours, setting, L)), Contender(EAGER, partial(package, setting, L))]
    )
    work = f"1.5-entmax attention, H=8, L={L:,}, forward + backward"
    yield found.row(EAGER, work, goal=FASTER_INSIDE, cost=attention_cost(setting, L * L, 1, H, L, D, backward=True))
    small = min(512, L)
    yield memory_row(setting, work, ours, (small,), (L,), peer=(EAGER, package, (L,)))
    lengths = (L // 2, L, L * 2, L * 4)
    found_points = []
    growing = "1.5-entmax attention, H=8, forward + backward"
    series = [Series("regard", ours, lengths), Series(EAGER, package, lengths[:2])]
    for each in curve(setting, growing, series, small=small, rounds=1):
        if isinstance(each, Point) and each.series == "regard":
            found_points.append(each)
        yield each
    yield exponent(setting, f"{growing}: memory", found_points, "mib", goal=LINEAR)


def ours_alone(setting: Setting, n: int, name: str) -> Callable[[], object]:
    import regard

    scores = setting.randn(n, n)
    normalise: Any = {"entmax15": regard.normalize.Entmax(1.5), "sparsemax": regard.normalize.Sparsemax()}[name]
    return lambda: normalise(scores)


def package_alone(setting: Setting, n: int, name: str) -> Callable[[], object]:
    normalise, scores = peers.entmax(name), setting.randn(n, n)
    return lambda: normalise(scores)


def softmax_alone(setting: Setting, n: int) -> Callable[[], object]:
    scores = setting.randn(n, n)
    return lambda: torch.softmax(scores, -1)


def ours(setting: Setting, L: int) -> Callable[[], object]:
    import regard

    q, k, v = setting.qkv(1, H, L, D, grad=True)
    normalize = regard.normalize.Entmax(1.5)
    return forward_backward(lambda: regard.attend(q, k, v, normalize=normalize, engine=setting.engine), (q, k, v))


def package(setting: Setting, L: int) -> Callable[[], object]:
    q, k, v = setting.qkv(1, H, L, D, grad=True)
    normalise = peers.entmax("entmax15")
    return forward_backward(lambda: normalise(q @ k.mT * D**-0.5) @ v, (q, k, v))


def ours_top(setting: Setting, L: int) -> Callable[[], object]:
    import regard

    q, k, v = setting.qkv(1, H, L, D, grad=True)
    normalize = regard.normalize.TopK(KEPT)
    return forward_backward(lambda: regard.attend(q, k, v, normalize=normalize, engine=setting.engine), (q, k, v))


def eager_top(setting: Setting, L: int) -> Callable[[], object]:
    """The least that PyTorch needs: the softmax of what torch.topk finds, put back in its places."""
    q, k, v = setting.qkv(1, H, L, D, grad=True)

    def read() -> Tensor:
        scores = q @ k.mT * D**-0.5
        best, at = scores.topk(KEPT, -1)
        return torch.zeros_like(scores).scatter(-1, at, torch.softmax(best, -1)) @ v

    return forward_backward(read, (q, k, v))
