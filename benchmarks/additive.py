"""Additive attention (Bahdanau et al. 2015) without the array of hidden layers, beside the eager way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from benchmarks.harness.memory import memory_row
from benchmarks.harness.peers import forward_backward
from benchmarks.harness.report import figure
from benchmarks.harness.row import Cost, Row, at_least, at_most
from benchmarks.harness.setting import Setting
from benchmarks.harness.timing import Contender, race

if TYPE_CHECKING:
    from regard.score import Additive

TITLE = "additive scores, B=32 L=S=40 D=512 against eager Bahdanau; memory at L=S=4,096 D=256"

EAGER = "eager Bahdanau"
FASTER, FASTER_BACK, MIB = at_least(25), at_least(12), at_most(200)


def rows(setting: Setting) -> Iterator[Row]:
    """Whole, with both projections, and with keys that were projected once, as a decoder reads its memory."""
    B, L, D = setting.size(32, quick=2), setting.size(40, quick=7), setting.size(512, quick=32)
    for keyed in (False, True):
        for backward in (False, True):
            shape = (B, L, D, keyed, backward)
            found = race(
                setting,
                [
                    Contender("regard", partial(ours, setting, *shape)),
                    Contender(EAGER, partial(eager, setting, *shape)),
                ],
            )
            work = f"B={B} L=S={L} D={D}{', keys projected before' if keyed else ''}, forward{' + backward' * backward}"
            hidden = 3.0 * B * L * L * D * (3 if backward else 1)  # a sum, a tanh, a product and sum; twice more back
            projections = 2.0 * B * L * D * D * (1 if keyed else 2) * (3 if backward else 1)
            moved = float((12 if backward else 4) * setting.bytes(B, L, D))
            goal = FASTER_BACK if backward else FASTER
            yield found.row(EAGER, work, goal=goal, cost=Cost(hidden + projections, moved))
    L, D = setting.size(4096, quick=131), setting.size(256, quick=32)
    hidden_gib = setting.bytes(L, L, D) / 2**30
    for backward in (False, True):
        yield memory_row(
            setting,
            f"L=S={L:,} D={D}, forward{' + backward' * backward}",
            ours,
            (1, min(300, L), D, False, backward),
            (1, L, D, False, backward),
            goal=MIB,
            note=f"eager needs {figure(hidden_gib)} GiB for the hidden layers alone",
        )


def _parts(
    setting: Setting, B: int, L: int, D: int, keyed: bool, backward: bool
) -> tuple[Additive, list[Tensor], list[Tensor]]:
    """The score, with parameters that look somewhere; q, k, v; and what wants a gradient."""
    import regard

    score = regard.score.Additive(D, D, D).to(**setting.place()).requires_grad_(backward)
    with torch.no_grad():
        for seed, parameter in enumerate((score.query.weight, score.key.weight, score.energy), start=3):
            parameter.copy_(setting.randn(*parameter.shape, seed=seed) * D**-0.5)
    qkv = list(setting.qkv(B, 1, L, D, grad=backward))
    parameters = [score.query.weight, score.energy] if keyed else list(score.parameters())
    return score, qkv, [*qkv, *parameters]


def ours(setting: Setting, B: int, L: int, D: int, keyed: bool, backward: bool) -> Callable[[], object]:
    import regard

    score, (q, k, v), inputs = _parts(setting, B, L, D, keyed, backward)
    used = score.keyed if keyed else score
    return forward_backward(lambda: regard.attend(q, k, v, score=used, engine=setting.engine), inputs)


def eager(setting: Setting, B: int, L: int, D: int, keyed: bool, backward: bool) -> Callable[[], object]:
    score, (q, k, v), inputs = _parts(setting, B, L, D, keyed, backward)

    def attend() -> Tensor:
        keys = k if keyed else score.key(k)
        hidden = torch.tanh(score.query(q).unsqueeze(-2) + keys.unsqueeze(-3))  # (B, 1, L, S, D)
        return (hidden @ score.energy).softmax(-1) @ v

    return forward_backward(attend, inputs)
