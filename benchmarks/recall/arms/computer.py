"""Models that write and read a differentiable computer's memory."""

from __future__ import annotations

from torch import Tensor, nn

from regard.memory import DifferentiableComputer
from regard.memory.tasks import Symbols, Task
from regard.nn import Computer

__all__ = ["Computing", "dnc"]


class Computing(nn.Module):
    """A differentiable computer that is shown one step after the other and answers at each."""

    def __init__(self, task: Task, memory: DifferentiableComputer, hidden: int) -> None:
        super().__init__()
        symbols = isinstance(task.inputs, Symbols)
        self.embed = nn.Embedding(task.inputs.count, hidden) if isinstance(task.inputs, Symbols) else nn.Identity()
        width = hidden if symbols else task.inputs.width
        self.computer = Computer(width, task.answers.width, memory, hidden=hidden)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (B, L, width of an answer)."""
        logits: Tensor = self.computer(self.embed(inputs))[0]
        return logits


def dnc(task: Task, slots: int, width: int, reads: int, hidden: int) -> nn.Module:
    """An LSTM of ``hidden`` numbers beside ``slots`` × ``width`` that ``reads`` heads read."""
    return Computing(task, DifferentiableComputer(slots, width, reads), hidden)
