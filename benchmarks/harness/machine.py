"""The machine: what it is, and how fast it multiplies matrices and copies memory."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness.setting import Setting

__all__ = ["Machine", "cores", "rate"]


@dataclass(frozen=True)
class Machine:
    """Where the benchmarks ran. Rates are measured: floating-point operations a second by dtype, bytes a second.

    >>> print(Machine("cpu", "A processor", 2, 2, "2.13.0", {"float32": 1.9e11}, 3.3e10))
    A processor, 2 cores, 2 threads, PyTorch 2.13.0; matrix product 190 GFLOP/s (float32), copy 33 GB/s
    """

    device: str
    name: str
    cores: int
    threads: int
    torch: str
    product: dict[str, float]
    copy: float

    def __str__(self) -> str:
        product = ", ".join(f"{rate(flops, 'FLOP/s')} ({dtype})" for dtype, flops in self.product.items())
        return (
            f"{self.name}, {self.cores} cores, {self.threads} threads, PyTorch {self.torch}; "
            f"matrix product {product}, copy {rate(self.copy, 'B/s')}"
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def measured(cls, setting: Setting) -> Machine:
        """This machine, measured now: the best of a few products, and of a few copies (bytes read and written)."""
        dtypes = ["float32", *(["bfloat16"] if setting.device == "cuda" else [])]
        if setting.dtype not in dtypes:
            dtypes.append(setting.dtype)
        return cls(
            device=setting.device,
            name=_name(setting),
            cores=cores(),
            threads=torch.get_num_threads(),
            torch=torch.__version__,
            product={dtype: _product_rate(setting, getattr(torch, dtype)) for dtype in dtypes},
            copy=_copy_rate(setting),
        )


def cores() -> int:
    """The cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def rate(number: float, unit: str) -> str:
    """A rate with a prefix.

    >>> rate(1.9e11, "FLOP/s"), rate(4.4e12, "B/s")
    ('190 GFLOP/s', '4.4 TB/s')
    """
    size, prefix = (1e12, "T") if number >= 1e12 else (1e9, "G")
    return f"{number / size:.3g} {prefix}{unit}"


def _name(setting: Setting) -> str:
    if setting.device == "cuda":
        return torch.cuda.get_device_name()
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _product_rate(setting: Setting, dtype: torch.dtype) -> float:
    n = setting.size(8192 if setting.device == "cuda" else 2048, quick=256)
    a, b = (setting.randn(n, n, seed=seed).to(dtype) for seed in range(2))
    out = torch.empty_like(a)
    return 2 * n**3 / _best(setting, lambda: torch.mm(a, b, out=out))


def _copy_rate(setting: Setting) -> float:
    n = setting.size((2**30 if setting.device == "cuda" else 2**27), quick=2**20)
    source = torch.ones(n, dtype=torch.uint8, device=setting.device)
    target = torch.zeros_like(source)
    return 2 * n / _best(setting, lambda: target.copy_(source))


def _best(setting: Setting, call: Callable[[], object]) -> float:
    call()
    seconds = []
    for _ in range(5):
        setting.settle()
        start = time.perf_counter()
        call()
        setting.settle()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
