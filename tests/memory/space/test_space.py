"""The selective state space is what its equations say: in plain loops, as an ODE, as a matrix, as a gate."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

import regard
from regard.memory import StateSpaceMemory
from regard.memory.space import Discretization, Euler, SpaceState, ZeroOrderHold

B, G, L, N, E = 2, 3, 37, 5, 7
SCANS = ["kernel", "associative", "sequential"]
BOTH = [Euler(), ZeroOrderHold()]


def close(found: Tensor, wanted: Tensor, *, atol: float = 1e-10, rtol: float = 1e-10) -> None:
    torch.testing.assert_close(found, wanted, atol=atol, rtol=rtol)


def given_pairs(L: int = L, E: int = E, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """C, B, x and Δ; Δ from 1e-4 to 10."""
    q, k = torch.randn(2, B, G, L, N, dtype=dtype)
    delta = torch.empty(B, G, L, E, dtype=dtype).uniform_(math.log(1e-4), math.log(10)).exp()
    return q, k, torch.randn(B, G, L, E, dtype=dtype), delta


def diagonal(E: int = E, dtype: torch.dtype = torch.float64) -> Tensor:
    return -torch.empty(G, E, N, dtype=dtype).uniform_(0.01, 4.0)


def by_the_paper(
    q: Tensor, k: Tensor, v: Tensor, delta: Tensor, A: Tensor, hold: bool, h: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Gu & Dao 2023: h_t = Ā h_{t−1} + B̄ x_t (2a), y_t = C h_t (2b), Ā and B̄ by (4), in plain loops."""
    y = torch.zeros_like(v)
    h = torch.zeros(*v.shape[:2], *A.shape[1:], dtype=v.dtype) if h is None else h.clone()
    for b in range(v.shape[0]):
        for g in range(v.shape[1]):
            for t in range(v.shape[2]):
                for e in range(v.shape[3]):
                    for n in range(A.shape[2]):
                        D, a = delta[b, g, t, e].item(), A[g, e, n].item()
                        w = (math.exp(D * a) - 1) / (D * a) * D if hold else D
                        h[b, g, e, n] = math.exp(D * a) * h[b, g, e, n] + w * k[b, g, t, n] * v[b, g, t, e]
                        y[b, g, t, e] += q[b, g, t, n] * h[b, g, e, n]
    return y, h


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("discretization", BOTH, ids=str)
def test_it_is_what_the_paper_says(scan: str, discretization: Discretization) -> None:
    q, k, v, delta = given_pairs(L=11)
    A, start = diagonal(), torch.randn(B, G, E, N, dtype=torch.float64)
    memory = StateSpaceMemory(G, N, E, A=A, discretization=discretization, scan=scan)
    reading, state = memory.step(SpaceState(start, torch.tensor([4, 4])), q, k, v, delta=delta)
    y, h = by_the_paper(q, k, v, delta, A, isinstance(discretization, ZeroOrderHold), start)
    close(reading.output, y)
    close(state.h, h)
    assert reading.engine == f"state space, {scan} scan"
    assert torch.equal(reading.seen[0, 0], torch.arange(5, 16))
    assert state.seen.tolist() == [15, 15]
    # Written and then read is the last of it, read by itself.
    written = memory.write(SpaceState(start, torch.tensor([4, 4])), k, v, delta=delta)
    close(memory.read(written, q[:, :, -1:]).output, y[:, :, -1:])


def test_zero_order_hold_solves_the_differential_equation() -> None:
    """h′ = A h + B x with x standing still for each Δ, by 400 steps of Runge and Kutta."""
    _, k, v, delta = given_pairs(L=5)
    delta, A = delta.clamp(max=2.0), diagonal()
    h = torch.zeros(B, G, E, N, dtype=torch.float64)
    for t in range(5):
        drive = k[:, :, t].unsqueeze(-2) * v[:, :, t].unsqueeze(-1)
        small = delta[:, :, t].unsqueeze(-1) / 400
        for _ in range(400):
            one = A * h + drive
            two = A * (h + small / 2 * one) + drive
            three = A * (h + small / 2 * two) + drive
            h = h + small / 6 * (one + 2 * two + 2 * three + A * (h + small * three) + drive)
    memory = StateSpaceMemory(G, N, E, A=A, discretization=ZeroOrderHold())
    close(memory.write(memory.reset(B), k, v, delta=delta).h, h, atol=1e-9, rtol=1e-9)
    euler = StateSpaceMemory(G, N, E, A=A).write(memory.reset(B), k, v, delta=delta).h
    assert (euler - h).norm() > 0.2 * h.norm()  # the two are not the same system


