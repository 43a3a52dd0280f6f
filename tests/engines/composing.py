"""Compositions for the tests of engines that may not be among ``ENGINES``, and a loss on all that a read measures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard import mask
from regard.grid import Grid
from regard.mask import Mask
from regard.normalize import Normalizer, Softmax
from regard.plan import Composition, Wanted
from regard.reading import Reading
from regard.score import ScaledDot, Score
from tests.laws.masks import GROUPS, MASKS
from tests.laws.truth import inputs, normaliser_part, score_part

#: The groups of the laws, as masks.
IN: dict[str, Mask] = {
    name: mask.dense(group[..., None, None, :]) if isinstance(group, Tensor) else group
    for name, group in GROUPS.items()
}


def composed(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scored: Score | None = None,
    normalised: Normalizer | None = None,
    masked: Mask | None = None,
    dropout: float = 0.0,
) -> Composition:
    grid = Grid.of(q.shape[0], q.shape[1], q.shape[2], k.shape[2], q.device)
    return Composition(q, k, v, scored or ScaledDot(), normalised or Softmax(), masked, grid, dropout)


def lawful(scored: str, normalised: str, masked: str) -> Composition:
    """The composition of these names in the laws."""
    q, k, v = inputs(scored)
    return composed(q, k, v, score_part(scored), normaliser_part(normalised), MASKS[masked].build())


class Look(nn.Module):
    """A read as a function of everything that may learn."""

    def __init__(self, engine: Any, c: Composition) -> None:
        super().__init__()
        self.score, self.normalize, self.engine, self.mask = c.score, c.normalize, engine, c.mask

    def forward(self, q: Tensor, k: Tensor, v: Tensor, names: Sequence[str], groups: dict[str, Mask]) -> list[Tensor]:
        c = composed(q, k, v, self.score, self.normalize, self.mask)
        r: Reading = self.engine.read(c, Wanted(frozenset(names), groups=groups))
        measured = [getattr(r, name) for name in names]
        return [r.output, torch.where(r.seen > 0, r.lse, 0.0), *r.mass.values(), *measured]


def gradients(engine: Any, c: Composition, names: Sequence[str], groups: dict[str, Mask]) -> list[Tensor]:
    """Of q, k, v and every parameter, through the output, the lse, the mass of ``groups`` and the statistics named."""
    look = Look(engine, c)
    leaves = [x.detach().clone().requires_grad_() for x in (c.q, c.k, c.v)]
    generator = torch.Generator().manual_seed(5)
    loss = torch.zeros((), dtype=c.q.dtype, device=c.q.device)
    for x in look(*leaves, names, groups):
        away = torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x)
        loss = loss + (x * away).sum()
    wanted = [*leaves, *look.parameters()]  # a keyed score keeps a projection of keys that it does not use
    return list(torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True))
