"""Normalisers that choose: one key, or a draw of one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.normalize.base import Normalizer, check_temperature, prepared
from regard.normalize.softmax import Softmax


class Hardmax(Normalizer):
    """w = one-hot(argmax s), the lowest index among ties; the gradient is the softmax's (straight-through).

    >>> import torch
    >>> Hardmax()(torch.tensor([1.0, 3.0, 3.0]))
    tensor([0., 1., 0.])
    """

    no_merge = "the parts do not say which of them held the winner"

    def forward(self, scores: Tensor) -> Tensor:
        s, visible, dtype = prepared(scores)
        return _straight_through(s, visible).to(dtype)


@dataclass(frozen=True)
class Annealed:
    """A temperature that falls with the step: max(floor, start · exp(−rate · step)) (Jang et al. 2017, section 4.2).

    >>> Annealed(rate=1e-3)(0), Annealed(rate=1e-3, floor=0.5)(10_000)
    (1.0, 0.5)
    """

    rate: float = 1e-4
    floor: float = 0.5
    start: float = 1.0

    def __call__(self, step: int) -> float:
        return max(self.floor, self.start * math.exp(-self.rate * step))


class GumbelSoftmax(Normalizer):
    """w = softmax((s + g)/τ) with Gumbel noise g = −log(−log u): a draw from softmax(s), softened (Jang et al. 2017).

    ``temperature`` is a number or a schedule of the step such as :class:`Annealed`; the step is counted at each call in
    training. ``hard`` draws exactly one key and lets the softened draw's gradient through. With a ``generator`` a run
    can be repeated. In ``eval()`` nothing is drawn: the likeliest key is taken.

    >>> import torch
    >>> GumbelSoftmax(0.5, hard=True, generator=torch.Generator().manual_seed(0))(torch.zeros(2, 3)).sum(-1)
    tensor([1., 1.])
    """

    no_merge = "the noise was drawn key by key and is not kept"

    def __init__(
        self,
        temperature: float | Annealed = 1.0,
        hard: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_temperature("GumbelSoftmax", temperature(0) if isinstance(temperature, Annealed) else temperature)
        if isinstance(temperature, Annealed):
            check_temperature("GumbelSoftmax", temperature.floor)
        self.temperature = temperature
        self.hard = hard
        self.generator = generator
        self.step = 0

    def forward(self, scores: Tensor) -> Tensor:
        s, visible, dtype = prepared(scores)
        if not self.training:
            return _straight_through(s, visible).to(dtype)
        tau = self.temperature(self.step) if isinstance(self.temperature, Annealed) else self.temperature
        self.step += 1
        # An exponential draw is never exactly 0 in torch, so its log is finite.
        noise = -torch.empty_like(s).exponential_(generator=self.generator).log()
        s = (s + noise) / tau
        return (_straight_through(s, visible) if self.hard else Softmax()(s)).to(dtype)

    def extra_repr(self) -> str:
        return f"temperature={self.temperature}, hard={self.hard}"


def _straight_through(s: Tensor, visible: Tensor) -> Tensor:
    soft: Tensor = Softmax()(s)
    hard = torch.zeros_like(soft).scatter(-1, s.argmax(-1, keepdim=True), 1.0) * visible
    return hard + (soft - soft.detach())
