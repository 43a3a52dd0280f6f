"""Recurrent models without a memory of their own: all they keep is a vector."""

from __future__ import annotations

from torch import Tensor, nn

from regard.memory.tasks import Symbols, Task

__all__ = ["Recurrent", "lstm"]


class Recurrent(nn.Module):
    """An LSTM that is shown one step after the other and answers at each; symbols are embedded first."""

    def __init__(self, task: Task, hidden: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(task.inputs.count, hidden) if isinstance(task.inputs, Symbols) else nn.Identity()
        self.lstm = nn.LSTM(hidden if isinstance(task.inputs, Symbols) else task.inputs.width, hidden, batch_first=True)
        self.answer = nn.Linear(hidden, task.answers.width)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (B, L, width of an answer)."""
        hidden, _ = self.lstm(self.embed(inputs))
        logits: Tensor = self.answer(hidden)
        return logits


def lstm(task: Task, hidden: int) -> nn.Module:
    """An LSTM of ``hidden`` numbers."""
    return Recurrent(task, hidden)
