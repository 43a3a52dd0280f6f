"""What a Hugging Face mask function allows, as a mask of this package: causal, window, padding, segments, intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard import mask as masks
from regard.grid import Grid
from regard.mask import Mask

__all__ = ["Asked", "Call", "Spans", "lengths_to_segments", "packed", "recover"]

Function = Callable[..., Tensor]

_CELLS = 1 << 22  # booleans that are looked at together


@dataclass(frozen=True, eq=False, repr=False)
class Spans(Mask):
    """lo[b, i] ≤ j < hi[b, i]: an interval of keys for every query; ``lo`` and ``hi`` are (B|1, L|1).

    >>> print(Spans(torch.tensor([[0, 1]]), torch.tensor([[1, 3]])).draw(2, 3))
    ■ · ·
    · ■ ■
    """

    lo: Tensor
    hi: Tensor

    def allows(self, grid: Grid) -> Tensor:
        return (grid.j >= self._at(self.lo, grid)) & (grid.j < self._at(self.hi, grid))

    def spans(self, grid: Grid) -> tuple[Tensor, Tensor]:
        lo, hi = (self._at(edge, grid).squeeze(-1) for edge in (self.lo, self.hi))
        return lo.clamp(min=0), hi.clamp(max=grid.S)

    def _at(self, edge: Tensor, grid: Grid) -> Tensor:
        """The edge over the grid's own rows, (B|1, 1, L|1, 1)."""
        b, i = (
            index if size > 1 else torch.zeros_like(index.flatten()[:1])
            for index, size in zip((grid.b.flatten(), grid.i.flatten()), edge.shape, strict=True)
        )
        return edge.to(grid.i.device)[b][:, i][:, None, :, None]

    def __repr__(self) -> str:
        return f"spans({tuple(self.lo.shape)})"


@dataclass(frozen=True, eq=False)
class Asked(Mask):
    """What a mask function says, asked band by band; nothing of it is kept."""

    call: Call

    def allows(self, grid: Grid) -> Tensor:
        rows = grid.i.flatten()
        if not len(rows):
            return torch.zeros(1, 1, 0, grid.S, dtype=torch.bool, device=grid.i.device)
        start = int(rows[0])
        whole = self.call.rows(start, start + len(rows)).to(grid.i.device)
        b = grid.b.flatten() if whole.shape[0] > 1 else torch.zeros_like(grid.b.flatten()[:1])
        return whole[b][..., grid.j.flatten()]

    def __repr__(self) -> str:
        return f"asked({self.call.L} × {self.call.S})"


class Call(NamedTuple):
    """What transformers says when it asks for a mask: query i stands at i + q_offset, key j at j + kv_offset."""

    function: Function
    padding: Tensor | None  # (B, ≥ kv_offset + S) booleans, True = a token
    B: int
    L: int
    S: int
    q_offset: int
    kv_offset: int
    device: torch.device
    vmap: bool = False

    def rows(self, start: int, stop: int) -> Tensor:
        """The booleans of queries start ≤ i < stop as transformers itself makes them, (B, 1, ·, S)."""
        from transformers.masking_utils import sdpa_mask

        made = sdpa_mask(
            self.B,
            stop - start,
            self.S,
            q_offset=self.q_offset + start,
            kv_offset=self.kv_offset,
            mask_function=self.function,
            attention_mask=self.padding,
            allow_is_causal_skip=False,
            allow_is_bidirectional_skip=False,
            use_vmap=self.vmap,
            device=self.device,
        )
        assert made is not None
        return made


def recover(call: Call) -> Mask | None:
    """The mask that ``call`` describes; None when everything is allowed.

    Functions that transformers makes itself are read: causal, windows, chunks, packed documents, padding. Of any other,
    where every row is an interval the intervals are kept, else the function is asked anew, band by band.
    """
    terms = list(_terms(call.function))
    apart = packed(call.function)
    found: list[Mask] = []
    for name, cells in terms:
        made = _read(name, cells, call, apart)
        if made is _UNKNOWN:
            return _scanned(call)
        if isinstance(made, Mask):
            found.append(made)
    padding = None if call.padding is None else _padding(call.padding, call)
    if padding is not None:
        found.append(padding)
    if not found:
        return None
    whole = found[0]
    for each in found[1:]:
        whole = whole & each
    return whole


def packed(function: Function) -> bool:
    """Whether the function keeps packed documents apart."""
    return any(name == "packed_sequence_mask_function" for name, _ in _terms(function))


_UNKNOWN: Any = object()


