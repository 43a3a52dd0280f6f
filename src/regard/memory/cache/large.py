"""Large pages of memory for what is read from end to end at every step."""

from __future__ import annotations

import ctypes
import functools
import mmap
from collections.abc import Callable
from typing import Any

from torch import Tensor

LEAST = 1 << 22  # bytes: below that a pages' table is small and memory may be the allocator's own


def in_large_pages(x: Tensor) -> None:
    """Asks the system to put a new tensor's memory in large pages; call it before anything is written.

    A core looks up where each page lies and reads ahead within one only, so that pages of 2 MiB are read sooner than
    those of 4 KiB. It is a wish: where it is not granted, or not known, nothing changes.
    """
    size = x.numel() * x.element_size()
    if x.device.type != "cpu" or size < LEAST:
        return
    advise = _advise()
    if advise is not None:
        first = -(-x.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        advise(first, (x.data_ptr() + size - first) // mmap.PAGESIZE * mmap.PAGESIZE, mmap.MADV_HUGEPAGE)


@functools.cache
def _advise() -> Callable[[int, int, int], Any] | None:
    """The C library's ``madvise``; None where it, or the wish, is not known."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    advise = getattr(ctypes.CDLL(None), "madvise", None)
    if advise is not None:
        advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return advise
