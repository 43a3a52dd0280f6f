"""What a mask is: a predicate over (b, h, i, j), True where query i may look at key j, closed under & | ~."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.grid import Grid
from regard.mask.tiles import Outline, looked, of_intervals, outlined

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

EMPTY, FULL, PARTIAL = 0, 1, 2


class Mask(ABC):
    """True = may look, everywhere. ``print(mask)`` draws the matrix it allows.

    A mask can become a boolean tensor (:meth:`tensor`), the flags of PyTorch's fused kernel (:meth:`sdpa_flags`), a
    FlexAttention ``BlockMask`` (:meth:`block_mask`), a Hugging Face mask function (:meth:`huggingface_function`), and
    a map of which tiles are empty, full or partial (:meth:`block_map`).
    """

    @abstractmethod
    def allows(self, grid: Grid) -> Tensor:
        """Booleans over ``grid``, broadcastable to (B, H, L, S)."""

    def __and__(self, other: Mask) -> Mask:
        return And(self, _mask(other, "&"))

    def __or__(self, other: Mask) -> Mask:
        return Or(self, _mask(other, "|"))

    def __invert__(self) -> Mask:
        return Not(self)

    @property
    def natural_size(self) -> tuple[int, int, int, int]:
        """(B, H, L, S) at which the mask is drawn when nobody says; 0 for an axis it does not know."""
        return 0, 0, 0, 0

    def tensor(self, B: int, H: int, L: int, S: int, device: torch.device | str | None = None) -> Tensor:
        """The mask as booleans (B, H, L, S), with 1 for an axis it does not depend on."""
        return self.allows(Grid.of(B, H, L, S, device))

    def sdpa_flags(self, grid: Grid) -> tuple[bool, Tensor | None]:
        """(is_causal, attn_mask) for ``scaled_dot_product_attention``; never both: it would apply both."""
        return False, self.allows(grid)

    def is_causal_flag(self, grid: Grid) -> bool:
        """Whether the fused kernel's own causal flag says all of it."""
        return False

    def spans(self, grid: Grid) -> tuple[Tensor, Tensor] | None:
        """(lo, hi) with lo ≤ j < hi exactly where query i may look, each (B|1, H|1, L|1); None where a row has gaps.

        An interval a row is all an engine needs of a causal mask, a window or padding: it costs O(L), not O(L·S).
        """
        return None

    def hull(self, grid: Grid) -> tuple[Tensor, Tensor]:
        """(lo, hi) outside of which query i may look at nothing, each (B|1, H|1, L|1); inside there may be gaps."""
        exact = self.spans(grid)
        return _everywhere(grid) if exact is None else exact

    def outline(self, grid: Grid, size: int) -> Outline:
        """What is sure of each (size × size) tile of a whole grid, at O(tiles) and O(L + S): empty, full, or open.

        What is sure is right, and what is open may be anything: a mask that knows nothing of its tiles leaves all open.
        """
        exact = self.spans(grid)
        return of_intervals(*(self.hull(grid) if exact is None else exact), grid, size, gaps=exact is None)

    def block_map(self, B: int, H: int, L: int, S: int, size: int = 128) -> Tensor:
        """Which (size × size) tiles are empty (0), full (1) or partial (2): int8 (B, H, ⌈L/size⌉, ⌈S/size⌉).

        Axes the mask does not depend on are 1. The predicate is asked only in tiles that :meth:`outline` leaves open.
        """
        grid = Grid.of(B, H, L, S)
        some, every = outlined(self, grid, size)
        found = torch.where(every, FULL, EMPTY).to(torch.int8)
        for which, allowed in looked(self, grid, size, (some & ~every).nonzero()):
            full, any_ = allowed.all(2).all(1), allowed.any(2).any(1)
            found[which.unbind(1)] = torch.where(full, FULL, torch.where(any_, PARTIAL, EMPTY)).to(torch.int8)
        return found

    def block_mask(
        self, B: int, H: int, L: int, S: int, device: torch.device | str = "cpu", size: int = 128
    ) -> BlockMask:
        """The mask for ``torch.nn.attention.flex_attention``."""
        from torch.nn.attention.flex_attention import create_block_mask

        def mask_mod(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return self.allows(Grid(b, h, i, j, L, S))

        return create_block_mask(mask_mod, B, H, L, S, device=str(device), BLOCK_SIZE=size)

    def huggingface_function(self) -> Any:
        """The mask as a Hugging Face mask function (batch_idx, head_idx, q_idx, kv_idx) → may look.

        There q_idx already counts from the first key, so L and S never differ and no anchor is asked for.
        """

        def mask_function(batch_idx: Any, head_idx: Any, q_idx: Any, kv_idx: Any) -> Tensor:
            b, h, i, j = (torch.as_tensor(x) for x in (batch_idx, head_idx, q_idx, kv_idx))
            return self.allows(Grid(b, h, i, j, 0, 0))

        return mask_function

    def draw(self, L: int | None = None, S: int | None = None, b: int = 0, h: int = 0) -> str:
        """The matrix of one batch row and head as text: ■ may look, · may not; queries down, keys across."""
        B, H, own_L, own_S = self.natural_size
        L = L or own_L or own_S or 8
        S = S or own_S or L
        B, H = max(B, b + 1), max(H, h + 1)
        seen = self.allows(Grid.of(B, H, L, S)).expand(B, H, L, S)[b, h]
        return "\n".join(" ".join("■" if cell else "·" for cell in row) for row in seen.tolist())

    def __str__(self) -> str:
        return f"{self!r}\n{self.draw()}"


@dataclass(frozen=True, repr=False)
class And(Mask):
    """Both masks allow it."""

    left: Mask
    right: Mask

    def allows(self, grid: Grid) -> Tensor:
        return self.left.allows(grid) & self.right.allows(grid)

    def spans(self, grid: Grid) -> tuple[Tensor, Tensor] | None:
        left, right = self.left.spans(grid), self.right.spans(grid)
        return None if left is None or right is None else _both(left, right)

    def hull(self, grid: Grid) -> tuple[Tensor, Tensor]:
        return _both(self.left.hull(grid), self.right.hull(grid))

    def outline(self, grid: Grid, size: int) -> Outline:
        return self.left.outline(grid, size).both(self.right.outline(grid, size))

    @property
    def natural_size(self) -> tuple[int, int, int, int]:
        return _larger(self.left, self.right)

    def __repr__(self) -> str:
        return f"({self.left!r} & {self.right!r})"


@dataclass(frozen=True, repr=False)
class Or(Mask):
    """At least one mask allows it."""

    left: Mask
    right: Mask

    def allows(self, grid: Grid) -> Tensor:
        return self.left.allows(grid) | self.right.allows(grid)

    def hull(self, grid: Grid) -> tuple[Tensor, Tensor]:
        left, right = _filled(self.left.hull(grid)), _filled(self.right.hull(grid))
        return torch.minimum(left[0], right[0]), torch.maximum(left[1], right[1])

    def outline(self, grid: Grid, size: int) -> Outline:
        return self.left.outline(grid, size).either(self.right.outline(grid, size))

    @property
    def natural_size(self) -> tuple[int, int, int, int]:
        return _larger(self.left, self.right)

    def __repr__(self) -> str:
        return f"({self.left!r} | {self.right!r})"


@dataclass(frozen=True, repr=False)
class Not(Mask):
    """The mask does not allow it."""

    inner: Mask

    def allows(self, grid: Grid) -> Tensor:
        return ~self.inner.allows(grid)

    def outline(self, grid: Grid, size: int) -> Outline:
        return self.inner.outline(grid, size).inverse()

    @property
    def natural_size(self) -> tuple[int, int, int, int]:
        return self.inner.natural_size

    def __repr__(self) -> str:
        return f"~{self.inner!r}"


_FAR = torch.iinfo(torch.int32).max


def _everywhere(grid: Grid) -> tuple[Tensor, Tensor]:
    lo = grid.i.new_zeros(1, 1, 1)
    return lo, torch.full_like(lo, grid.S)


def _both(left: tuple[Tensor, Tensor], right: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return torch.maximum(left[0], right[0]), torch.minimum(left[1], right[1])


def _filled(span: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """The span with an empty one moved out of the way of a minimum and a maximum."""
    lo, hi = span
    empty = hi <= lo
    return torch.where(empty, _FAR, lo), torch.where(empty, 0, hi)


def _larger(left: Mask, right: Mask) -> tuple[int, int, int, int]:
    B, H, L, S = (max(pair) for pair in zip(left.natural_size, right.natural_size, strict=True))
    return B, H, L, S


def _mask(other: object, operator: str) -> Mask:
    if isinstance(other, Mask):
        return other
    hint = "; wrap a boolean tensor in regard.mask.dense(tensor)" if isinstance(other, Tensor) else ""
    raise RegardError(f"mask {operator} {type(other).__name__}: wanted a mask on both sides{hint}")
