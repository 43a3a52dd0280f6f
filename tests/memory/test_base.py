"""What every memory has from the protocol: steps one pair after the other, rows reordered, errors before writing."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

import regard
from regard.memory import Cost, PairMemory
from regard.memory.readings import by_weights, joined, unweighted, where_valid


class Kept(NamedTuple):
    k: Tensor
    v: Tensor
    there: Tensor


class Everything(PairMemory[Kept]):
    """All pairs in three tensors, the plainest memory of pairs there is."""

    heads, width, value_width = 2, 3, 5

    def reset(
        self, batch: int = 1, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Kept:
        k = torch.empty(batch, 2, 0, 3, dtype=dtype)
        return Kept(k, torch.empty(batch, 2, 0, 5, dtype=dtype), torch.empty(batch, 0, dtype=torch.bool))

    def write(self, state: Kept, k: Tensor, v: Tensor, *, valid: Tensor | None = None) -> Kept:
        self.check(state, None, k, v, valid)
        there = torch.ones(k.shape[0], k.shape[2], dtype=torch.bool) if valid is None else valid
        return Kept(torch.cat([state.k, k], 2), torch.cat([state.v, v], 2), torch.cat([state.there, there], 1))

    def read(self, state: Kept, q: Tensor) -> regard.Reading:
        return regard.read(q, state.k, state.v, mask=regard.mask.dense(state.there[:, None, None]))

    def cost(self, length: int) -> Cost:
        return Cost(4.0 * length, 8.0 * length)


def chunk(*lead: int, L: int = 7) -> tuple[Tensor, Tensor, Tensor]:
    B = lead[0] if lead else 3
    return (
        torch.randn(B, 4, L, 3, dtype=torch.float64),
        torch.randn(B, 2, L, 3, dtype=torch.float64),
        torch.randn(B, 2, L, 5, dtype=torch.float64),
    )


def test_steps_are_a_causal_read() -> None:
    q, k, v = chunk()
    reading, _ = Everything().step(Everything().reset(3, dtype=torch.float64), q, k, v)
    whole = regard.read(q, k, v, mask=regard.mask.causal())
    torch.testing.assert_close(reading.output, whole.output)
    torch.testing.assert_close(reading.lse, whole.lse)
    assert torch.equal(reading.seen, whole.seen)
    assert reading.entropy is not None
    assert whole.entropy is not None
    torch.testing.assert_close(reading.entropy, whole.entropy)


def test_what_is_not_valid_is_not_there() -> None:
    q, k, v = chunk()
    valid = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 0, 1, 0, 0], [1] * 7]).bool()
    reading, _ = Everything().step(Everything().reset(3, dtype=torch.float64), q, k, v, valid=valid)
    for b in range(3):
        at = valid[b]
        alone = regard.read(q[b, :, at], k[b, :, at], v[b, :, at], mask=regard.mask.causal())
        torch.testing.assert_close(reading.output[b, :, at], alone.output)
    empty = ~valid[0]
    assert reading.output[0, :, empty].abs().max() == 0
    assert bool((reading.lse[0, :, empty] == -torch.inf).all())
    assert bool((reading.seen[0, :, empty] == 0).all())


def test_reorder_takes_rows() -> None:
    q, k, v = chunk()
    memory = Everything()
    state = memory.write(memory.reset(3, dtype=torch.float64), k, v)
    index = torch.tensor([2, 2, 0, 1])
    torch.testing.assert_close(
        memory.read(memory.reorder(state, index), q[index]).output, memory.read(state, q).output[index]
    )
    assert memory.nbytes(state) == 3 * 2 * 7 * 8 * 8 + 3 * 7


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (torch.tensor([0, 3]), "rows 0 to 3, the state has rows 0 to 2"),
        (torch.tensor([-1]), "rows -1 to -1"),
        (torch.tensor([[0]]), "wanted integers"),
        (torch.tensor([0.0]), "wanted integers"),
    ],
)
def test_rows_that_are_not_there_are_refused(index: Tensor, message: str) -> None:
    with pytest.raises(regard.RegardError, match=message):
        Everything().reorder(Everything().reset(3), index)


def test_what_does_not_fit_is_refused() -> None:
    memory = Everything()
    state = memory.reset(3, dtype=torch.float64)
    q, k, v = chunk()
    for name, wrong in {
        "k": (q, k[:2], v, None),
        "k is": (q, k[..., :2], v, None),
        "v has|v is": (q, k, v[..., :2], None),
        "one value a key": (q, k, v[:, :, :3], None),
        "q has 2 queries for 7": (q[:, :, :2], k, v, None),
        "q is": (q[:, :3], k, v, None),
        "valid is": (q, k, v, torch.ones(3, 6, dtype=torch.bool)),
        "valid": (q, k, v, torch.ones(3, 7)),
    }.items():
        with pytest.raises(regard.RegardError, match=name):
            memory.step(state, wrong[0], wrong[1], wrong[2], valid=wrong[3])


def test_reading_by_weights() -> None:
    weights = torch.tensor([[[0.5, 0.0, 0.5], [0.0, 0.25, 0.25]]], dtype=torch.float64)
    values = torch.eye(3, dtype=torch.float64)[None]
    r = by_weights(weights, values)
    assert torch.equal(r.output, weights)
    assert r.entropy is not None
    torch.testing.assert_close(r.entropy[0, 0], torch.tensor(2.0, dtype=torch.float64).log())
    with pytest.raises(regard.RegardError, match="cannot be merged"):
        regard.Reading.merge(r, r)


def test_a_reading_without_weights_says_so() -> None:
    r = unweighted(torch.ones(1, 1, 2, 3), torch.tensor([1, 2]), "it is a sum")
    assert bool(r.lse.isnan().all())
    assert r.entropy is None
    both = joined([r, where_valid(r, torch.tensor([[True, False]]))])
    assert both.output.shape == (1, 1, 4, 3)
    assert both.output[0, 0, 3].abs().max() == 0
