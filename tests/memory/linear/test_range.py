"""Linear attention in numbers of a limited range: what is lost, what never is, and the gradients of long inputs."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import regard
from regard.memory import LinearMemory, SquaredReLU
from regard.memory.linear import sums, walking
from regard.memory.linear.sums import FeatureMemory
from tests.memory.linear.given import B, D, E, G, H, L, every, qkv, stepped

pytestmark = pytest.mark.usefixtures("short")


@every
def test_what_comes_later_changes_nothing_not_even_the_rounding(memory: FeatureMemory) -> None:
    q, k, v = (x.float() for x in qkv())
    at = 13
    later_k, later_v = k.clone(), v.clone()
    later_k[:, :, at:] = 3 * later_k[:, :, at:].flip(2)
    later_v[:, :, at:] += 5
    before, after = (memory.step(memory.reset(B), q, *kv)[0] for kv in ((k, v), (later_k, later_v)))
    assert torch.equal(before.output[:, :, :at], after.output[:, :, :at])
    assert torch.equal(before.lse[:, :, :at], after.lse[:, :, :at])
    assert not torch.equal(before.output[:, :, at:], after.output[:, :, at:])


@every
@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0, 1e3])
def test_no_denominator_is_lost_to_rounding(memory: FeatureMemory, size: float) -> None:
    """Keys that grow by e^{hundreds} within a chunk, queries that point away from all: float64 in logarithms."""
    growing = torch.linspace(0.01, 1, L, dtype=torch.float64)[:, None] * size
    q, k, v = qkv()
    q, k = -q.abs() * size, k * growing
    b, a = memory.map.log(q), memory.map.log(k).repeat_interleave(H // G, 1)
    s = torch.logsumexp(b.unsqueeze(3) + a.unsqueeze(2), -1)  # (B, H, L, L)
    s = s.masked_fill(~torch.ones(L, L).tril().bool(), -math.inf)
    wanted = s.softmax(-1) @ v.repeat_interleave(H // G, 1)
    reading, _ = memory.step(memory.reset(B), q, k, v)
    torch.testing.assert_close(reading.output, wanted, rtol=0, atol=1e-9)
    torch.testing.assert_close(reading.lse, s.logsumexp(-1), rtol=1e-12, atol=1e-9)
    single, _ = memory.step(memory.reset(B), q.float(), k.float(), v.float())
    assert bool(single.output.isfinite().all())
    assert bool((single.output.double() <= v.amax() + 1e-5).all())
    if size <= 1:
        torch.testing.assert_close(single.output.double(), wanted, rtol=0, atol=1e-4)


@every
def test_the_kernel_does_what_it_can_and_says_what_it_cannot(
    monkeypatch: pytest.MonkeyPatch, memory: FeatureMemory
) -> None:
    said = []

    def listened(*given: Any) -> Any:
        said.append(walking.walked(*given))
        return said[-1]

    monkeypatch.setattr(sums, "walked", listened)
    q, k, v = qkv()
    memory.step(memory.reset(B), q, k, v)
    if walking.LEAST == 1:
        assert said
        assert not any(found is None for found in said)
        said.clear()
    rising = 1e4 * k.abs() * torch.linspace(-1, -1e-4, L, dtype=torch.float64)[:, None]
    memory.step(memory.reset(B), q, rising, v)
    if walking.LEAST == 1:
        assert (said[0] is None) != isinstance(memory.map, SquaredReLU)  # which is flat down there
    else:
        assert not said


@every
def test_half_precision_is_summed_in_single(memory: FeatureMemory) -> None:
    q, k, v = qkv(length=300)
    for kind in (torch.bfloat16, torch.float16):
        given = [x.to(kind) for x in (q, k, v)]
        reading, state = memory.step(memory.reset(B, dtype=kind), *given)
        assert (reading.output.dtype, reading.lse.dtype) == (kind, torch.float32)
        assert {x.dtype for x in state[:3]} == {torch.float32}
        exact = stepped(memory, *(x.double() for x in given))
        torch.testing.assert_close(reading.output.double(), exact.output, rtol=torch.finfo(kind).eps, atol=1e-4)
        with torch.autocast("cpu", torch.bfloat16):
            inside = memory.step(memory.reset(B), *given)[0]
        assert torch.equal(inside.lse, reading.lse)


def test_squared_relu_without_a_floor_raises_rather_than_divide_zero_by_zero() -> None:
    memory = LinearMemory(1, 2, features=SquaredReLU())
    k = torch.tensor([[1.0, -1.0], [2.0, -3.0]])[None, None]
    state = memory.write(memory.reset(), k, k)
    there, nowhere = torch.tensor([1.0, 1.0]), torch.tensor([-1.0, 1.0])
    torch.testing.assert_close(
        memory.read(state, there.view(1, 1, 1, 2)).output[0, 0, 0], (k[0, 0, 0] + 4 * k[0, 0, 1]) / 5
    )
    with pytest.raises(regard.RegardError, match="1 queries share no feature with any key"):
        memory.read(state, torch.stack([there, nowhere]).view(1, 1, 2, 2))
    with pytest.raises(regard.RegardError, match="share no feature"):
        memory.step(memory.reset(), nowhere.expand(1, 1, 2, 2), k, k)
    q = torch.tensor([[0.5, 0.7], [1.0, -2.0]])[None, None].requires_grad_()
    (slope,) = torch.autograd.grad(memory.step(memory.reset(), q, k, k)[0].output.sum(), q)
    assert bool(slope.isfinite().all())
    floored = LinearMemory(1, 2, features=SquaredReLU(floor=0.1))
    assert bool(floored.read(floored.write(floored.reset(), k, k), nowhere.view(1, 1, 1, 2)).output.isfinite().all())


def test_long_gradients_are_those_of_one_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state that was given, masks, lse and the last state: everything that has a gradient gets it."""
    memory = LinearMemory(G, D, E)
    q, k, v = (x.requires_grad_() for x in qkv())
    valid = torch.rand(B, L) < 0.8
    first = [x.requires_grad_() for x in qkv(length=3, seed=5)]
    found = []
    for stretch in (8, 10**6):
        monkeypatch.setattr(sums, "STRETCH", stretch)
        state = memory.write(memory.reset(B), first[1], first[2])
        reading, state = memory.step(state, q, k, v, valid=valid)
        loss = reading.output.square().sum() + torch.where(valid[:, None], reading.lse, 0.0).sum()
        loss = loss + memory.read(state, first[0]).output.sum()
        found.append(torch.autograd.grad(loss, [q, k, v, *first]))
    for a, b in zip(*found, strict=True):
        assert a.any()
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)
    small = tuple(x.requires_grad_() for x in qkv(length=9))
    assert torch.autograd.gradcheck(lambda *x: memory.step(memory.reset(B), *x)[0].output, small, fast_mode=True)
