"""Whether what a mask was given fits the read that it is asked about."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.grid import Grid


def own(index: Tensor, size: int) -> Tensor:
    """The index into an axis of ``size``; one place for all where the mask does not depend on it."""
    return index.new_zeros((1,) * index.dim()) if size == 1 else index % size


def check_boolean(who: str, mask: object, wanted: str, dims: tuple[int, ...]) -> None:
    if not isinstance(mask, Tensor):
        raise RegardError(f"mask {who}: found {type(mask).__name__}, wanted a boolean tensor {wanted}")
    if mask.dtype != torch.bool:
        raise RegardError(
            f"mask {who}: found {mask.dtype}, wanted booleans, True = may look; a 0/1 mask goes through "
            "regard.mask.from_huggingface, a float mask of 0 and −inf through from_additive"
        )
    if mask.dim() not in dims:
        raise RegardError(f"mask {who}: found shape {tuple(mask.shape)}, wanted {wanted}")


def check_batch(who: str, found: int, grid: Grid) -> None:
    if grid.b.dim() == 4 and found not in (1, grid.shape[0]):
        raise RegardError(
            f"{who} is for {found} batch rows, the read has B = {grid.shape[0]}; axes are counted from the right, so "
            "(L, D) has "
            "B = 1 and (H, L, D) has B = 1: add the head axis with unsqueeze(1)"
        )
