"""Neural Turing Machines, and one whose heads go by content alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.learning.experiment import Exam
from regard.memory.tasks import Symbols, Task
from regard.memory.turing import Address, TuringMemory
from regard.nn.turing import NeuralTuringMachine

__all__ = ["Turing", "content_only", "moving_on", "ntm"]


class Turing(nn.Module):
    """A machine that is shown one step after the other and answers at each; symbols are shown as ones among zeros."""

    def __init__(self, machine: NeuralTuringMachine, symbols: int = 0) -> None:
        super().__init__()
        self.machine, self.symbols = machine, symbols

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (B, L, width of an answer)."""
        if self.symbols:
            inputs = nn.functional.one_hot(inputs, self.symbols).to(self.machine.first.dtype)
        outputs: Tensor
        outputs, _ = self.machine(inputs)
        return outputs


class ByContent(NeuralTuringMachine):
    """g = 1, no move, γ = 1: a head can find what it looks for, and can't go to the place beside it."""

    def orders(self, hidden: Tensor) -> tuple[Address, Tensor, Tensor]:
        to, erase, add = super().orders(hidden)
        stay = torch.zeros_like(to.shift)
        stay[..., self.memory.reach] = 1.0
        ones = torch.ones_like(to.gate)
        return to._replace(gate=ones, shift=stay, sharpness=ones), erase, add


def _sized(kind: type[NeuralTuringMachine], task: Task, hidden: int, slots: int, width: int) -> nn.Module:
    symbols = task.inputs.count if isinstance(task.inputs, Symbols) else 0
    shown = task.inputs.count if isinstance(task.inputs, Symbols) else task.inputs.width
    return Turing(kind(shown, task.answers.width, hidden, TuringMemory(slots, width)), symbols)


def ntm(task: Task, hidden: int, slots: int, width: int) -> nn.Module:
    """A machine with one reading and one writing head."""
    return _sized(NeuralTuringMachine, task, hidden, slots, width)


def content_only(task: Task, hidden: int, slots: int, width: int) -> nn.Module:
    """The same with content addressing alone."""
    return _sized(ByContent, task, hidden, slots, width)


def moving_on(exam: Exam, model: nn.Module) -> dict[str, float]:
    """From one answer to the next, in how many percent of the steps the reading head goes one slot on, or one back.

    Slots are a ring and no direction is told: a machine that writes backwards reads backwards.
    """
    assert isinstance(model, Turing)
    slots = model.machine.memory.slots
    moves = []
    for example in exam.questions():
        state, at = model.machine.reset(example.inputs.shape[0]), []
        for x in example.inputs.unbind(1):
            _, state = model.machine.step(x, state)
            at.append(state.memory.reading[:, 0].argmax(-1))
        asked = example.asked[:, 1:] & example.asked[:, :-1]
        moves.append((torch.stack(at, 1).diff(dim=1) % slots)[asked])  # of (B, L − 1)
    went = torch.cat(moves)
    return {
        "read head +1, %": 100 * float((went == 1).float().mean()),
        "−1, %": 100 * float((went == slots - 1).float().mean()),
    }
