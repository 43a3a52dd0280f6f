"""Masks by what stands in a row of the batch: padding behind its tokens, documents beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.grid import Grid
from regard.mask.base import Mask
from regard.mask.fits import check_batch, own
from regard.mask.tiles import Outline, cells


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
        check_batch("padding: lengths", self.lengths.shape[0], grid)
        return grid.j < self.lengths.to(grid.j.device)[own(grid.b, self.lengths.shape[0])]

    def spans(self, grid: Grid) -> tuple[Tensor, Tensor]:
        check_batch("padding: lengths", self.lengths.shape[0], grid)
        hi = self.lengths.to(grid.j.device)[own(grid.b, self.lengths.shape[0])][..., 0].clamp(0, grid.S)
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
            check_batch(f"segments: {name}", ids.shape[0], grid)
        of_key = self.ids.to(grid.j.device)[own(grid.b, self.ids.shape[0]), grid.j]
        of_query = self.query_ids.to(grid.j.device)[own(grid.b, self.query_ids.shape[0]), grid.i]
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
