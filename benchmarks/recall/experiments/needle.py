"""A needle in a haystack: whoever lets pairs go reads only the needles that it still has (Xiao et al. 2023)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.harness.row import Goal, at_least, at_most
from benchmarks.learning.experiment import Arm, Exam, Experiment, Recipe
from benchmarks.recall.arms.reading import reader
from regard.memory import KVCache, PairMemory, SinkCache, SlidingCache
from regard.memory.tasks import Needle

LENGTH, DEPTHS = 64, (0.0, 0.25, 0.5, 0.75, 1.0)
HELD = 32  # pairs that are held where not all are
WHERE = [(n, depth) for n in (LENGTH, 2 * LENGTH) for depth in DEPTHS]


def experiment() -> Experiment:
    """One read each; learnt on haystacks of up to 64 steps, asked at five depths there and at twice the length.

    A pair is told by a step and the one before it, so that of the last 32 pairs 33 steps are seen. Behind a needle at
    depth 0.75 of 64 come 17 to 20 steps, at 0.5, or at 0.75 of 128, 33 at the least: then the answer does not depend
    on the needle, and 15 in 16 guesses are wrong.
    """
    heads: dict[str, Any] = {"heads": 2, "width": 32, "engine": "sdpa"}  # short rows: nothing needs compiling
    near = [(LENGTH, 0.75), *((n, 1.0) for n in (LENGTH, 2 * LENGTH))]
    first = [(n, 0.0) for n in (LENGTH, 2 * LENGTH)]
    arms: dict[str, tuple[str, Callable[[], PairMemory[Any]], list[tuple[int, float]]]] = {
        "kv": ("every pair is kept", partial(KVCache, **heads), WHERE),
        "sliding": (f"the last {HELD} are kept", partial(SlidingCache, **heads, window=HELD), near),
        "sink": (
            f"the first 4 and the last {HELD - 4} are kept",
            partial(SinkCache, **heads, sinks=4, window=HELD - 4),
            first + near,
        ),
    }
    return Experiment(
        name="needle",
        task=Needle((0, LENGTH)),
        recipe=Recipe(steps=600, batch=32, rate=3e-3, check=100, enough=0.005, calm=2),
        validation={"64": Exam(Needle((LENGTH, LENGTH)), 4)},
        exams={named(n, depth): Exam(Needle((n, n), (depth, depth)), 8, seed=1_000_033) for n, depth in WHERE},
        arms={
            name: Arm(says, partial(reader, width=64, memory=memory, kernel=2), goals(reached))
            for name, (says, memory, reached) in arms.items()
        },
    )


def named(length: int, depth: float) -> str:
    """An exam's name."""
    return f"{length} at {depth:g}"


def goals(reached: list[tuple[int, float]]) -> dict[str, Goal]:
    """At most 5 % wrong where the needle is still there, and chance where it is not."""
    return {named(*where): at_most(5) if where in reached else at_least(90) for where in WHERE}
