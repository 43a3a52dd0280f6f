"""The masks: causal, window, padding, segments, strided, blocks, dense, where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.errors import RegardError
from regard.grid import Anchor, Grid
from regard.mask.base import Mask
from regard.mask.tiles import Outline, cells, edges


@dataclass(frozen=True)
class causal(Mask):
    """j ≤ i: a query sees its own place and what came before. Where L ≠ S say which ends meet with ``anchor``.

    >>> print(causal(anchor="end").draw(2, 4))
    ■ ■ ■ ·
    ■ ■ ■ ■
    """

    anchor: Anchor = None

    def allows(self, grid: Grid) -> Tensor:
        return grid.j <= grid.query_places(self.anchor, "causal()")

    def spans(self, grid: Grid) -> tuple[Tensor, Tensor]:
        last = grid.query_places(self.anchor, "causal()")[..., 0]
        return torch.zeros_like(last[..., :1]), (last + 1).clamp(0, grid.S)

    def is_causal_flag(self, grid: Grid) -> bool:
        return grid.L == grid.S or self.anchor == "start"  # where the kernel anchors it

    def sdpa_flags(self, grid: Grid) -> tuple[bool, Tensor | None]:
        grid.query_places(self.anchor, "causal()")
        if self.anchor == "end" and grid.L == 1:
            return False, None  # the one query stands at the last key and sees everything
        return (True, None) if self.is_causal_flag(grid) else (False, self.allows(grid))


@dataclass(frozen=True)
class window(Mask):
    """−left ≤ j − i ≤ right: ``left`` neighbours before, ``right`` after, and always the query's own place.

    None means no bound on that side. So ``window(3, 0)`` allows four keys; Hugging Face's ``sliding_window=4`` is
    ``window(3, 0)``, and flash-attention's ``window_size=(3, 0)`` is ``window(3, 0)``. Where L ≠ S an ``anchor`` is
    needed.

    >>> print(window(1, 0).draw(3, 3))
    ■ · ·
    ■ ■ ·
    · ■ ■
    """

    left: int | None
    right: int | None
    anchor: Anchor = None

    def __post_init__(self) -> None:
        for name, side in (("left", self.left), ("right", self.right)):
            if side is not None and side < 0:
                raise RegardError(f"window: {name} is {side}, wanted a count of neighbours ≥ 0, or None for no bound")

    def allows(self, grid: Grid) -> Tensor:
        place = grid.query_places(self.anchor, "window()")
        sides = [] if self.left is None else [grid.j >= place - self.left]
        if self.right is not None:
            sides.append(grid.j <= place + self.right)
        return sides[0] & sides[1] if len(sides) == 2 else sides[0] if sides else (grid.j == grid.j) | (place == place)

    def spans(self, grid: Grid) -> tuple[Tensor, Tensor]:
        place = grid.query_places(self.anchor, "window()")[..., 0]
        lo = torch.zeros_like(place) if self.left is None else (place - self.left).clamp(min=0)
        hi = torch.full_like(place, grid.S) if self.right is None else (place + self.right + 1).clamp(max=grid.S)
        return lo, hi


@dataclass(frozen=True, eq=False)
class padding(Mask):
    """j < lengths[b]: keys past the end of their batch row are padding and are seen by nobody. ``lengths`` is (B,).

    >>> print(padding([1, 3]).draw(1, 3), padding([1, 3]).draw(1, 3, b=1), sep="  |  ")
    ■ · ·  |  ■ ■ ■
    """

    lengths: Tensor

    def __init__(self, lengths: Tensor | Sequence[int]) -> None:
        lengths = torch.as_tensor(lengths)
        if lengths.dim() != 1 or lengths.is_floating_point() or lengths.dtype == torch.bool:
            raise RegardError(
                f"padding: lengths is {tuple(lengths.shape)} of {lengths.dtype}, wanted one integer a batch row, (B,); "
                "for a 0/1 mask (B, S) use regard.mask.from_huggingface, for True = padding use from_torch_key_padding"
            )
        object.__setattr__(self, "lengths", lengths)

    def allows(self, grid: Grid) -> Tensor:
        _check_batch("padding: lengths", self.lengths.shape[0], grid)
        return grid.j < self.lengths.to(grid.j.device)[_own(grid.b, self.lengths.shape[0])]

    def spans(self, grid: Grid) -> tuple[Tensor, Tensor]:
        _check_batch("padding: lengths", self.lengths.shape[0], grid)
        hi = self.lengths.to(grid.j.device)[_own(grid.b, self.lengths.shape[0])][..., 0].clamp(0, grid.S)
        return torch.zeros_like(hi), hi

    @property
    def natural_size(self) -> tuple[int, int, int, int]:
        longest = max(1, int(self.lengths.max()))
        return self.lengths.shape[0], 0, longest, longest

    def __repr__(self) -> str:
        return f"padding({self.lengths.tolist()})"


@dataclass(frozen=True, eq=False)
class segments(Mask):
    """ids[b, i] = ids[b, j]: packed documents do not see each other; a negative id sees and is seen by nobody.

    ``ids`` is (S,) or (B, S). When queries are not the keys themselves, ``query_ids`` (L,) or (B, L) says where
    they belong.

    >>> print(segments([0, 0, 1, -1]).draw(4, 4))
    ■ ■ · ·
    ■ ■ · ·
    · · ■ ·
    · · · ·
    """

    ids: Tensor
    query_ids: Tensor

    def __init__(self, ids: Tensor | Sequence[int], query_ids: Tensor | Sequence[int] | None = None) -> None:
        keys = _ids("ids", ids)
        object.__setattr__(self, "ids", keys)
        object.__setattr__(self, "query_ids", keys if query_ids is None else _ids("query_ids", query_ids))

    def allows(self, grid: Grid) -> Tensor:
        for name, ids, axis, length in (("ids", self.ids, "S", grid.S), ("query_ids", self.query_ids, "L", grid.L)):
            if length and ids.shape[1] != length:
                raise RegardError(
                    f"segments: {name} is {tuple(ids.shape)}, the read has {axis} = {length}; wanted ({axis},) or "
                    f"(B, {axis})"
                )
            _check_batch(f"segments: {name}", ids.shape[0], grid)
        of_key = self.ids.to(grid.j.device)[_own(grid.b, self.ids.shape[0]), grid.j]
        of_query = self.query_ids.to(grid.j.device)[_own(grid.b, self.query_ids.shape[0]), grid.i]
        return (of_query == of_key) & (of_key >= 0)

    def spans(self, grid: Grid) -> tuple[Tensor, Tensor] | None:
        """Where each document lies in one piece, as packed ones do: the piece of the query's document."""
        if torch.compiler.is_compiling():  # whether it does is a question to the ids
            return None
        self.allows(grid.rows(0, 0))  # raises where the ids do not fit
        rows = [_pieces(self.ids[b % len(self.ids)]) for b in range(max(len(self.ids), len(self.query_ids)))]
        found = []
        for b, pieces in enumerate(rows):
            if pieces is None:
                return None
            ids, starts, ends = pieces
            asked = self.query_ids[b % len(self.query_ids)][grid.i.flatten().to(self.query_ids.device)]
            at = torch.searchsorted(ids, asked).clamp(max=max(0, len(ids) - 1))
            known = (ids[at] == asked) if len(ids) else torch.zeros_like(asked, dtype=torch.bool)
            found.append([torch.where(known, edge[at] if len(ids) else 0, 0) for edge in (starts, ends)])
        lo, hi = (torch.stack(edge).unsqueeze(1).to(grid.i.device) for edge in zip(*found, strict=True))
        return lo, hi

    def outline(self, grid: Grid, size: int) -> Outline:
        """Two tiles of ids have one in common only where their ranges meet, and surely where both are one id."""
        self.allows(grid.rows(0, 0))  # raises where the ids do not fit
        query, key = (cells(ids.to(grid.i.device), size)[:, None] for ids in (self.query_ids, self.ids))
        query, key = query[..., None, :], key[..., None, :, :]  # (b, 1, rows, 1, size), (b, 1, 1, columns, size)
        low, high = ([x.amin(-1) for x in (query, key)], [x.amax(-1) for x in (query, key)])
        least = [
            torch.where(x < 0, torch.iinfo(x.dtype).max, x).amin(-1) for x in (query, key)
        ]  # who is somewhere at all
        some = (least[0] <= high[1]) & (least[1] <= high[0])
        return Outline(some, (low[0] == high[1]) & (low[1] == high[0]) & (low[1] == high[1]) & (low[1] >= 0))

    @property
    def natural_size(self) -> tuple[int, int, int, int]:
        return self.ids.shape[0], 0, self.query_ids.shape[1], self.ids.shape[1]

    def __repr__(self) -> str:
        return f"segments({self.ids.squeeze(0).tolist()})"


