"""A window of keys: work that follows the tiles it touches, not the square of the length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.harness.peers import attention_cost, band, flex_window, forward_backward, local_window, sdpa
from benchmarks.harness.report import amount
from benchmarks.harness.row import Row, at_least, at_most
from benchmarks.harness.setting import Setting
from benchmarks.harness.timing import Contender, race

TITLE = "window(128, 0), L=8,192, H=4 D=64: time against SDPA with the mask, compiled flex and local-attention"

H, D, LEFT = 4, 64, 128
MASKED, FLEX, LOCAL = "SDPA with the mask", "compiled flex", "local-attention"
FASTER, FASTER_BACK, FLEX_RATIO = at_least(25), at_least(20), at_most(1.0)


def rows(setting: Setting) -> Iterator[Row]:
    """Forward beside all three; with backward flex has no kernel on a CPU, so it stays out."""
    L = setting.size(8192, quick=331)
    for backward in (False, True):
        shape = (L, backward)
        contenders = [
            Contender("regard", partial(ours, setting, *shape)),
            Contender(MASKED, partial(masked, setting, *shape)),
            Contender(LOCAL, partial(local, setting, *shape)),
        ]
        if not backward or setting.device == "cuda":
            contenders.append(Contender(FLEX, partial(flex, setting, *shape)))
        found = race(setting, contenders)
        pairs = L * (LEFT + 1) - LEFT * (LEFT + 1) / 2
        cost = attention_cost(setting, pairs, 1, H, L, D, backward=backward)
        work = f"L={L:,}, forward{' + backward' if backward else ''}"
        yield found.row(MASKED, work, goal=FASTER_BACK if backward else FASTER, cost=cost)
        if FLEX in found.laps:
            took = [f"{lap.name} {amount(lap.first, 's')}" for lap in (found.ours, found.laps[FLEX]) if not lap.problem]
            first = f"first call, compiling included: {', '.join(took)}"
            yield found.row(FLEX, work, goal=None if backward else FLEX_RATIO, note=first, cost=cost)
        yield found.row(LOCAL, work, cost=cost)


def ours(setting: Setting, L: int, backward: bool) -> Callable[[], object]:
    import regard

    q, k, v = setting.qkv(1, H, L, D, grad=backward)
    mask = regard.mask.window(LEFT, 0)
    return forward_backward(lambda: regard.attend(q, k, v, mask=mask, engine=setting.engine), (q, k, v))


def masked(setting: Setting, L: int, backward: bool) -> Callable[[], object]:
    return sdpa(*setting.qkv(1, H, L, D, grad=backward), mask=band(L, LEFT, 0, setting.device))


def local(setting: Setting, L: int, backward: bool) -> Callable[[], object]:
    return local_window(*setting.qkv(1, H, L, D, grad=backward), LEFT, 0)


def flex(setting: Setting, L: int, backward: bool) -> Callable[[], object]:
    return flex_window(*setting.qkv(1, H, L, D, grad=backward), LEFT)
