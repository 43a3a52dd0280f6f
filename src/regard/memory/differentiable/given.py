"""What the differentiable computer is given, checked before anything is written: shapes, gates, rows."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.memory.differentiable.interface import Asking, Writing

WHO = "DifferentiableComputer"


def check_writing(writing: Writing, batch: int, width: int, reads: int) -> None:
    """Shapes as :class:`Writing` says, and gates in [0, 1], without which no weighting would sum to at most 1."""
    B, W, R = batch, width, reads
    shapes = {"key": (B, W), "strength": (B,), "erase": (B, W), "add": (B, W)}
    _check("writing", writing, shapes | {"free": (B, R), "allocate": (B,), "gate": (B,)})
    gates = ("erase", "free", "allocate", "gate")
    if not _within(torch.cat([getattr(writing, name).detach().reshape(-1) for name in gates])):  # one look at all
        for name in gates:
            _check_unit(f"writing.{name}", getattr(writing, name))


def check_asking(asking: Asking, batch: int, width: int, reads: int) -> None:
    """Shapes as :class:`Asking` says, and modes that are shares: in [0, 1], and at most 1 together."""
    B, W, R = batch, width, reads
    _check("asking", asking, {"keys": (B, R, W), "strengths": (B, R), "modes": (B, R, 3)})
    _check_unit("asking.modes", asking.modes)
    _check_unit("asking.modes, summed,", asking.modes.sum(-1))


def check_valid(valid: Tensor | None, batch: int) -> None:
    """Booleans (B,), True where there is a step."""
    if valid is not None and (valid.dtype != torch.bool or tuple(valid.shape) != (batch,)):
        raise RegardError(
            f"{WHO}: valid is {tuple(valid.shape)} of {valid.dtype}, wanted booleans ({batch},), True where there is a "
            "step"
        )


def _check(who: str, given: Writing | Asking, shapes: dict[str, tuple[int, ...]]) -> None:
    for name, shape in shapes.items():
        x = getattr(given, name)
        if tuple(x.shape) != shape or not x.is_floating_point():
            raise RegardError(
                f"{WHO}: {who}.{name} is {tuple(x.shape)} of {x.dtype}, wanted floats {shape}: the state's batch, and "
                "reads and width as the memory was built"
            )


def _within(x: Tensor) -> bool:
    slack = 1e-2 if x.element_size() == 2 else 1e-5  # a softmax sums to 1 only as its dtype can
    low, high = x.detach().aminmax() if x.numel() else (x.new_zeros(()),) * 2
    return bool((low >= 0) & (high <= 1 + slack))  # a NaN is not


def _check_unit(name: str, x: Tensor) -> None:
    if not _within(x):
        raise RegardError(f"{WHO}: {name} goes from {x.min():.4g} to {x.max():.4g}, wanted numbers in [0, 1]")
