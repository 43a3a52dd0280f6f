"""A score written down for the kernels: a product or a sum of tanh, then steps over the tile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.grid import Anchor, Grid
from regard.position import ALiBi, RelativeBias, Rotary
from regard.score import Additive, Biased, Capped, Concat, Dot, Keyed, ScaledDot, Score
from regard.score.base import Wrapped

# The codes of scores.py, which is not imported here: it loads Numba.
PRODUCT, TANH = 0, 1
ROW, CAP, SLOPE, TABLE, TIMES, NOISE = 0, 1, 2, 3, 4, 5


@dataclass(frozen=True)
class Recipe:
    """q (B, H, L, A) and k (B, G, S, A) as the source takes them, and what is done to a tile of their scores."""

    kind: int
    q: Tensor
    k: Tensor
    scale: float = 1.0
    energy: Tensor | None = None  # (A,)
    row: Tensor | None = None  # (B, H, L)
    table: Tensor | None = None  # (H, T)
    steps: tuple[tuple[int, int, int, int], ...] = ()
    numbers: tuple[Tensor, ...] = ()  # (H,) for each step

    @property
    def caps(self) -> int:
        return sum(step[0] == CAP for step in self.steps)

    def then(self, code: int, number: Tensor | float = 0.0, shift: int = 0, offset: int = 0, reach: int = 0) -> Recipe:
        """The recipe with one more step."""
        per_head = torch.as_tensor(number, dtype=torch.float64).detach().expand(self.q.shape[1])
        step = (code, shift, offset, reach)
        return replace(self, steps=(*self.steps, step), numbers=(*self.numbers, per_head))

    def tempered(self, temperature: float) -> Recipe:
        """s / τ, in the product where nothing comes after it."""
        if temperature == 1.0:
            return self
        if self.kind == PRODUCT and not self.steps:
            return replace(self, scale=self.scale / temperature)
        return self.then(TIMES, 1.0 / temperature)


def lowers(score: Score) -> str:
    """Why the kernels do not know this score; empty when they do."""
    if not score.no_dot_form:
        return ""
    if type(score) in _PARTS:
        inner = getattr(score, "inner", None)
        if type(score) is Biased and type(score.bias) not in (ALiBi, RelativeBias):
            return f"the bias {type(score.bias).__name__} is only known as a function"
        return "" if inner is None else lowers(inner)
    return f"the score {type(score).__name__} is only known as a function of a pair"


def recipe(score: Score, q: Tensor, k: Tensor, grid: Grid) -> Recipe:
    """``score`` over queries and keys that went through ``score.queries`` and ``score.keys``."""
    return (_PARTS[type(score)] if score.no_dot_form else _dot)(score, q, k, grid)


def _dot(score: Score, q: Tensor, k: Tensor, grid: Grid) -> Recipe:
    form = score.as_dot(q, k)
    made = Recipe(PRODUCT, form.q, form.k, form.scale)
    if form.row is None:
        return made
    return replace(made, row=form.row.squeeze(-1)).then(ROW)


def _tanh(score: Score, q: Tensor, k: Tensor, grid: Grid) -> Recipe:
    assert isinstance(score, Additive | Concat)
    return Recipe(TANH, q, k, energy=score.energy.to(q.dtype))


def _inner(score: Score, q: Tensor, k: Tensor, grid: Grid) -> Recipe:
    assert isinstance(score, Keyed | Rotary)  # what they do, queries() and keys() have done
    return recipe(score.inner, q, k, grid)


def _capped(score: Score, q: Tensor, k: Tensor, grid: Grid) -> Recipe:
    assert isinstance(score, Capped)
    return recipe(score.inner, q, k, grid).then(CAP, score.cap)


def _biased(score: Score, q: Tensor, k: Tensor, grid: Grid) -> Recipe:
    assert isinstance(score, Biased)
    made, bias = recipe(score.inner, q, k, grid), score.bias
    bias(grid.rows(0, 0))  # raises where heads or ends do not fit
    if isinstance(bias, ALiBi):
        return made.then(SLOPE, bias.slopes, shift=_shift(bias.anchor, grid))
    assert isinstance(bias, RelativeBias)
    weight = bias.weight.to(torch.promote_types(made.q.dtype, torch.float32))
    offset = 0 if made.table is None else made.table.shape[1]
    table = weight if made.table is None else torch.cat([made.table, weight], 1)
    return replace(made, table=table).then(TABLE, shift=_shift(bias.anchor, grid), offset=offset, reach=bias.reach)


def plain(score: Score) -> bool:
    """Whether queries and keys are multiplied as they are."""
    if isinstance(score, Wrapped) and type(score) in (Biased, Capped):
        return plain(score.inner)
    return type(score) in (Dot, ScaledDot)


def _shift(anchor: Anchor, grid: Grid) -> int:
    return grid.S - grid.L if anchor == "end" else 0


_PARTS: dict[type[Score], Callable[[Score, Tensor, Tensor, Grid], Recipe]] = {
    Additive: _tanh,
    Concat: _tanh,
    Keyed: _inner,
    Rotary: _inner,
    Capped: _capped,
    Biased: _biased,
}
