"""Memories of a fixed size, causal: linear attention, Performer and the delta rule beside exact attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from benchmarks.harness.curve import Series, curve, exponent
from benchmarks.harness.memory import memory_row
from benchmarks.harness.peers import forward_backward, performer, performer_sums, sdpa
from benchmarks.harness.row import Cost, Goal, Point, Row, at_least, at_most
from benchmarks.harness.setting import Make, Setting
from benchmarks.harness.timing import Contender, race

TITLE = (
    "linear attention, Performer, the delta rule, causal, L=16,384, H=8 D=64: against F.scaled_dot_product_attention "
    "and performer-pytorch"
)

H, D, MANY = 8, 64, 256
EXACT, SUMS, PEER = "F.scaled_dot_product_attention", "performer-pytorch's sums", "performer-pytorch"
FASTER, SAME, LINEAR = at_least(10), at_most(1e-4), at_most(1.2)


def rows(setting: Setting) -> Iterator[Row | Point]:
    L = setting.size(16_384, quick=300)
    yield from _beside(setting, f"linear (elu + 1), L={L:,}", linear, (L,), FASTER, (SUMS, sums, (L,)))
    for features, goal in ((D, FASTER), (MANY, None)):
        work = f"Performer of {features} features, L={L:,}"
        yield from _beside(setting, work, favor, (L, features), goal, (PEER, peer, (L, features)))
    yield from _beside(setting, f"delta rule, L={L:,}", delta, (L,), None, None)
    for name in ("linear", "Performer"):
        yield _difference(setting, name, L)
    yield from _growing(setting, L)


def _beside(
    setting: Setting,
    work: str,
    make: Make,
    given: tuple[int, ...],
    goal: Goal | None,
    other: tuple[str, Make, tuple[int, ...]] | None,
) -> Iterator[Row]:
    L, features = given[0], (*given, D)[1]
    contenders = [
        Contender("regard", partial(make, setting, *given)),
        Contender(EXACT, partial(exact, setting, L)),
        *([Contender(other[0], partial(other[1], setting, *other[2]))] if other else []),
    ]
    found = race(setting, contenders, rounds=min(3, setting.rounds))
    found.laps[EXACT].differs = 0.0  # another function: what it costs to look at every pair
    cost = Cost(4.0 * features * (D + 1) * H * L, 4.0 * setting.bytes(H, L, D))
    yield found.row(EXACT, work, goal=goal, cost=cost)
    if other:
        if other[0] == PEER:
            found.laps[PEER].differs = 0.0  # directions of its own
        yield found.row(other[0], work, cost=cost)
        small = (min(512, L), *given[1:])
        yield memory_row(setting, work, make, small, given, peer=other)
    training = [
        Contender("regard", partial(make, setting, L // 2, *given[1:], grad=True)),
        Contender(EXACT, partial(exact, setting, L // 2, grad=True)),
    ]
    found = race(setting, training, rounds=min(3, setting.rounds))
    found.laps[EXACT].differs = 0.0
    yield found.row(EXACT, f"{work.partition(', L=')[0]}, L={L // 2:,}, forward + backward")


def _difference(setting: Setting, name: str, L: int) -> Row:
    """How far the chunks of one head are from every pair's weight, in float64, a band of queries at a time."""
    memory = _memory(name, heads=1)
    q, k, v = setting.qkv(1, 1, L, D)
    mine = memory.step(memory.reset(device=q.device), q, k, v)[0].output
    phi, most = memory.map, 0.0
    keys = phi(k.double())
    for first in range(0, L, 1024):
        here = slice(first, first + 1024)
        weights = (phi(q[:, :, here].double()) @ keys.mT).tril(first)
        wanted = weights / weights.sum(-1, keepdim=True) @ v.double()
        most = max(most, float((mine[:, :, here] - wanted).abs().max()))
    work = f"{name}, L={L:,}: from its quadratic form in float64"
    return Row(work, "", "largest difference", most, goal=SAME, judged=setting.judged)


def _growing(setting: Setting, L: int) -> Iterator[Row | Point]:
    """Exponents of time forward, and of memory with the gradient."""
    lengths = tuple(L >> shift for shift in range(4, -1, -1)) if not setting.quick else (L // 2, L)
    mine: dict[str, Make] = {"linear": linear, "Performer": favor, "delta rule": delta}
    training: dict[str, Make] = {"linear": linear_training, "Performer": favor_training, "delta rule": delta_training}
    for work, makes, what in (
        ("causal, forward", {**mine, "SDPA": exact}, "seconds"),
        ("causal, forward + backward", training, "mib"),
    ):
        series = [
            Series(name, make, lengths if name != "SDPA" else tuple(n for n in lengths if n <= 8192))
            for name, make in makes.items()
        ]
        found: dict[str, list[Point]] = {each.name: [] for each in series}
        for each in curve(setting, work, series, small=1024):  # long enough for the kernel, with a gradient too
            if isinstance(each, Point):
                found[each.series].append(each)
            yield each
        for name, points in found.items():
            kind = "time" if what == "seconds" else "memory"
            row = exponent(setting, f"{work}, {name}: {kind}", points, what, goal=LINEAR)
            yield row if name != "SDPA" else Row(**{**vars(row), "goal": None})


def _memory(name: str, features: int = D, heads: int = H) -> Any:
    import torch

    from regard import memory

    if name == "linear":
        return memory.LinearMemory(heads, D)
    if name == "delta rule":
        return memory.DeltaMemory(heads, D)
    return memory.PerformerMemory(heads, D, features=features, generator=torch.Generator().manual_seed(0))


def _step(setting: Setting, name: str, L: int, features: int = D, *, grad: bool = False) -> Callable[[], object]:
    memory = _memory(name, features)
    q, k, v = setting.qkv(1, H, L, D, grad=grad)
    state = memory.reset(device=q.device)
    return forward_backward(lambda: memory.step(state, q, k, v)[0].output, (q, k, v))


def linear(setting: Setting, L: int, grad: bool = False) -> Callable[[], object]:
    return _step(setting, "linear", L, grad=grad)


def favor(setting: Setting, L: int, features: int = D, grad: bool = False) -> Callable[[], object]:
    return _step(setting, "Performer", L, features, grad=grad)


def delta(setting: Setting, L: int, grad: bool = False) -> Callable[[], object]:
    return _step(setting, "delta rule", L, grad=grad)


def linear_training(setting: Setting, L: int) -> Callable[[], object]:
    return linear(setting, L, grad=True)


def favor_training(setting: Setting, L: int) -> Callable[[], object]:
    return favor(setting, L, grad=True)


def delta_training(setting: Setting, L: int) -> Callable[[], object]:
    return delta(setting, L, grad=True)


def exact(setting: Setting, L: int, grad: bool = False) -> Callable[[], object]:
    return sdpa(*setting.qkv(1, H, L, D, grad=grad), causal=True)


def sums(setting: Setting, L: int) -> Callable[[], object]:
    return performer_sums(*setting.qkv(1, H, L, D))


def peer(setting: Setting, L: int, features: int) -> Callable[[], object]:
    return performer(*setting.qkv(1, H, L, D), features)