def test_with_one_state_it_is_the_gate_of_an_rnn() -> None:
    """Theorem 1: N = 1, A = −1, B = 1, Δ = softplus(z): h_t = (1 − σ(z)) h_{t−1} + σ(z) x_t."""
    z, x = torch.randn(2, 1, 1, 13, 1, dtype=torch.float64) * 4
    one = torch.ones(1, 1, 13, 1, dtype=torch.float64)
    memory = StateSpaceMemory(1, 1, A=-one[:, 0, :1], discretization=ZeroOrderHold())
    reading, _ = memory.step(memory.reset(), one, one, x, delta=F.softplus(z))
    h, found = torch.zeros(1, dtype=torch.float64), []
    for t in range(13):
        gate = z[0, 0, t].sigmoid()
        h = (1 - gate) * h + gate * x[0, 0, t]
        found.append(h)
    close(reading.output[0, 0], torch.stack(found), atol=1e-14, rtol=1e-13)


@pytest.mark.parametrize("discretization", BOTH, ids=str)
def test_its_matrix_is_no_matrix_of_weights(discretization: Discretization) -> None:
    q, k, v, delta = given_pairs()
    memory = StateSpaceMemory(G, N, E, A=diagonal(), discretization=discretization)
    matrix = memory.matrix(q, k, delta)
    reading, _ = memory.step(memory.reset(B), q, k, v, delta=delta)
    close((matrix @ v.mT.unsqueeze(-1)).squeeze(-1).mT, reading.output)
    below = torch.ones(L, L).tril().bool()
    assert matrix[..., ~below].abs().max() == 0
    share = (matrix[..., below] < 0).double().mean()
    assert 0.4 < share < 0.6
    assert (matrix.sum(-1) - 1).abs().median() > 0.2
    assert reading.entropy is None
    assert bool(reading.lse.isnan().all())
    with pytest.raises(regard.RegardError, match="may be negative and does not sum to 1"):
        regard.Reading.merge(reading, reading)