@dataclass(frozen=True)
class strided(Mask):
    """(i − j) mod n = 0: every n-th key counted from the query's own place (Child et al. 2019).

    >>> print((strided(2) & causal()).draw(4, 4))
    ■ · · ·
    · ■ · ·
    ■ · ■ ·
    · ■ · ■
    """

    n: int
    anchor: Anchor = None

    def __post_init__(self) -> None:
        if self.n < 1:
            raise RegardError(f"strided: n is {self.n}, wanted at least 1")

    def allows(self, grid: Grid) -> Tensor:
        return grid.query_places(self.anchor, "strided()") % self.n == grid.j % self.n

    def outline(self, grid: Grid, size: int) -> Outline:
        """i − j takes every value of a range in a tile, and the range has a multiple of n in it or has not."""
        place = grid.query_places(self.anchor, "strided()").flatten()
        (top, bottom), (left, right) = (edges(n, size, place.device) for n in grid.shape[2:])
        least, most = place[top].view(1, 1, -1, 1) - right, place[bottom].view(1, 1, -1, 1) - left
        some = most.div(self.n, rounding_mode="floor") * self.n >= least
        return Outline(some, some & (least == most) if self.n > 1 else some)


@dataclass(frozen=True, eq=False)
class blocks(Mask):
    """table[i // size, j // size]: whole blocks are seen or not; ``table`` (rows, columns) or (H, rows, columns).

    >>> print(blocks([[True, False], [True, True]], size=2).draw(4, 4))
    ■ ■ · ·
    ■ ■ · ·
    ■ ■ ■ ■
    ■ ■ ■ ■
    """

    table: Tensor
    size: int

    def __init__(self, table: Tensor | Sequence[Sequence[bool]], size: int) -> None:
        table = torch.as_tensor(table)
        _check_boolean("blocks: table", table, "(rows, columns) or (H, rows, columns)", (2, 3))
        if size < 1:
            raise RegardError(f"blocks: size is {size}, wanted at least 1")
        object.__setattr__(self, "table", table if table.dim() == 3 else table.unsqueeze(0))
        object.__setattr__(self, "size", size)

    def allows(self, grid: Grid) -> Tensor:
        heads, rows, columns = self.table.shape
        if rows * self.size < grid.L or columns * self.size < grid.S:
            raise RegardError(
                f"blocks: a {rows} × {columns} table of size {self.size} covers L ≤ {rows * self.size}, S ≤ "
                f"{columns * self.size}; the read has L = {grid.L}, S = {grid.S}"
            )
        return self.table.to(grid.j.device)[_own(grid.h, heads), grid.i // self.size, grid.j // self.size]

    def outline(self, grid: Grid, size: int) -> Outline:
        """How many of the table's entries under a tile are True, from sums over all that lies above and to the left."""
        self.allows(grid.rows(0, 0))  # raises where the table does not fit
        sums = F.pad(self.table.to(grid.j.device).long().cumsum(1).cumsum(2), (1, 0, 1, 0))
        (top, bottom), (left, right) = ([x // self.size for x in edges(n, size, sums.device)] for n in grid.shape[2:])
        top, bottom = top[:, None], bottom[:, None] + 1
        right = right + 1
        count = sums[:, bottom, right] - sums[:, top, right] - sums[:, bottom, left] + sums[:, top, left]
        return Outline((count > 0)[None], (count == (bottom - top) * (right - left))[None])

    @property
    def natural_size(self) -> tuple[int, int, int, int]:
        return 0, self.table.shape[0], self.table.shape[1] * self.size, self.table.shape[2] * self.size

    def __repr__(self) -> str:
        return f"blocks({self.table.shape[1]} × {self.table.shape[2]}, size={self.size})"


@dataclass(frozen=True, eq=False)
class dense(Mask):
    """allowed[b, h, i, j]: any boolean tensor that broadcasts to (B, H, L, S) from the right.

    A mask (B, S) or (B, L, S) needs its missing axes written as 1: ``tensor[:, None, None, :]``.

    >>> import torch
    >>> print(dense(torch.eye(2, dtype=torch.bool)).draw(2, 2))
    ■ ·
    · ■
    """

    allowed: Tensor

    def __init__(self, allowed: Tensor) -> None:
        _check_boolean("dense", allowed, "up to four axes (B, H, L, S), True = may look", (0, 1, 2, 3, 4))
        object.__setattr__(self, "allowed", allowed.reshape((1,) * (4 - allowed.dim()) + tuple(allowed.shape)))

    def allows(self, grid: Grid) -> Tensor:
        wanted = (*grid.shape[:2], grid.L, grid.S) if grid.L and grid.b.dim() == 4 else None
        if wanted and any(found not in (1, size) for found, size in zip(self.allowed.shape, wanted, strict=True)):
            raise RegardError(
                f"mask dense: found (B, H, L, S) = {tuple(self.allowed.shape)}, the read has {wanted}; each axis "
                "must be that "
                "or 1. A mask (B, S) becomes mask[:, None, None, :]"
            )
        if wanted is not None and wanted == grid.shape:
            return self.allowed.to(grid.j.device)  # the whole grid: nothing to pick
        indices = zip((grid.b, grid.h, grid.i, grid.j), self.allowed.shape, strict=True)
        b, h, i, j = (_own(index, size) for index, size in indices)
        return self.allowed.to(grid.j.device)[b, h, i, j]

    def spans(self, grid: Grid) -> tuple[Tensor, Tensor] | None:
        """Where every row is one piece: most masks that arrive as tensors are causal, padding, or both."""
        if torch.compiler.is_compiling():
            return None
        allowed = self.allows(grid)
        if allowed.shape[3] == 1:
            allowed = allowed.expand(*allowed.shape[:3], grid.S)
        if not grid.S:
            return None
        seen, lo, after = _ends(allowed)
        hi = torch.where(seen > 0, grid.S - after, 0)
        return (lo, hi) if torch.equal(hi - lo, seen) else None

    @property
    def natural_size(self) -> tuple[int, int, int, int]:
        B, H, L, S = self.allowed.shape
        return B, H, L, S

    def __repr__(self) -> str:
        return f"dense({tuple(self.allowed.shape)})"


@dataclass(frozen=True)
class where(Mask):
    """fn(b, h, i, j): any predicate on index tensors that broadcast together, as FlexAttention's ``mask_mod``.

    >>> print(where(lambda b, h, i, j: j != i).draw(2, 2))
    · ■
    ■ ·
    """

    fn: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]

    def allows(self, grid: Grid) -> Tensor:
        allowed = self.fn(grid.b, grid.h, grid.i, grid.j)
        if not isinstance(allowed, Tensor) or allowed.dtype != torch.bool:
            found = allowed.dtype if isinstance(allowed, Tensor) else type(allowed).__name__
            raise RegardError(f"mask where: the function gave {found}, wanted a boolean tensor (True = may look)")
        return allowed

    def __repr__(self) -> str:
        return f"where({getattr(self.fn, '__name__', type(self.fn).__name__)})"


def _own(index: Tensor, size: int) -> Tensor:
    """The index into an axis of ``size``; one place for all where the mask does not depend on it."""
    return index.new_zeros((1,) * index.dim()) if size == 1 else index % size


def _ids(name: str, ids: Tensor | Sequence[int]) -> Tensor:
    ids = torch.as_tensor(ids)
    if ids.dim() not in (1, 2) or ids.is_floating_point() or ids.dtype == torch.bool:
        raise RegardError(f"segments: {name} is {tuple(ids.shape)} of {ids.dtype}, wanted integers (S,) or (B, S)")
    return ids if ids.dim() == 2 else ids.unsqueeze(0)


def _pieces(ids: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
    """Each id ≥ 0 in order, where its one run starts and where it ends; None where an id has two runs."""
    values, counts = torch.unique_consecutive(ids, return_counts=True)
    ends = counts.cumsum(0)
    real = values >= 0
    values, starts, ends = values[real], (ends - counts)[real], ends[real]
    order = values.argsort()
    values = values[order]
    if (values[1:] == values[:-1]).any():
        return None
    return values.contiguous(), starts[order], ends[order]


def _ends(allowed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """How many of each row are True, and how many are False before the first and behind the last; 0 if none is True."""
    if allowed.device.type != "cpu":
        return allowed.sum(-1), allowed.byte().argmax(-1), allowed.flip(-1).byte().argmax(-1)
    rows = allowed.numpy()  # where booleans are ten times faster
    found = (np.count_nonzero(rows, -1), rows.argmax(-1), rows[..., ::-1].argmax(-1))
    seen, before, after = (torch.from_numpy(np.asarray(x)) for x in found)
    return seen, before, after


def _check_boolean(who: str, mask: object, wanted: str, dims: tuple[int, ...]) -> None:
    if not isinstance(mask, Tensor):
        raise RegardError(f"mask {who}: found {type(mask).__name__}, wanted a boolean tensor {wanted}")
    if mask.dtype != torch.bool:
        raise RegardError(
            f"mask {who}: found {mask.dtype}, wanted booleans, True = may look; a 0/1 mask goes through "
            "regard.mask.from_huggingface, a float mask of 0 and −inf through from_additive"
        )
    if mask.dim() not in dims:
        raise RegardError(f"mask {who}: found shape {tuple(mask.shape)}, wanted {wanted}")


def _check_batch(who: str, found: int, grid: Grid) -> None:
    if grid.b.dim() == 4 and found not in (1, grid.shape[0]):
        raise RegardError(
            f"{who} is for {found} batch rows, the read has B = {grid.shape[0]}; axes are counted from the right, so "
            "(L, D) has "
            "B = 1 and (H, L, D) has B = 1: add the head axis with unsqueeze(1)"
        )
