"""How a scan is run: in parallel by an operation that is associative, by a kernel that keeps little, by steps."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import regard
from regard.memory import StateSpaceMemory
from regard.memory.space import Discretization, ZeroOrderHold
from regard.memory.space.scan import associative, combine


def inputs(L: int, E: int = 3) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    q, k = torch.randn(2, 2, 1, L, 5, dtype=torch.float64)
    v = torch.randn(2, 1, L, E, dtype=torch.float64)
    return q, k, v, torch.rand(2, 1, L, E, dtype=torch.float64)


def test_steps_combine_in_any_grouping_but_not_in_any_order() -> None:
    one, two, three = ((torch.randn(7).double(), torch.randn(7).double()) for _ in range(3))
    left, right = combine(combine(one, two), three), combine(one, combine(two, three))
    for a, b in zip(left, right, strict=True):
        torch.testing.assert_close(a, b, atol=1e-14, rtol=1e-14)
    assert not torch.allclose(combine(one, two)[1], combine(two, one)[1])
    h = torch.randn(7).double()
    torch.testing.assert_close(left[0] * h + left[1], three[0] * (two[0] * (one[0] * h + one[1]) + two[1]) + three[1])


@pytest.mark.parametrize("L", [1, 2, 3, 8, 13, 64, 97])
def test_in_parallel_it_is_the_recurrence(L: int) -> None:
    a, b = torch.rand(L, 5, 2).double(), torch.randn(L, 5, 2).double()
    a[L // 2] = 0.0  # nothing comes through, and nothing is divided by it
    h, found = torch.zeros(5, 2).double(), []
    for t in range(L):
        h = a[t] * h + b[t]
        found.append(h)
    torch.testing.assert_close(associative(a, b)[1], torch.stack(found), atol=1e-13, rtol=1e-13)
    torch.testing.assert_close(associative(a, b)[0], a.cumprod(0), atol=1e-13, rtol=1e-13)


def test_a_long_scan_is_the_recurrence_in_single_precision() -> None:
    q, k, v, delta = (x.float() for x in inputs(4096, 16))
    delta = delta * 0.1
    found = [
        StateSpaceMemory(1, 5, 16, scan=scan).step(StateSpaceMemory(1, 5, 16).reset(2), q, k, v, delta=delta)[0].output
        for scan in ("kernel", "associative", "sequential")
    ]
    for each in found[:2]:
        assert (each - found[2]).abs().max() < 1e-5 * found[2].abs().max()


def test_backward_keeps_no_states_of_every_step() -> None:
    L, E, N = 640, 96, 16
    q, k = torch.randn(2, 1, 1, L, N)
    v, delta = torch.randn(1, 1, L, E).requires_grad_(), torch.rand(1, 1, L, E).requires_grad_()
    kept: dict[int, int] = {}

    def pack(x: Tensor) -> Tensor:
        kept[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes() // 4
        return x

    memory = StateSpaceMemory(1, N, E)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        reading, _ = memory.step(memory.reset(), q, k, v, delta=delta)
    assert sum(kept.values()) < 3.5 * L * E < L * E * N / 4
    reading.output.sum().backward()


@pytest.mark.parametrize("discretization", [StateSpaceMemory(1, 1).discretization, ZeroOrderHold()], ids=str)
def test_the_same_bits_on_any_number_of_threads(discretization: Discretization) -> None:
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        torch.manual_seed(3)
        q, k, v, delta = (x.requires_grad_() for x in inputs(300, 300))
        memory = StateSpaceMemory(1, 5, 300, discretization=discretization, scan="kernel")
        reading, state = memory.step(memory.reset(2), q, k, v, delta=delta)
        reading.output.square().sum().backward()
        found.append([reading.output, state.h, *(x.grad for x in (q, k, v, delta))])
    for one, other in zip(*found, strict=True):
        assert one is not None
        assert other is not None
        assert torch.equal(one, other)


@dataclass(frozen=True)
class Bilinear(Discretization):
    """S4's: Ā = (1 + ΔA/2)/(1 − ΔA/2), w = Δ/(1 − ΔA/2)."""

    def __call__(self, delta: Tensor, A: Tensor) -> tuple[Tensor, Tensor]:
        under = 1 - delta * A / 2
        return (1 + delta * A / 2) / under, delta / under


def test_a_discretisation_of_ones_own() -> None:
    q, k, v, delta = inputs(23)
    delta = delta * 1e-3
    memory = StateSpaceMemory(1, 5, 3, discretization=Bilinear())
    reading, _ = memory.step(memory.reset(2), q, k, v, delta=delta)
    assert reading.engine == "state space, associative scan"
    exact = StateSpaceMemory(1, 5, 3, discretization=ZeroOrderHold())
    torch.testing.assert_close(
        reading.output, exact.step(exact.reset(2), q, k, v, delta=delta)[0].output, rtol=1e-4, atol=1e-9
    )
    with pytest.raises(regard.RegardError, match=r'"kernel" knows Euler\(\) and ZeroOrderHold\(\), found Bilinear'):
        StateSpaceMemory(1, 5, 3, discretization=Bilinear(), scan="kernel").step(memory.reset(2), q, k, v, delta=delta)


def test_second_derivatives_are_had_where_they_are_and_refused_where_not() -> None:
    q, k, v, delta = inputs(5)
    x = v.requires_grad_()
    for scan in ("associative", "kernel"):
        memory = StateSpaceMemory(1, 5, 3, scan=scan)
        y = memory.step(memory.reset(2), q, k, x, delta=delta + x**2)[0].output
        (first,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        if scan == "associative":
            (second,) = torch.autograd.grad(first.sum(), x)
            assert bool(second.isfinite().all())
        else:
            with pytest.raises(regard.RegardError, match='"kernel" has no second derivative; scan="associative"'):
                torch.autograd.grad(first.sum(), x)


def test_the_operator_is_known_to_pytorch() -> None:
    from regard.memory.space import ops

    q, k, v, delta = (x.requires_grad_() for x in inputs(5))
    A, h = -torch.rand(1, 3, 5).double(), torch.randn(2, 1, 3, 5).double()
    given = (q, k, v, delta, A.requires_grad_(), h.requires_grad_(), 2, True)
    torch.library.opcheck(ops.selective_scan, given)


def test_it_compiles_whole() -> None:
    memory = StateSpaceMemory(1, 5, 3)
    q, k, v, delta = inputs(5)
    state = memory.reset(2, dtype=torch.float64)

    @torch.compile(backend="aot_eager", fullgraph=True)
    def run(q: Tensor, k: Tensor, v: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
        reading, after = memory.step(state, q, k, v, delta=delta)
        return reading.output, after.h

    found = run(q, k, v.requires_grad_(), delta)
    reading, after = memory.step(state, q, k, v, delta=delta)
    torch.testing.assert_close(found, (reading.output, after.h))


def test_the_kernel_is_loaded_when_it_is_needed() -> None:
    script = "import sys, regard.memory; regard.memory.StateSpaceMemory(1, 2).reset(); print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
