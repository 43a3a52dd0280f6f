"""A differentiable computer that may recall along its links alone, and the same with links that stay zero."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from regard.memory import DifferentiableComputer
from regard.memory.differentiable import Asking
from regard.memory.tasks import Copy, Task
from regard.nn.computer import Computer, ComputerState

__all__ = ["OnlyLinks", "linked", "unlinked"]


class OnlyLinks(nn.Module):
    """Copies with content queries off from the second answer on: a list's start may be found, the rest be followed.

    Without ``links`` the precedence is forgotten after every step, so that nothing is ever written after anything.
    """

    def __init__(self, task: Copy, memory: DifferentiableComputer, hidden: int, *, links: bool) -> None:
        super().__init__()
        self.links = links
        self.computer = Computer(task.inputs.width, task.answers.width, memory, hidden=hidden)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (B, L, width of an answer)."""
        return torch.stack([answer for answer, _ in self.steps(inputs)], 1)

    def steps(self, inputs: Tensor) -> Iterator[tuple[Tensor, ComputerState]]:
        """Answer and state after every step."""
        after = inputs[..., -1].cumsum(1).cumsum(1)  # 1 at the mark, then 2, 3, …
        state = self.computer.reset(inputs.shape[0])
        for x, since in zip(inputs.unbind(1), after.unbind(1), strict=True):
            answer, state = self.computer.step(x, state, asking=_Followed(since <= 2))
            if not self.links:
                memory = state.memory
                state = state._replace(memory=memory._replace(precedence=torch.zeros_like(memory.precedence)))
            yield answer, state


class _Followed:
    """The modes without the share of content, in rows where it is off: what is left sums to less than 1."""

    def __init__(self, content: Tensor) -> None:
        self.content = content

    def __call__(self, asking: Asking) -> Asking:
        kept = torch.ones_like(asking.modes)
        kept[..., 1] = self.content.to(kept.dtype).unsqueeze(-1)
        return asking._replace(modes=asking.modes * kept)


def _built(task: Task, slots: int, width: int, hidden: int, *, links: bool) -> nn.Module:
    assert isinstance(task, Copy)
    return OnlyLinks(task, DifferentiableComputer(slots, width, reads=1), hidden, links=links)


def linked(task: Task, slots: int, width: int, hidden: int) -> nn.Module:
    """Reads along what was written after what."""
    return _built(task, slots, width, hidden, links=True)


def unlinked(task: Task, slots: int, width: int, hidden: int) -> nn.Module:
    """The same parameters, and links that stay zero."""
    return _built(task, slots, width, hidden, links=False)
