"""PyTorch's own threads at our work: every task is done once, whoever does it, and a forked child makes do without."""

from __future__ import annotations

import ctypes
import multiprocessing
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from regard.kernels import team
from regard.kernels.compile import entry
from regard.memory.cache.few import few
from regard.memory.cache.lanes import put, taken

TASKS = 41


def mark(job):
    while True:
        task = taken(job, 0)
        if task >= TASKS:
            return
        put(job, 1 + task, task)


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("alone", [False, True])
def test_every_task_is_done(count: int, alone: bool, threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """In PyTorch's threads, or where those are not to be had, in ours."""
    if alone:
        monkeypatch.setattr(team, "_starter", lambda: None)
    torch.set_num_threads(count)
    job = (ctypes.c_int64 * (TASKS + 1))(*[0] + [-1] * TASKS)
    made = entry(mark)
    team.together(made.address, ctypes.addressof(job), TASKS)
    assert list(job)[1:] == list(range(TASKS))
    assert job[0] <= TASKS + count


@pytest.mark.skipif(
    sys.platform != "linux" or not torch.backends.openmp.is_available(), reason="elsewhere OpenMP has another call"
)
def test_pytorchs_openmp_is_found() -> None:
    assert team._starter() is not None


def _child(out: Any) -> None:
    torch.set_num_threads(2)
    out.put(_read())


def _read() -> list[float]:
    generator = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(1, 3, n, 16, generator=generator) for n in (1, 50, 50))
    output, _, sound = few(q, (k,), (v,), 0.25)
    assert sound
    return [round(x, 4) for x in output.flatten().tolist()]


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_threads_that_it_has_not(threads: None) -> None:
    torch.set_num_threads(2)
    found = _read()
    context = multiprocessing.get_context("fork")
    out = context.SimpleQueue()
    child = context.Process(target=_child, args=(out,))
    child.start()
    child.join(60)
    alive = child.is_alive()
    if alive:
        child.kill()
    assert not alive
    assert out.get() == found
