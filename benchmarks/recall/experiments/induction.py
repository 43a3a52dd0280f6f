"""Induction: A came before, what came after it? One layer that reads cannot know; two can (Olsson et al. 2022).

A key that matches A holds A alone, until an earlier layer, or a convolution, has told each step what stood before it.
"""

from __future__ import annotations

from functools import partial

from torch import nn

from benchmarks.harness.row import at_least, at_most
from benchmarks.learning.experiment import Arm, Exam, Experiment, Recipe
from benchmarks.recall.arms.reading import PairBlock, reader
from benchmarks.recall.arms.state_space import Stack, mamba
from regard.memory import KVCache
from regard.memory.tasks import Induction, Task
from regard.position import Rotary
from regard.score import ScaledDot

WIDTH = 32


def turned(width: int) -> KVCache:
    """Two heads of softmax attention that know how far away a key is."""
    return KVCache(2, width, score=Rotary(ScaledDot()))


def two(task: Task) -> nn.Module:
    """The first layer may find what stood before; the second goes by what it finds, however far away."""
    return Stack(task, WIDTH, [PairBlock(WIDTH, turned(16)), PairBlock(WIDTH, KVCache(2, 16))])


def experiment() -> Experiment:
    """Learnt on 5 to 30 symbols; asked at the longest of these, and at twice and four times that."""
    return Experiment(
        name="induction",
        task=Induction((5, 30)),
        recipe=Recipe(steps=600, batch=32, rate=3e-3, check=100, enough=0.002, calm=2, clip=1.0),
        validation={f"length {n}": Exam(Induction((n, n)), 1, 256) for n in (10, 30)},
        exams={f"length {n}": Exam(Induction((n, n)), 4, 256, seed=1_000_033) for n in (30, 60, 120)},
        arms={
            "two": Arm(
                "two layers of attention",
                two,
                {"length 30": at_most(2)},
            ),
            "one": Arm(
                "one layer, its heads twice as wide",
                partial(reader, width=WIDTH, memory=partial(turned, 32)),
                {"length 30": at_least(80)},
            ),
            "shifted": Arm(
                "one layer, after a convolution over two steps",
                partial(reader, width=WIDTH, memory=partial(KVCache, 2, 16), kernel=2),
                {"length 30": at_most(2)},
            ),
            "mamba": Arm(
                "two Mamba blocks",
                partial(mamba, width=WIDTH, states=8, layers=2),
                {"length 30": at_most(2)},
            ),
        },
    )
