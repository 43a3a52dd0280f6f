"""What a run of the benchmarks was asked for, and the inputs it is given."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["Setting"]


@dataclass(frozen=True)
class Setting:
    """The device, element type and engine to run on, how many rounds to time, and whether shapes are small.

    >>> Setting(quick=True).size(8192, quick=256), Setting().size(8192, quick=256)
    (256, 8192)
    """

    device: str = "cpu"
    dtype: str = "float32"
    engine: str = "tiled"
    rounds: int = 7
    quick: bool = False

    @property
    def judged(self) -> bool:
        """Whether the goals are about this run: they are set for float32 on a CPU, at the full shapes."""
        return self.device == "cpu" and self.dtype == "float32" and not self.quick

    @property
    def tolerance(self) -> float:
        """How far two results may be apart, as a share of the largest number in them, and still be the same read."""
        return 1e-3 if self.dtype == "float32" else 3e-2

    def size(self, full: int, *, quick: int) -> int:
        """`full`, or `quick` when small shapes were asked for."""
        return quick if self.quick else full

    def place(self) -> dict[str, Any]:
        """The device and dtype as tensor factories and `Module.to` take them."""
        return {"device": torch.device(self.device), "dtype": getattr(torch, self.dtype)}

    def randn(self, *shape: int, seed: int = 0, grad: bool = False) -> Tensor:
        """Normal numbers, the same for the same seed, so that ours and the peer read the same memory."""
        x = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
        return x.to(**self.place()).requires_grad_(grad)

    def qkv(self, *shape: int, grad: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of one shape."""
        q, k, v = (self.randn(*shape, seed=seed, grad=grad) for seed in range(3))
        return q, k, v

    def bytes(self, *shape: int) -> int:
        """What a tensor of this shape takes."""
        return math.prod(shape) * int(getattr(torch, self.dtype).itemsize)

    def settle(self) -> None:
        """Waits until the device has done what it was given."""
        if self.device == "cuda":
            torch.cuda.synchronize()


#: What a benchmark times or weighs: made once, with its inputs, then called.
Make = Callable[..., Callable[[], object]]
