"""Threads, forks, and errors within a kernel."""

from __future__ import annotations

import multiprocessing
import threading
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.kernels import workers
from tests.engines.tiled.given import inputs


def test_any_number_of_threads_gives_the_same_read() -> None:
    q, k, v = (x.detach() for x in inputs(700, 700, torch.float32))
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(regard.attend(q, k, v, engine="tiled"))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_python_threads_may_call_at_once() -> None:
    q, k, v = inputs(300, 300, torch.float32)
    wanted = regard.attend(q, k, v, engine="tiled")
    found: list[Tensor] = []

    def call() -> None:
        for _ in range(5):
            out = regard.attend(q, k, v, engine="tiled")
            torch.autograd.grad(out.sum(), q)
            found.append(out.detach())

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 20
    assert all(torch.equal(x, wanted) for x in found)


def _in_child(given: list[Tensor], answer: Any) -> None:
    torch.set_num_threads(1)  # as every data loader's worker does: torch's own threads do not survive a fork
    out = regard.attend(*given, engine="tiled").sum().item()
    torch.get_num_threads = lambda: 3
    taken: list[int] = []
    workers.share(lambda first, last: taken.append(first), [(n, n + 1) for n in range(9)])
    answer.put((out, sorted(taken)))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_makes_threads_of_its_own() -> None:
    given = [x.detach() for x in inputs(700, 700, torch.float32)]
    wanted = regard.attend(*given, engine="tiled").sum().item()  # the parent's threads are running
    context = multiprocessing.get_context("fork")
    answer = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(given, answer))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    found, taken = answer.get()
    assert found == pytest.approx(wanted, rel=1e-5)
    assert taken == list(range(9))


def test_an_error_in_a_kernel_reaches_the_caller() -> None:
    def broken(first: int, last: int) -> None:
        raise ValueError(f"{first}-{last}")

    with pytest.raises(ValueError, match="-"):
        workers.share(broken, [(0, 1), (1, 2), (2, 3)])
