"""How many threads PyTorch may use while something is measured or learnt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["one_thread"]


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch with one thread, then with as many as before.

    Steps of small tensors are no faster on more threads, give the same bits every time on one, and a peer has one.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
