"""What a controller tells its memory in one step: the interface vector, cut and brought into range.

"Interface parameters" in the Methods of Graves et al. 2016.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.numerics import wide


class Writing(NamedTuple):
    """One write, and what is freed before it."""

    key: Tensor
    """k^w, (B, W): the content to write over, where it is not allocated."""
    strength: Tensor
    """β^w, (B,), at least 1."""
    erase: Tensor
    """e, (B, W), in [0, 1]."""
    add: Tensor
    """v, (B, W): what the paper calls the write vector."""
    free: Tensor
    """f, (B, R), in [0, 1]: whether the place each head read in the step before is free from now on."""
    allocate: Tensor
    """g^a, (B,), in [0, 1]: 1 writes to a free place, 0 to what the key finds."""
    gate: Tensor
    """g^w, (B,), in [0, 1]: 0 writes nothing."""


class Asking(NamedTuple):
    """Where R heads go from where they are."""

    keys: Tensor
    """k^r, (B, R, W)."""
    strengths: Tensor
    """β^r, (B, R), at least 1."""
    modes: Tensor
    """π, (B, R, 3): the shares of going backward, by content and forward; they sum to 1."""


def oneplus(x: Tensor) -> Tensor:
    """1 + log(1 + eˣ), in [1, ∞): the strengths of the paper. The authors' code has softplus, in (0, ∞).

    >>> oneplus(torch.tensor([-100.0, 100.0]))
    tensor([  1., 101.])
    """
    return 1 + torch.logaddexp(x, torch.zeros_like(x))


def interface_width(width: int, reads: int) -> int:
    """W·R + 3W + 5R + 3: how many numbers a step's interface takes.

    >>> interface_width(width=16, reads=4)
    135
    """
    return width * reads + 3 * width + 5 * reads + 3


def interface(vector: Tensor, width: int, reads: int) -> tuple[Writing, Asking]:
    """The interface vector ξ (B, W·R + 3W + 5R + 3) in the paper's order, each part in its range.

    ξ = [k^r; β^r; k^w; β^w; e; v; f; g^a; g^w; π]: oneplus for strengths, σ for erase and gates, softmax for modes.
    Half precision comes out in float32.

    >>> writing, asking = interface(torch.zeros(2, 135), width=16, reads=4)
    >>> asking.keys.shape, asking.modes[0, 0], writing.allocate
    (torch.Size([2, 4, 16]), tensor([0.3333, 0.3333, 0.3333]), tensor([0.5000, 0.5000]))
    """
    wanted = interface_width(width, reads)
    if vector.dim() != 2 or vector.shape[-1] != wanted:
        raise RegardError(
            f"interface: vector is {tuple(vector.shape)}, wanted (B, {wanted}): W·R + 3W + 5R + 3 numbers for W = "
            f"{width} and R = {reads}"
        )
    W, R = width, reads
    vector = wide(vector)  # modes in half precision would sum to 1 only roughly
    keys, strengths, key, strength, erase, add, free, allocate, gate, modes = vector.split(
        [W * R, R, W, 1, W, W, R, 1, 1, 3 * R], -1
    )
    writing = Writing(
        key=key,
        strength=oneplus(strength).squeeze(-1),
        erase=erase.sigmoid(),
        add=add,
        free=free.sigmoid(),
        allocate=allocate.sigmoid().squeeze(-1),
        gate=gate.sigmoid().squeeze(-1),
    )
    return writing, Asking(keys.unflatten(-1, (R, W)), oneplus(strengths), modes.unflatten(-1, (R, 3)).softmax(-1))
