"""How much memory a call takes beyond its inputs: the high-water mark of a process that does nothing else."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.harness.child import fresh
from benchmarks.harness.row import Goal, Row
from benchmarks.harness.setting import Make, Setting
from benchmarks.harness.timing import reason

__all__ = ["extra_mib", "memory_row"]

PROC = Path("/proc/self")


def extra_mib(setting: Setting, make: Make, small: Sequence[object], full: Sequence[object]) -> float:
    """MiB that `make(setting, *full)()` needs beyond its inputs, its result included.

    `make` stands at the top of a benchmark. It is called with `small` first, so that kernels and thread pools are
    there already; it should be large enough to reach the same kernels.
    """
    return float(fresh(setting, _measure, make.__module__, make.__qualname__, list(small), list(full)))


def memory_row(
    setting: Setting,
    work: str,
    make: Make,
    small: Sequence[object],
    full: Sequence[object],
    *,
    goal: Goal | None = None,
    peer: tuple[str, Make, Sequence[object]] | None = None,
    note: str = "",
) -> Row:
    """The extra memory of one call; beside that of a peer `(name, make, arguments)`, how many times less it is."""
    ours = theirs = None
    name = peer[0] if peer else ""
    try:
        who = "regard"
        ours = extra_mib(setting, make, small, full)
        if peer:
            who = name
            theirs = extra_mib(setting, peer[1], small, peer[2])
        problem = ""
    except Exception as error:
        problem = reason(who, error)
    ratio = None if ours is None or theirs is None else theirs / max(ours, 0.25)  # a page here or there is nothing
    return Row(
        work,
        name,
        "× less memory" if peer else "MiB",
        value=ratio if peer else ours,
        ours=ours,
        theirs=theirs,
        amount="MiB",
        goal=goal,
        judged=setting.judged,
        problem=problem,
        note=note,
    )


def _measure(setting: Setting, module: str, function: str, small: list[object], full: list[object]) -> float:
    make: Make = getattr(importlib.import_module(module), function)
    make(setting, *small)()
    call = make(setting, *full)
    setting.settle()
    if setting.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        setting.settle()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    if not (PROC / "clear_refs").exists():
        raise RuntimeError("the high-water mark is read from /proc/self, which only Linux keeps")
    (PROC / "clear_refs").write_text("5")  # it falls to what is resident now
    before = _status("VmRSS")
    call()
    return (_status("VmHWM") - before) / 1024


def _status(name: str) -> int:
    """A line of the process' status, in KiB."""
    lines = (PROC / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
