"""More pairs than a state has room for: what a memory of a fixed size gives up, by its bound and by training.

P pairs are written with values of unit variance; the error of reading each back by its own key is E ‖o − v‖² / E ‖v‖² =
‖M − 1‖²_F / P, M (P, P) being what is read when the values are the unit vectors. A state of F features makes M of rank
F at most, so that the error is at least 1 − F/P, whatever keys and queries are learnt.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import regard
from regard.memory import DeltaMemory, LinearMemory

D, P = 8, 20
BOUND = 1 - D / P


def softmax(q: Tensor, k: Tensor, values: Tensor) -> Tensor:
    return regard.attend(q, k, values, engine="reference")


def linear(q: Tensor, k: Tensor, values: Tensor) -> Tensor:
    memory = LinearMemory(1, D, values.shape[-1])
    return memory.read(memory.write(memory.reset(len(k)), k, values), q).output


def delta(q: Tensor, k: Tensor, values: Tensor) -> Tensor:
    memory = DeltaMemory(1, D, values.shape[-1])
    return memory.read(memory.write(memory.reset(len(k)), k, values), q).output


def learnt(read: Callable[[Tensor, Tensor, Tensor], Tensor], pairs: int, seed: int) -> float:
    """The error after keys and queries, a vector of each for every pair, were trained to have the least."""
    g = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(1, 1, pairs, D, generator=g).requires_grad_() for _ in range(2))
    unit = torch.eye(pairs)[None, None]
    optimizer = torch.optim.Adam([q, k], lr=0.1)
    error = torch.zeros(())
    for _ in range(400):
        error = (read(q, k, unit) - unit).square().sum() / pairs
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
    return error.item()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_softmax_recalls_more_pairs_than_it_is_wide_and_a_fixed_state_cannot(seed: int) -> None:
    exact, fixed, corrected = (learnt(read, P, seed) for read in (softmax, linear, delta))
    assert exact < 0.05
    for error in (fixed, corrected):  # both learn to share places, and reach the bound
        assert BOUND - 1e-4 < error < BOUND + 0.05


@pytest.mark.parametrize("read", [linear, delta])
def test_the_bound_holds_for_any_keys(read: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
    q, k = (torch.randn(64, 1, P, D, dtype=torch.float64) for _ in range(2))
    unit = torch.eye(P, dtype=torch.float64).expand(64, 1, P, P)
    found = read(q, k, unit)
    assert int(torch.linalg.matrix_rank(found).max()) <= D
    assert float((found - unit).square().sum((-1, -2)).min()) / P >= BOUND


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_keys_that_nobody_trained_are_recalled_best_by_softmax_then_by_the_delta_rule(seed: int) -> None:
    """As many random unit keys as they are wide. With twice as many the delta rule's own corrections do more harm."""
    g = torch.Generator().manual_seed(seed)
    errors = {}
    for pairs in (D, 2 * D):
        k = torch.nn.functional.normalize(torch.randn(64, 1, pairs, D, generator=g), dim=-1)
        unit = torch.eye(pairs).expand(64, 1, pairs, pairs)
        for read in (softmax, delta, linear):
            found = read(4 * k, 4 * k, unit)
            errors[read.__name__, pairs] = float((found - unit).square().sum() / (64 * pairs))
    assert errors["softmax", D] < 0.1 < errors["delta", D] < errors["linear", D] - 0.1
    assert errors["softmax", 2 * D] < 0.15 < BOUND < errors["linear", 2 * D] < errors["delta", 2 * D]


def test_a_key_that_is_written_again_is_recalled_by_the_delta_rule_alone() -> None:
    """Weights know no order: what a key held before is averaged with what it holds, by softmax too."""
    k = torch.eye(D)[None, None].repeat(1, 1, 2, 1)
    old, new = torch.eye(2 * D)[None, None].chunk(2, 2)
    values, asked = torch.cat([old, new], 2), torch.eye(D)[None, None]
    assert float((delta(asked, k, values) - new).square().sum() / D) < 1e-10
    for read in (softmax, linear):
        assert float((read(20 * asked, 20 * k, values) - new).square().sum() / D) > 0.49


def test_within_its_width_the_delta_rule_recalls_all_and_linear_attention_does_not() -> None:
    """As many pairs as numbers in a key, the keys at right angles."""
    k = torch.linalg.qr(torch.randn(D, D, dtype=torch.float64)).Q[None, None]
    unit = torch.eye(D, dtype=torch.float64)[None, None]
    errors = [float((read(k, k, unit) - unit).square().sum() / D) for read in (delta, linear)]
    assert errors[0] < 1e-20
    assert errors[1] > 0.5
