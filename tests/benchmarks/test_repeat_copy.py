"""Repeat copy in short: a memory beside an LSTM of as many parameters."""

from __future__ import annotations

from functools import partial

import pytest

from benchmarks.learning.experiment import Arm, Exam, Experiment, Recipe
from benchmarks.learning.training import Run
from benchmarks.recall.arms.computer import dnc
from benchmarks.recall.arms.recurrent import lstm
from regard.memory.tasks import RepeatCopy


@pytest.mark.slow
def test_who_has_a_memory_is_ahead_of_an_lstm_of_its_size() -> None:
    """1 to 4 vectors of 4 bits, once or twice, 500 updates each; asked is the longest of these."""
    exam = {"4 × 2": Exam(RepeatCopy(4, (4, 4), (2, 2)), 2)}
    arms = {
        "dnc": Arm("8 × 12, an LSTM of 32", partial(dnc, slots=8, width=12, reads=1, hidden=32)),
        "lstm": Arm("", partial(lstm, hidden=42)),
    }
    recipe = Recipe(steps=500, batch=32, rate=0.01, check=500)
    experiment = Experiment("repeat-copy", RepeatCopy(4, (1, 4), (1, 2)), recipe, exam, exam, arms)
    computer, recurrent = (Run(experiment, arm, 0, None).go(lambda text: None) for arm in arms)
    assert abs(computer.parameters / recurrent.parameters - 1) < 0.1
    assert computer.exams["4 × 2"] < 0.15
    assert recurrent.exams["4 × 2"] > 0.18
