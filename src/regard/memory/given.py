"""What a memory is given, checked before anything is written: shapes, rows, places."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import RegardError


def check_pairs(
    who: str, k: Tensor, v: Tensor, rows: tuple[int, int], widths: tuple[int, int], valid: Tensor | None
) -> None:
    """Keys (B, G, L, D) and values (B, G, L, E) for ``rows`` = (B, G) and ``widths`` = (D, E); ``valid`` (B, L)."""
    for name, x, width, letter in (("k", k, widths[0], "D"), ("v", v, widths[1], "E")):
        shape = tuple(x.shape)
        if len(shape) != 4 or not x.is_floating_point():
            raise RegardError(f"{who}: {name} is {shape} of {x.dtype}, wanted a floating tensor (B, G, L, {letter})")
        if shape[:2] != rows or shape[3] != width:
            raise RegardError(
                f"{who}: {name} is {shape}, wanted ({rows[0]}, {rows[1]}, L, {width}): the state's batch, "
                f"and heads and {letter} as the memory was built"
            )
    if k.shape[2] != v.shape[2]:
        raise RegardError(f"{who}: k has {k.shape[2]} keys and v {v.shape[2]} values, wanted one value a key")
    if valid is not None and (valid.dtype != torch.bool or tuple(valid.shape) != (rows[0], k.shape[2])):
        raise RegardError(
            f"{who}: valid is {tuple(valid.shape)} of {valid.dtype}, wanted booleans ({rows[0]}, {k.shape[2]}), True "
            "where there is a pair"
        )


def check_queries(who: str, q: Tensor, batch: int, heads: int, width: int, length: int | None = None) -> None:
    """Queries (B, H, L, D), H a multiple of ``heads``; ``length`` is how many there must be, if that is known."""
    shape = tuple(q.shape)
    if len(shape) != 4 or not q.is_floating_point():
        raise RegardError(f"{who}: q is {shape} of {q.dtype}, wanted a floating tensor (B, H, L, D)")
    if shape[0] != batch or shape[1] % heads or shape[3] != width:
        raise RegardError(
            f"{who}: q is {shape}, wanted ({batch}, a multiple of {heads}, L, {width}): the state's batch, "
            "and heads and D as the memory was built"
        )
    if length is not None and shape[2] != length:
        raise RegardError(f"{who}: q has {shape[2]} queries for {length} pairs, wanted as many")


def check_index(who: str, index: Tensor, batch: int) -> None:
    """Rows of a batch as ``reorder`` takes them: integers (any number of them), each below ``batch``."""
    if index.dim() != 1 or index.dtype not in (torch.int32, torch.int64):
        raise RegardError(f"{who}: index is {tuple(index.shape)} of {index.dtype}, wanted integers (B,), rows to keep")
    if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < batch:
        raise RegardError(
            f"{who}: index names rows {int(index.min())} to {int(index.max())}, the state has rows 0 to {batch - 1}"
        )


def lengths(who: str, seen: tuple[int, ...], length: int | Tensor) -> tuple[int, ...]:
    """What ``crop`` leaves of each row, checked: the first ``length`` of all, or (B,) of its own."""
    given: list[int] = [length] * len(seen) if isinstance(length, int) else length.tolist()
    longest = max(seen, default=0)
    if isinstance(length, int):
        if not 0 <= length <= longest:
            raise RegardError(f"{who}: crop to {length}, wanted 0 to {longest}, the longest row's length")
        return tuple(min(length, s) for s in seen)
    if length.dtype not in (torch.int32, torch.int64) or tuple(length.shape) != (len(seen),):
        raise RegardError(f"{who}: length is {tuple(length.shape)} of {length.dtype}, wanted integers ({len(seen)},)")
    for b, (n, s) in enumerate(zip(given, seen, strict=True)):
        if not 0 <= n <= s:
            raise RegardError(f"{who}: crop of row {b} to {n}, wanted 0 to {s}, its length")
    return tuple(given)
