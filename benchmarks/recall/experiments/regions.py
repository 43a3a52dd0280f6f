"""What shape is the object that the red one's flag points at? Two looks at an image, beside one and none."""

from __future__ import annotations

from functools import partial

from benchmarks.harness.row import at_least, at_most
from benchmarks.learning.experiment import Arm, Easier, Exam, Experiment, Recipe
from benchmarks.recall.arms.regions import looking, seen
from regard.memory.tasks import Regions

CHAINED, PLAIN = Regions(chained=1.0), Regions(chained=0.0)


def experiment() -> Experiment:
    """First the object that is named, then four questions in five about the one its flag points at."""
    return Experiment(
        name="regions",
        task=Regions(chained=0.8),
        recipe=Recipe(steps=4000, batch=128, enough=0.005),
        validation={"two looks": Exam(CHAINED, 8)},
        exams={"two looks": Exam(CHAINED, 32, seed=1_000_033), "one look": Exam(PLAIN, 16, seed=1_000_035)},
        easier=Easier(PLAIN, 500),
        arms={
            "san-2": Arm("two layers", partial(looking, layers=2, width=128), {"two looks": at_most(10)}, look=seen),
            "san-1": Arm("one layer", partial(looking, layers=1, width=128), {"two looks": at_least(40)}, look=seen),
            "san-1-wide": Arm(
                "one layer, as many numbers as two",
                partial(looking, layers=1, width=179),
                {"two looks": at_least(40)},
                look=seen,
            ),
            "san-0": Arm("the question alone", partial(looking, layers=0, width=128), {"two looks": at_least(80)}),
        },
    )
