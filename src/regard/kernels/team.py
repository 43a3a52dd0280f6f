"""PyTorch's own threads at work on a kernel of ours.

After each of its kernels PyTorch's OpenMP threads wait in a spin, for milliseconds, and hold their cores. Threads of
ours beside them wait for those cores; work that is handed to them begins at once.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from typing import Any

from regard.kernels.blas import libraries
from regard.kernels.workers import share, threads_of

_Function = ctypes.CFUNCTYPE(None, ctypes.c_int64)
_forked = False  # the parent's threads are not in the child, and OpenMP would wait for them


def _after_fork() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@functools.cache
def _starter() -> Callable[..., Any] | None:
    """OpenMP's call that runs a function in every thread of a team; None where PyTorch's OpenMP does not show it."""
    for library in libraries():
        if hasattr(library, "GOMP_parallel"):
            start = library.GOMP_parallel
            start.argtypes = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint, ctypes.c_uint)
            start.restype = None
            return start
    return None


def together(address: int, job: int, most: int) -> None:
    """Calls the function at ``address`` with ``job`` in up to ``most`` threads, in as many as PyTorch would use.

    The function takes its part of the job by itself, and returns when nothing is left: it may run in one thread alone.
    """
    threads = min(threads_of(), most)
    start = None if threads == 1 or _forked else _starter()
    if start is not None:
        start(address, job, threads, 0)
        return
    call = _Function(address)
    if threads == 1:
        call(job)
    else:
        share(lambda first, last: call(job), [(n, n + 1) for n in range(threads)])
