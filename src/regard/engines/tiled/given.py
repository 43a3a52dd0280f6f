"""What every operator of this engine is given, and how an operator is made known to PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.errors import RegardError

#: What a read is asked to measure, as bits of one number.
ENTROPY, PEAK, DISTANCE, MOMENTS = 1, 2, 4, 8


class Given(NamedTuple):
    """A composition as tensors and numbers; ``SCHEMA`` says the same to PyTorch."""

    q: Tensor  # (B, H, L, A), as the score's recipe has it
    k: Tensor  # (B, G, S, A)
    v: Tensor  # (B, G, S, E)
    energy: Tensor | None  # (A,), of a tanh sum
    table: Tensor | None  # (H, T), of relative places
    row: Tensor | None  # (B, H, L), added to a row's scores
    lo: Tensor  # (b, h, l): the first key a query may see
    hi: Tensor  # (b, h, l): the first behind them
    at: Tensor | None  # (b, h, rows, columns): which of them, cell by cell, where there are gaps
    words: Tensor | None  # (n, cell): a bit for each pair of a cell that is neither empty nor full
    tags: Tensor  # (T, B·H|1, S): members of groups
    numbers: Tensor  # (steps, H) float64
    steps: list[int]  # four for each step: code, shift, offset, reach
    kind: int  # of the scores' source
    scale: float
    rate: float  # of dropout
    seed: int
    shift: int  # a query's place for the distance is i + shift
    want: int
    tile: list[int]  # rows and columns

    @property
    def sizes(self) -> tuple[int, int, int, int, int, int, int]:
        """B, H, G, L, S, A, E."""
        B, H, L, A = self.q.shape
        return B, H, self.k.shape[1], L, self.v.shape[2], A, self.v.shape[3]

    @property
    def real(self) -> torch.dtype:
        """What kernels compute in."""
        return torch.promote_types(self.q.dtype, torch.float32)

    def apart(self) -> tuple[list[Tensor], list[Any]]:
        """Tensors, and everything in its place with None for each of them: autograd keeps the former by itself."""
        return [x for x in self if isinstance(x, Tensor)], [None if isinstance(x, Tensor) else (x,) for x in self]

    @classmethod
    def joined(cls, tensors: list[Tensor], places: list[Any]) -> Given:
        rest = iter(tensors)
        values: list[Any] = [next(rest) if place is None else place[0] for place in places]
        return cls(*values)

    def missing(self) -> list[Tensor]:
        """Stand-ins for the gradients of q, k, energy, table, row and v: of size 0 where there is nothing to learn."""
        given = (self.q, self.k, self.energy, self.table, self.row, self.v)
        return [self.q.new_empty(0) if x is None else torch.empty_like(x) for x in given]

    def sorted(self, dq: Any, dk: Any, denergy: Any, dtable: Any, drow: Any, dv: Any) -> list[Tensor | None]:
        """Gradients in the order of the fields, None for all that has none."""
        learnt = zip((denergy, dtable, drow), (self.energy, self.table, self.row), strict=True)
        return [dq, dk, dv, *(d if x is not None else None for d, x in learnt), *(None for _ in self[6:])]


SCHEMA = (
    "Tensor q, Tensor k, Tensor v, Tensor? energy, Tensor? table, Tensor? row, Tensor lo, Tensor hi, Tensor? at, "
    "Tensor? words, Tensor tags, Tensor numbers, SymInt[] steps, SymInt kind, float scale, float rate, SymInt seed, "
    "SymInt shift, SymInt want, SymInt[] tile"
)


def operator(name: str, more: str, returns: int, run: Callable[..., Any], fake: Callable[..., Any]) -> Any:
    """``run`` as torch.ops.regard.name of ``SCHEMA`` and ``more``, giving so many tensors; the compiler knows ``fake``.

    ``torch.library.custom_op`` does the same and imports the compiler for it, which takes a second at the first call.
    """
    known = f"regard::{name}"
    schema = f"({SCHEMA}{more}) -> ({', '.join(['Tensor'] * returns)})"
    torch.library.define(known, schema, tags=(torch.Tag.pt2_compliant_tag,))
    torch.library.impl(known, "CPU", run)
    torch.library.register_fake(known, fake)
    return getattr(torch.ops.regard, name).default


def differentiable(name: str, keep: Callable[..., None], back: Callable[..., Any]) -> None:
    """Gives an operator its gradient, and refuses that of ``name_backward``, which would silently be zero."""
    torch.library.register_autograd(f"regard::{name}", back, setup_context=keep)
    torch.library.register_autograd(f"regard::{name}_backward", _twice)


def _twice(ctx: Any, *grads: Tensor | None) -> None:
    raise RegardError('engine "tiled" has no second derivative; engine="reference" has one')


def measured(g: Given, bit: int, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
    """Room for what was asked for; of size 0 for what was not."""
    return g.q.new_empty(shape if g.want & bit else (0,), dtype=dtype or g.real)
