"""Each step of addressing: the paper's equations with plain loops, and what is exactly known about shifts."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.memory.turing.addressing import Address, address, content, cosine, interpolate, sharpen, shift
from tests.memory.turing import paper

B, H, S, D = 2, 3, 7, 5


def drawn(reach: int = 1) -> tuple[Tensor, Tensor, Address]:
    """A memory, where heads were, and where they are told to go."""
    to = Address(
        torch.randn(B, H, D, dtype=torch.float64),
        torch.rand(B, H, dtype=torch.float64) * 5,
        torch.rand(B, H, dtype=torch.float64),
        torch.randn(B, H, 2 * reach + 1, dtype=torch.float64).softmax(-1),
        1 + 4 * torch.rand(B, H, dtype=torch.float64),
    )
    return torch.randn(B, S, D, dtype=torch.float64), torch.randn(B, H, S, dtype=torch.float64).softmax(-1), to


@pytest.mark.parametrize("reach", [0, 1, 2, 3])
def test_addressing_is_the_papers(reach: int) -> None:
    memory, last, to = drawn(reach)
    found = address(memory, last, to)
    for b in range(B):
        for h in range(H):
            told: list[Any] = [x[b, h].tolist() for x in to]
            wanted = paper.address(memory[b].tolist(), last[b, h].tolist(), *told)
            torch.testing.assert_close(found[b, h], torch.tensor(wanted, dtype=torch.float64), rtol=0, atol=1e-10)


def test_every_step_keeps_a_distribution() -> None:
    memory, last, to = drawn()
    found = content(memory, to.key, to.strength)
    for weights in (found, interpolate(found, last, to.gate), shift(last, to.shift), sharpen(last, to.sharpness)):
        assert weights.min() >= 0
        torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, dtype=torch.float64), rtol=0, atol=1e-12)


@pytest.mark.parametrize("move", [-2, -1, 0, 1, 2])
def test_a_move_by_one_takes_a_head_one_slot_on(move: int) -> None:
    at = torch.eye(S)  # a head at every slot
    moves = torch.zeros(S, 5)
    moves[:, move + 2] = 1.0
    assert torch.equal(shift(at, moves).argmax(-1), (torch.arange(S) + move) % S)
    assert torch.equal(shift(at, moves), at.roll(move, -1))


def walked(slots: int, sharpness: float) -> Tensor:
    """Where a head is after twenty blurred steps from slot 0."""
    weights = torch.eye(slots, dtype=torch.float64)[:1]
    moves = torch.tensor([[0.1, 0.8, 0.1]], dtype=torch.float64)
    for _ in range(20):
        weights = sharpen(shift(weights, moves), torch.tensor([sharpness], dtype=torch.float64))
    return weights[0]


def test_twenty_blurred_moves_without_sharpening_are_a_walk() -> None:
    # no step in sum: k to the right, k to the left, the others in place
    ways = [math.comb(20, 2 * k) * math.comb(2 * k, k) * 0.1 ** (2 * k) * 0.8 ** (20 - 2 * k) for k in range(11)]
    assert abs(walked(41, 1.0)[0].item() - sum(ways)) < 1e-12
    assert round(walked(5, 1.0).max().item(), 2) == 0.22  # a fifth, and little more: it has gone round


@pytest.mark.parametrize("slots", [5, 41])
def test_twenty_blurred_moves_with_sharpening_stay_in_place(slots: int) -> None:
    assert round(walked(slots, 3.0)[0].item(), 3) == 0.996


def test_sharpening_by_one_changes_nothing_and_scales_are_nothing_to_it() -> None:
    _, last, to = drawn()
    torch.testing.assert_close(sharpen(last, torch.ones(B, H, dtype=torch.float64)), last, rtol=0, atol=1e-15)
    torch.testing.assert_close(sharpen(last, to.sharpness), sharpen(last * 1e-3, to.sharpness), rtol=0, atol=1e-12)


def test_no_sharpness_is_too_much() -> None:
    weights = torch.full((1, 128), 1 / 128)
    weights[0, 5] *= 1.5
    weights.requires_grad_()
    gamma = torch.tensor([400.0], requires_grad=True)  # 128^−400 is 0 in float32
    sharp = sharpen(weights, gamma)
    assert sharp.argmax().item() == 5
    assert sharp.max().item() == 1.0
    sharp[0, 3].backward()
    assert weights.grad is not None
    assert gamma.grad is not None
    assert bool(weights.grad.isfinite().all() & gamma.grad.isfinite().all())


def test_gates_are_content_alone_and_the_last_place_alone() -> None:
    memory, last, to = drawn()
    found = content(memory, to.key, to.strength)
    assert torch.equal(interpolate(found, last, torch.ones(B, H, dtype=torch.float64)), found)
    assert torch.equal(interpolate(found, last, torch.zeros(B, H, dtype=torch.float64)), last)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_memory_of_zeros_and_a_key_of_zeros_have_finite_gradients(dtype: torch.dtype) -> None:
    for memory, keys in (
        (torch.zeros(S, D), torch.ones(H, D)),
        (torch.ones(S, D), torch.zeros(H, D)),
        (torch.zeros(S, D), torch.zeros(H, D)),
    ):
        memory, keys = memory.to(dtype).requires_grad_(), keys.to(dtype).requires_grad_()
        weights = content(memory, keys, torch.full((H,), 9.0, dtype=dtype))
        torch.testing.assert_close(weights, torch.full_like(weights, 1 / S))
        weights[:, 0].sum().backward()
        for x in (memory, keys):
            assert x.grad is not None
            assert bool(x.grad.isfinite().all())
            assert x.grad.abs().max() <= 9.0 * H * 1e3  # β / √ε for every head


def test_likeness_is_the_cosine_where_nothing_is_near_zero() -> None:
    memory, _, to = drawn()
    wanted = torch.cosine_similarity(to.key.unsqueeze(2), memory.unsqueeze(1), dim=-1)
    torch.testing.assert_close(cosine(memory, to.key), wanted, rtol=1e-4, atol=1e-4)
    assert bool((cosine(memory, to.key).abs() <= 1).all())


def test_a_larger_strength_goes_to_the_best_match() -> None:
    memory, _, to = drawn()
    best = cosine(memory, to.key).argmax(-1)
    weights = content(memory, to.key, torch.full((B, H), 200.0, dtype=torch.float64))
    assert torch.equal(weights.argmax(-1), best)
    assert content(memory, to.key, torch.zeros(B, H, dtype=torch.float64)).std().item() < 1e-12


def test_gradients_are_those_of_differences() -> None:
    memory, last, to = drawn()
    given = [x[:1].clone().requires_grad_() for x in (memory, last, *to)]
    assert torch.autograd.gradcheck(lambda m, w, *a: address(m, w, Address(*a)), given)
