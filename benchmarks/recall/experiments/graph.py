"""Graph traversal: edges are told in any order, then a path is gone by labels (Graves et al. 2016), made small."""

from __future__ import annotations

from functools import partial

from benchmarks.harness.row import at_least, at_most
from benchmarks.learning.experiment import Arm, Exam, Experiment, Recipe
from benchmarks.recall.arms.computer import dnc
from benchmarks.recall.arms.recurrent import lstm
from regard.memory.tasks import GraphTraversal


def experiment() -> Experiment:
    """Learnt on 8 to 10 edges and paths of 1 to 3 of them; asked for the longest of these, and beyond."""

    def graphs(nodes: tuple[int, int], steps: tuple[int, int]) -> GraphTraversal:
        return GraphTraversal(nodes, degree=2, labels=3, steps=steps)

    return Experiment(
        name="graph",
        task=graphs((4, 5), (1, 3)),
        recipe=Recipe(steps=1800, batch=32, rate=5e-3, check=100, enough=0.005, calm=2),
        validation={"3 steps": Exam(graphs((5, 5), (3, 3)), 2)},
        exams={
            name: Exam(graphs((5, 5), (m, m)), 4, seed=1_000_033)
            for name, m in (("1 step", 1), ("3 steps", 3), ("6 steps", 6))
        },
        arms={
            "dnc": Arm(
                "14 × 20, 1 read, an LSTM of 64",
                partial(dnc, slots=14, width=20, reads=1, hidden=64),
                {"3 steps": at_most(5)},
            ),
            "lstm": Arm("an LSTM of as many parameters", partial(lstm, hidden=81), {"3 steps": at_least(15)}),
        },
    )