def _terms(function: Function) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name of the maker of each part of a conjunction, and what the part holds."""
    if getattr(function, "__module__", "") != "transformers.masking_utils":
        yield "", {}
        return
    name = function.__qualname__.split(".")[0]
    held = function.__closure__ or ()
    cells = dict(zip(function.__code__.co_freevars, (cell.cell_contents for cell in held), strict=True))
    if name == "and_masks":
        for part in cells["mask_functions"]:
            yield from _terms(part)
    else:
        yield name, cells


def _read(name: str, cells: dict[str, Any], call: Call, apart: bool) -> Any:
    """One part as a mask, None where it allows everything, or that it is unknown."""
    if name == "bidirectional_mask_function":
        return None
    if name == "causal_mask_function":
        return _within(call, None, 0)
    if name == "sliding_window_overlay":
        return _within(call, cells["sliding_window"] - 1, None)
    if name == "sliding_window_bidirectional_overlay":
        return _within(call, cells["sliding_window"], cells["sliding_window"])
    if name == "chunked_overlay":
        return _chunks(cells["chunk_size"], cells["left_padding"], call)
    if name == "packed_sequence_mask_function" and call.L == call.S and not (call.q_offset or call.kv_offset):
        return masks.segments(cells["packed_sequence_mask"])
    if name == "remap_positions_for_packed_sequence" and apart:
        # Inside a document places grow by one, so that differences of places are those of indices.
        made = [_read(*part, call, apart) for part in _terms(cells["mask_function"])]
        known = {part for part, _ in _terms(cells["mask_function"])} <= _RELATIVE
        if known and not any(each is _UNKNOWN for each in made):
            parts = [each for each in made if each is not None]
            return None if not parts else parts[0] if len(parts) == 1 else parts[0] & parts[1]
    return _UNKNOWN


_RELATIVE = {
    "bidirectional_mask_function",
    "causal_mask_function",
    "sliding_window_overlay",
    "sliding_window_bidirectional_overlay",
}


def _within(call: Call, left: int | None, right: int | None) -> Mask:
    """−left ≤ j − i ≤ right on the ruler that queries and keys share."""
    shift = call.q_offset - call.kv_offset
    anchor: Any = "start" if shift == 0 else "end" if shift == call.S - call.L else None
    if anchor is None:  # slots of a static cache that nobody has written yet
        place = (torch.arange(call.L, device=call.device) + shift)[None]
        lo = torch.zeros_like(place) if left is None else (place - left).clamp(min=0)
        hi = torch.full_like(place, call.S) if right is None else (place + right + 1).clamp(max=call.S)
        return Spans(lo, hi)
    if call.L == call.S:
        anchor = "end"
    if left is None and right == 0:
        return masks.causal(anchor)
    # window() always sees itself, so a bound below 0 on one side alone cannot be said; there is none.
    return masks.window(left, right, anchor)


def _chunks(size: int, padded: Tensor, call: Call) -> Mask:
    place = torch.arange(call.L, device=call.device) + call.q_offset
    start = padded.to(call.device)[:, None]
    lo = (place - start).div(size, rounding_mode="floor") * size + start - call.kv_offset
    return Spans(lo.clamp(0, call.S), (lo + size).clamp(0, call.S))


def _padding(padding: Tensor, call: Call) -> Mask | None:
    """Keys that are tokens: an interval a row where it is one, as right and left padding are."""
    wanted = call.kv_offset + call.S
    real = torch.nn.functional.pad(padding.bool(), (0, max(0, wanted - padding.shape[-1])))[:, call.kv_offset : wanted]
    if bool(real.all()):
        return None
    count = real.sum(-1)
    lo = torch.where(count > 0, real.byte().argmax(-1), 0)
    hi = torch.where(count > 0, call.S - real.flip(-1).byte().argmax(-1), 0)
    if bool((hi - lo != count).any()):
        return masks.dense(real[:, None, None, :])
    return masks.padding(hi) if not bool(lo.any()) else Spans(lo[:, None], hi[:, None])


def _scanned(call: Call) -> Mask | None:
    """A mask function nobody knows, looked at band by band."""
    step = max(1, _CELLS // max(1, call.B * call.S))
    if step >= call.L:
        return masks.dense(call.rows(0, call.L))
    edges = []
    for start in range(0, call.L, step):
        band = masks.dense(call.rows(start, min(start + step, call.L)))
        L = band.allowed.shape[2]
        spans = band.spans(Grid.of(call.B, band.allowed.shape[1], L, call.S, call.device))
        if spans is None or band.allowed.shape[1] > 1:
            return Asked(call)
        edges.append([edge[:, 0].expand(-1, L) for edge in spans])
    lo, hi = (torch.cat(edge, 1) for edge in zip(*edges, strict=True))
    return Spans(lo, hi)


def lengths_to_segments(cumulative_q: Tensor, cumulative_k: Tensor, L: int, S: int) -> Mask:
    """Documents packed in one row: query i and key j lie between the same two of the cumulative lengths.

    >>> print(lengths_to_segments(torch.tensor([0, 1, 3]), torch.tensor([0, 1, 3]), 3, 3).draw(3, 3))
    ■ · ·
    · ■ ■
    · ■ ■
    """
    queries = torch.searchsorted(cumulative_q[1:].contiguous(), torch.arange(L, device=cumulative_q.device), right=True)
    keys = torch.searchsorted(cumulative_k[1:].contiguous(), torch.arange(S, device=cumulative_k.device), right=True)
    documents = len(cumulative_k) - 1
    return masks.segments(torch.where(keys < documents, keys, -1), queries)