@pytest.mark.parametrize("discretization", BOTH, ids=str)
def test_gradients(discretization: Discretization) -> None:
    """By finite differences, over states that backward makes again (it keeps one in 32)."""
    L, E = 35, 2
    q, k = torch.randn(2, 1, 1, L, 2, dtype=torch.float64)
    v = torch.randn(1, 1, L, E, dtype=torch.float64)
    delta = torch.empty(1, 1, L, E, dtype=torch.float64).uniform_(math.log(1e-2), math.log(4)).exp()
    A, h = torch.tensor([[[-0.05, -2.0], [-1.0, -0.3]]], dtype=torch.float64), torch.randn(1, 1, E, 2).double()

    def run(q: Tensor, k: Tensor, v: Tensor, delta: Tensor, A: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        memory = StateSpaceMemory(1, 2, A=A, discretization=discretization, scan="kernel")
        reading, state = memory.step(SpaceState(h, torch.zeros(1)), q, k, v, delta=delta)
        return reading.output, state.h

    inputs = tuple(x.requires_grad_() for x in (q, k, v, delta, A, h))
    assert torch.autograd.gradcheck(run, inputs)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("discretization", BOTH, ids=str)
def test_gradients_over_many_runs_of_channels(discretization: Discretization, dtype: torch.dtype) -> None:
    """The kernel's against those of the recurrence, which are PyTorch's own; channels make three tasks and a rest."""
    E = 2 * 256 + 13
    inputs = *given_pairs(L=67, E=E, dtype=dtype), diagonal(E, dtype), torch.randn(B, G, E, N, dtype=dtype)
    away = torch.randn(B, G, 67, E, dtype=dtype)
    found = []
    for scan in ("kernel", "sequential"):
        q, k, v, delta, A, h = (x.clone().requires_grad_() for x in inputs)
        memory = StateSpaceMemory(G, N, E, A=A, discretization=discretization, scan=scan)
        reading, state = memory.step(SpaceState(h, torch.zeros(B)), q, k, v, delta=delta)
        ((reading.output * away).sum() + (state.h**2).sum()).backward()
        found.append([reading.output.detach(), state.h.detach(), *(x.grad for x in (q, k, v, delta, A, h))])
    near = 1e-10 if dtype == torch.float64 else 1e-5
    for ours, theirs in zip(*found, strict=True):
        assert ours is not None
        assert theirs is not None
        assert (ours - theirs).abs().max() < near * theirs.abs().max()


@pytest.mark.parametrize("scan", SCANS)
def test_the_future_is_not_seen(scan: str) -> None:
    q, k, v, delta = given_pairs()
    memory = StateSpaceMemory(G, N, E, A=diagonal(), scan=scan)
    before, _ = memory.step(memory.reset(B), q, k, v, delta=delta)
    for x in (q, k, v, delta):
        x[:, :, 20:] += 1.0
    after, _ = memory.step(memory.reset(B), q, k, v, delta=delta)
    assert torch.equal(before.output[:, :, :20], after.output[:, :, :20])
    assert not torch.isclose(before.output[:, :, 20:], after.output[:, :, 20:]).any(-1).all()


@given(cuts=st.lists(st.integers(0, L), max_size=4), padding=st.tuples(st.integers(0, L), st.integers(0, L)))
@settings(max_examples=25)
def test_any_split_into_chunks_is_the_same(cuts: list[int], padding: tuple[int, int]) -> None:
    q, k, v, delta = given_pairs()
    valid = torch.arange(L) >= torch.tensor(padding)[:, None]
    memory = StateSpaceMemory(G, N, E, A=diagonal(), discretization=ZeroOrderHold())
    whole, last = memory.step(memory.reset(B), q, k, v, delta=delta, valid=valid)
    state, edges, found = memory.reset(B, dtype=torch.float64), [0, *sorted(cuts), L], []
    for a, e in itertools.pairwise(edges):
        part = slice(a, e)
        reading, state = memory.step(
            state, q[:, :, part], k[:, :, part], v[:, :, part], delta=delta[:, :, part], valid=valid[:, part]
        )
        found.append(reading)
    close(torch.cat([r.output for r in found], 2), whole.output)
    close(state.h, last.h)
    assert torch.equal(torch.cat([r.seen for r in found], 2), whole.seen)
    assert torch.equal(state.seen, last.seen)


def test_one_step_after_the_other_is_the_default_step() -> None:
    """What ``PairMemory.step`` does, which knows no Δ: it is 1 then."""
    q, k, v, _ = given_pairs()
    valid = torch.rand(B, L) < 0.6
    memory = StateSpaceMemory(G, N, E, A=diagonal())
    ours, state = memory.step(memory.reset(B), q, k, v, valid=valid)
    theirs, after = super(StateSpaceMemory, memory).step(memory.reset(B), q, k, v, valid=valid)
    close(ours.output, theirs.output)
    close(state.h, after.h)
    assert torch.equal(ours.seen, theirs.seen)


def test_what_is_not_valid_leaves_the_state_alone() -> None:
    q, k, v, delta = given_pairs()
    valid = torch.rand(B, L) < 0.6
    valid[:, 0] = False
    hole = ~valid[:, None, :, None]
    q, k, v, delta = (x.masked_fill(hole, math.nan).requires_grad_() for x in (q, k, v, delta))
    memory = StateSpaceMemory(G, N, E, A=diagonal())
    reading, state = memory.step(memory.reset(B), q, k, v, delta=delta, valid=valid)
    for b in range(B):
        at = valid[b]
        alone, there = memory.step(
            memory.reset(1), *(x[b : b + 1, :, at] for x in (q, k, v)), delta=delta[b : b + 1, :, at]
        )
        close(reading.output[b, :, at], alone.output[0])
        close(state.h[b], there.h[0])
        assert torch.equal(reading.seen[b, :, at], alone.seen[0])
    assert reading.output[:, :, ~valid[0]][0].abs().max() == 0
    (reading.output.sum() + state.h.sum()).backward()
    for x in (q, k, v, delta):
        assert x.grad is not None
        assert bool(x.grad.isfinite().all())
        assert x.grad.masked_fill(~hole, 0).abs().max() == 0


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("discretization", BOTH, ids=str)
def test_the_ends_of_time(discretization: Discretization, dtype: torch.dtype, scan: str) -> None:
    """Δ = 0: nothing happens. Δ without measure: all is forgotten, and a hold arrives where B x/−A stands."""
    q, k, v, _ = given_pairs(L=3, dtype=dtype)
    A = diagonal(dtype=dtype).requires_grad_()
    memory = StateSpaceMemory(G, N, E, A=A, discretization=discretization, scan=scan)
    start = SpaceState(torch.randn(B, G, E, N, dtype=dtype), torch.zeros(B))
    still = memory.write(start, k, v, delta=torch.zeros_like(v))
    assert torch.equal(still.h, start.h)
    for large in (1e4, 1e12, 1e30):
        delta = torch.full_like(v, large).requires_grad_()
        reading, state = memory.step(start, q, k, v, delta=delta)
        reading.output.sum().backward()
        assert bool(reading.output.isfinite().all())
        assert bool(state.h.isfinite().all())
        assert delta.grad is not None
        assert bool(delta.grad.isfinite().all())
        drive = k[:, :, -1].unsqueeze(-2) * v[:, :, -1].unsqueeze(-1)
        wanted = -drive / A.detach() if isinstance(discretization, ZeroOrderHold) else drive * large
        close(state.h.detach(), wanted, rtol=1e-5, atol=1e-5)
    # A hold's B̄ keeps its digits where ΔA is tiny: 1 − e^{−1e−6} by itself would lose half of them.
    tiny = memory.write(memory.reset(B), k[:, :, :1], v[:, :, :1], delta=torch.full_like(v[:, :, :1], 1e-6))
    drive = k[:, :, 0].unsqueeze(-2) * v[:, :, 0].unsqueeze(-1)
    close(tiny.h.detach(), 1e-6 * drive, rtol=5e-6, atol=0)


def test_its_size_knows_no_length() -> None:
    memory = StateSpaceMemory(G, N, E)
    state, sizes = memory.reset(B), []
    for length in (0, 1, 1000):
        q, k, v, delta = given_pairs(L=length, dtype=torch.float32)
        reading, after = memory.step(state, q, k, v, delta=delta)
        assert reading.output.shape == (B, G, length, E)
        sizes.append(memory.nbytes(after))
    assert sizes == [B * G * E * N * 4 + B * 8] * 3
    assert memory.cost(10) == memory.cost(10**6)
    assert memory.cost(1).flops == 8 * G * E * N


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_and_kept_in_single(dtype: torch.dtype) -> None:
    q, k, v, delta = (x.to(dtype) for x in given_pairs(L=500))
    memory = StateSpaceMemory(G, N, E, A=diagonal().to(dtype))
    state = memory.reset(B, dtype=dtype)
    assert state.h.dtype == torch.float32
    reading, state = memory.step(state, q, k, v, delta=delta)
    wide = StateSpaceMemory(G, N, E, A=memory.A.float())
    exact, after = wide.step(wide.reset(B), q.float(), k.float(), v.float(), delta=delta.float())
    assert reading.output.dtype == dtype
    assert torch.equal(reading.output, exact.output.to(dtype))  # one rounding, at the end
    assert state.h.dtype == torch.float32
    assert torch.equal(state.h, after.h)
    assert memory.read(state, q[:, :, -1:]).output.dtype == dtype


def test_groups_of_queries() -> None:
    _, k, v, delta = given_pairs()
    q = torch.randn(B, 2 * G, L, N, dtype=torch.float64)
    memory = StateSpaceMemory(G, N, E, A=diagonal())
    reading, state = memory.step(memory.reset(B), q, k, v, delta=delta)
    for r in range(2):
        one, after = memory.step(memory.reset(B), q[:, r::2], k, v, delta=delta)
        close(reading.output[:, r::2], one.output)
        assert torch.equal(state.h, after.h)
    close(memory.read(state, q[:, :, -1:]).output, reading.output[:, :, -1:])


def test_rows_are_reordered() -> None:
    q, k, v, delta = given_pairs()
    memory = StateSpaceMemory(G, N, E, A=diagonal())
    state = memory.write(memory.reset(B), k, v, delta=delta)
    index = torch.tensor([1, 1, 0])
    moved = memory.reorder(state, index)
    assert torch.equal(moved.h, state.h[index])
    # A product's last bits may depend on where its rows begin, and rows of 5 begin anywhere.
    found, wanted = memory.read(moved, q[index]).output, memory.read(state, q).output[index]
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def test_what_does_not_fit_is_refused() -> None:
    q, k, v, delta = given_pairs()
    memory = StateSpaceMemory(G, N, E)
    state = memory.reset(B)
    with pytest.raises(regard.RegardError, match=r"delta is .*one Δ a channel and step"):
        memory.step(state, q, k, v, delta=delta[..., :1])
    with pytest.raises(regard.RegardError, match="delta has -1, wanted all ≥ 0"):
        memory.write(state, k, v, delta=-torch.ones_like(delta))
    with pytest.raises(regard.RegardError, match="k is"):
        memory.write(state, k[..., :2], v, delta=delta)
    with pytest.raises(regard.RegardError, match="the state is"):
        memory.write(StateSpaceMemory(G, N + 1, E).reset(B), k, v, delta=delta)
    with pytest.raises(regard.RegardError, match="A has numbers that are not below 0"):
        StateSpaceMemory(G, N, E, A=-diagonal())
    with pytest.raises(regard.RegardError, match=r"A is \(3, 5, 7\)"):
        StateSpaceMemory(G, N, E, A=diagonal().mT)
    with pytest.raises(regard.RegardError, match="scan: unknown name 'kernels'; did you mean 'kernel'"):
        StateSpaceMemory(G, N, E, scan="kernels")
    with pytest.raises(regard.RegardError, match="wanted an object such as Euler"):
        StateSpaceMemory(G, N, E, discretization="euler")  # type: ignore[arg-type]
    with pytest.raises(regard.RegardError, match="wanted each ≥ 1"):
        StateSpaceMemory(0, N)
