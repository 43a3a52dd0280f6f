"""Rows that are written side by side and have lengths of their own: the newest stands at the right end of each."""

from __future__ import annotations

import torch
from torch import Tensor


def appended(old: Tensor, new: Tensor, lengths: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
    """Rows (B, …, S, F) with L more things, of which only the ``valid`` (B, L) are there, and the new lengths (B,).

    What is there moves to the right, in its order; so many places stay as the longest row needs.
    """
    both = torch.cat([old, new], -2)
    S, L = both.shape[-2], new.shape[-2]
    if valid is None or bool(valid.all()):
        return both, lengths + L
    there = torch.cat([standing(S - L, lengths), valid], 1)
    lengths = lengths + valid.sum(-1)
    order = there.byte().argsort(dim=1, stable=True)
    order = order[:, S - (int(lengths.max()) if lengths.numel() else 0) :]
    at = order.view(order.shape[0], *(1,) * (both.dim() - 3), order.shape[1], 1)
    return both.gather(-2, at.expand(*both.shape[:-2], order.shape[1], both.shape[-1])), lengths


def cropped(x: Tensor, lengths: Tensor, kept: Tensor) -> Tensor:
    """The first ``kept`` (B,) things of each row of (B, …, S, F), at its right end again."""
    S, places = x.shape[-2], int(kept.max()) if kept.numel() else 0
    first = (S - lengths) - (places - kept)
    order = (torch.arange(places, device=x.device) + first.unsqueeze(-1)).clamp(min=0)
    at = order.view(order.shape[0], *(1,) * (x.dim() - 3), places, 1)
    return x.gather(-2, at.expand(*x.shape[:-2], places, x.shape[-1]))


def standing(places: int, lengths: Tensor) -> Tensor:
    """Which of so many places hold something, booleans (B, places): the last ``lengths`` (B,) of them.

    >>> standing(3, torch.tensor([1, 3]))
    tensor([[False, False,  True],
            [ True,  True,  True]])
    """
    return torch.arange(places, device=lengths.device) >= places - lengths.unsqueeze(-1)
