"""Neural Turing Machines as arms: one that goes by content alone, how a reading head goes, and a short copy learnt."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from benchmarks.recall.arms.turing import ByContent, Turing, moving_on
from benchmarks.recall.experiment import Exam
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
