"""Threads for kernels that have released the GIL: a small pool, made anew in a forked child.

Numba's own parallel layers abort when two Python threads call at once, or kill a forked data loader; this pool is safe
in both. It uses as many threads as it is told, or as ``torch.set_num_threads`` allows where PyTorch is loaded; the
caller's is among them. Who needs no tensor does not wait for PyTorch.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any


class _Pool:
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.lock = threading.Lock()
        self.executor: ThreadPoolExecutor | None = None

    def get(self) -> ThreadPoolExecutor:
        with self.lock:
            if self.executor is None:
                self.executor = ThreadPoolExecutor(max(1, (os.cpu_count() or 1)), thread_name_prefix="regard")
            return self.executor


_pool = _Pool()


def _after_fork() -> None:
    """The parent's threads are not in the child, and its lock may have been held."""
    _pool.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def threads_of(asked: int | None = None) -> int:
    """``asked``, or else as many as PyTorch would use, or else as this process may run on."""
    if asked is not None:
        return asked
    torch = sys.modules.get("torch")
    if torch is not None:
        return int(torch.get_num_threads())
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def share(
    kernel: Callable[..., None], chunks: Iterable[tuple[int, int]], *args: Any, threads: int | None = None
) -> None:
    """Calls ``kernel(*args, first, last)`` for every chunk of tasks, chunks being taken as threads come free."""
    waiting = deque(chunks)
    limit = _limit_of_products()

    def work() -> None:
        before = limit(1) if limit else 0  # a product inside a worker must not start threads of its own
        try:
            while True:
                try:
                    first, last = waiting.popleft()
                except IndexError:
                    return
                kernel(*args, first, last)
        finally:
            if limit:
                limit(before)

    helpers = min(threads_of(threads), len(waiting)) - 1
    futures = [_pool.get().submit(work) for _ in range(helpers)]
    try:
        work()
    finally:
        waiting.clear()  # after an interrupt nothing new is begun
        wait(futures)
    for future in futures:
        future.result()


def _limit_of_products() -> Callable[[int], int] | None:
    """Sets how many threads a matrix product may start; None where PyTorch, which brings it, is not loaded."""
    if "torch" not in sys.modules:
        return None
    from regard.kernels.blas import thread_setter

    return thread_setter()


def cut(tasks: int, weight: float) -> list[tuple[int, int]]:
    """``tasks`` in runs: many for each thread, so that none waits long for the others at the end.

    A run is no less than what waking a thread costs; ``weight`` is the whole work in multiply-additions.
    """
    threads = threads_of()
    runs = min(tasks, 16 * threads, int(weight / 1e6))
    if threads == 1 or runs < 2:
        return [(0, tasks)]
    edges = [tasks * run // runs for run in range(runs + 1)]
    return list(itertools.pairwise(edges))


def splits_of(units: int, blocks: int) -> int:
    """Into how many parts the queries of a unit go, each with sums of its own, so that every thread has work."""
    threads = threads_of()
    return 1 if units % threads == 0 or units >= 4 * threads else min(threads, max(1, blocks))
