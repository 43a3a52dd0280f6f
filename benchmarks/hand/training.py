"""A hand that is trained on drawn lines, with the text before it or without."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.memory.tasks.pen import Handwriting, Pen
from regard.nn import HandwritingSynthesis
from regard.nn.handwriting import Followed, HandState

__all__ = ["Learner", "Recipe", "trained"]


@dataclass(frozen=True)
class Recipe:
    """Updates of Adam on freshly drawn lines; the rate falls to 0 in a straight line over the second half."""

    steps: int = 400
    batch: int = 32
    rate: float = 5e-3
    clip: float = 10.0
    hidden: int = 64
    windows: int = 10
    mixtures: int = 20


@dataclass(frozen=True)
class Learner:
    """A network, and whether its window has a text to read; without one it reads 0 at every step."""

    network: HandwritingSynthesis
    reads: bool

    def state(self, lines: Handwriting) -> HandState:
        """Before the first point of these lines."""
        state = self.network.reset(lines.text, valid=lines.text_valid)
        if self.reads:
            return state
        return state._replace(window=self.network.memory.reset(len(lines.text), dtype=state.window.text.dtype))

    def nats(self, lines: Handwriting) -> Tensor:
        """−log p a point, the mean over all of them."""
        return -self.network.log_density(lines.strokes, self.state(lines), valid=lines.valid).mean()

    @torch.no_grad()
    def followed(self, lines: Handwriting) -> Followed:
        """What it makes of the lines: what is said of step t is of the point at t."""
        found: Followed = self.network(F.pad(lines.strokes, (0, 0, 1, 0))[:, :-1], self.state(lines))[0]
        return found


def trained(pen: Pen, recipe: Recipe, seed: int, *, reads: bool = True) -> Learner:
    """A learner after all updates of the recipe; the same for the same seed."""
    torch.manual_seed(seed)
    sizes = {"windows": recipe.windows, "mixtures": recipe.mixtures}
    network = HandwritingSynthesis(len(pen.alphabet), recipe.hidden, peepholes=False, **sizes)  # some times faster
    learner, generator = Learner(network, reads), torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(network.parameters(), lr=recipe.rate)
    falling = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: min(1.0, 2 - 2 * step / max(recipe.steps, 1)))
    for _ in range(recipe.steps):
        loss = learner.nats(pen.draw(recipe.batch, generator))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), recipe.clip)
        optimiser.step()
        falling.step()
    return learner
