"""Neural Turing Machines as arms: one that goes by content alone, how a reading head goes, and a short copy learnt."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor

from benchmarks.learning.experiment import Arm, Exam, Experiment, Recipe
from benchmarks.learning.training import Outcome, Run
from benchmarks.recall.arms.recurrent import lstm
from benchmarks.recall.arms.turing import ByContent, Turing, moving_on, ntm
from regard.memory.tasks import Copy
from regard.memory.turing import Address, TuringMemory
from regard.memory.turing.addressing import content
from regard.nn import NeuralTuringMachine


def test_a_head_that_goes_by_content_is_where_its_key_is_found() -> None:
    machine = ByContent(3, 2, 7, TuringMemory(11, 5))
    hidden = torch.randn(2, 7)
    state = machine.memory.reset(2)._replace(matrix=torch.randn(2, 11, 5))
    to, _, _ = machine.orders(hidden)
    plain, *_ = NeuralTuringMachine.orders(machine, hidden)
    moved = machine.memory.move(state, to)
    found = content(state.matrix, plain.key, plain.strength)
    torch.testing.assert_close(torch.cat([moved.reading, moved.writing], 1), found)


@pytest.mark.parametrize(("move", "on", "back"), [(1, 100.0, 0.0), (0, 0.0, 0.0), (-1, 0.0, 100.0)])
def test_how_a_reading_head_goes(move: int, on: float, back: float, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = NeuralTuringMachine(4, 3, 7, TuringMemory(5, 2))  # so few slots that it goes round
    told = NeuralTuringMachine.orders

    def orders(self: NeuralTuringMachine, hidden: Tensor) -> tuple[Address, Tensor, Tensor]:
        to, erase, add = told(self, hidden)
        shift = torch.zeros_like(to.shift)
        shift[:, 0, 1 + move] = shift[:, 1, 1] = 1.0  # only the head that reads goes
        return to._replace(gate=torch.zeros_like(to.gate), shift=shift), erase, add

    monkeypatch.setattr(NeuralTuringMachine, "orders", orders)
    found = moving_on(Exam(Copy(3, (8, 8)), 2, 3), Turing(machine))
    assert found == {"read head +1, %": on, "−1, %": back}


TWICE = Exam(Copy(4, (10, 10)), 1, 64, seed=7)
SHORT = Experiment(
    name="copy",
    task=Copy(4, (1, 5)),
    recipe=Recipe(steps=900, rate=1e-2, check=100, calm=2),
    validation={f"length {n}": Exam(Copy(4, (n, n)), 1, 32) for n in (5, 7)},
    exams={"twice": TWICE},
    arms={
        "ntm": Arm("", partial(ntm, hidden=40, slots=16, width=10), look=partial(moving_on, TWICE)),
        "lstm": Arm("", partial(lstm, hidden=50)),
    },
)


@pytest.mark.slow
def test_a_machine_copies_twice_what_it_was_trained_on_and_an_lstm_does_not() -> None:
    """The contrast of `regard bench memory --task copy` in short: the first of three seeds that finds it, where an LSTM
    finds it with none. So few updates are not enough for every seed; the long runs are judged by the worst."""

    def trained(arm: str, seed: int) -> Outcome:
        return Run(SHORT, arm, seed, None).go(lambda text: None)

    found = next((run for seed in range(3) if (run := trained("ntm", seed)).exams["twice"] < 0.05), None)
    assert found is not None
    assert max(found.seen.values()) >= 95  # one slot on from answer to answer, or one back
    others = [trained("lstm", seed) for seed in range(3)]
    assert 0.9 < others[0].parameters / found.parameters < 1.1
    assert min(other.exams["twice"] for other in others) > 0.2
