"""What each query of a cache may see: pairs that lie in one piece, a piece for each row and query."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from regard.grid import Grid
from regard.mask import Mask


@dataclass(frozen=True, eq=False)
class Between(Mask):
    """lo ≤ j < hi, both (B, 1, L)."""

    lo: Tensor
    hi: Tensor

    def allows(self, grid: Grid) -> Tensor:
        lo, hi = (x.unsqueeze(-1) for x in self.spans(grid))
        return (grid.j >= lo) & (grid.j < hi)

    def spans(self, grid: Grid) -> tuple[Tensor, Tensor]:
        lo, hi = (x.to(grid.j.device).index_select(2, grid.i.flatten()) for x in (self.lo, self.hi))
        return lo, hi

    def __repr__(self) -> str:
        return f"Between({tuple(self.lo.shape)})"
