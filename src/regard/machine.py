"""What this machine can do at best: its rates of multiplying matrices and of copying, measured once a process."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Rates:
    """Floating-point operations and bytes a second; a copy of n bytes moves 2n."""

    flops: float
    bytes: float

    def bound(self, flops: float, moved: float) -> float:
        """Seconds below which no program can do this many operations and move this many bytes."""
        return max(flops / self.flops, moved / self.bytes)


@functools.cache
def rates(device: str = "cpu", dtype: torch.dtype = torch.float32) -> Rates:
    """The best of a few products of 1,024 × 1,024 matrices (8,192 on an accelerator) and a few large copies."""
    cpu = torch.device(device).type == "cpu"
    n = 1024 if cpu else 8192
    a, b = (torch.ones(n, n, device=device, dtype=dtype) for _ in range(2))
    x = torch.ones((1 << 24) if cpu else (1 << 28), device=device)
    y = torch.empty_like(x)
    product = _best(lambda: torch.mm(a, b), device)
    copy = _best(lambda: y.copy_(x), device)
    return Rates(2 * n**3 / product, 2 * x.numel() * 4 / copy)


def _best(call: Callable[[], object], device: str, rounds: int = 5) -> float:
    seconds = []
    for _ in range(rounds):
        _settle(device)
        start = time.perf_counter()
        call()
        _settle(device)
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])  # the first wakes threads and touches pages


def _settle(device: str) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
