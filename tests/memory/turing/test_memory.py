"""The memory as a whole: steps as the paper has them, states, rows that know nothing of each other, bad input."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.memory.turing import Address, TuringMemory, TuringState
from tests.memory.turing import paper

B, S, D = 3, 11, 5
SIZES = [(1, 1, 1), (2, 3, 1), (3, 2, 2), (1, 2, 0)]  # reads, writes, reach


def orders(memory: TuringMemory, batch: int = B, dtype: torch.dtype = torch.float64) -> tuple[Address, Tensor, Tensor]:
    """What heads might be told."""
    H, W = memory.heads, memory.writes
    to = Address(
        torch.randn(batch, H, D, dtype=torch.float64),
        torch.rand(batch, H, dtype=torch.float64) * 5,
        torch.rand(batch, H, dtype=torch.float64),
        torch.randn(batch, H, 2 * memory.reach + 1, dtype=torch.float64).softmax(-1),
        1 + 4 * torch.rand(batch, H, dtype=torch.float64),
    )
    erase = torch.rand(batch, W, D, dtype=torch.float64)
    add = torch.randn(batch, W, D, dtype=torch.float64)
    return Address(*(x.to(dtype) for x in to)), erase.to(dtype), add.to(dtype)


@pytest.mark.parametrize(("reads", "writes", "reach"), SIZES)
def test_steps_are_the_papers(reads: int, writes: int, reach: int) -> None:
    memory = TuringMemory(S, D, reads, writes, reach)
    state = memory.reset(B, dtype=torch.float64)
    matrices = [[[1e-6] * D for _ in range(S)] for _ in range(B)]
    places = [[[1.0] + [0.0] * (S - 1) for _ in range(memory.heads)] for _ in range(B)]
    for _ in range(4):
        to, erase, add = orders(memory)
        reading, state = memory.step(state, to, erase, add)
        for b in range(B):
            told: list[list[Any]] = [[x[b, h].tolist() for x in to] for h in range(memory.heads)]
            places[b] = [paper.address(matrices[b], w, *one) for w, one in zip(places[b], told, strict=True)]
            matrices[b] = paper.write(matrices[b], places[b][reads:], erase[b].tolist(), add[b].tolist())
            read = [paper.read(matrices[b], w) for w in places[b][:reads]]
            for found, wanted in (
                (state.matrix[b], matrices[b]),
                (torch.cat([state.reading[b], state.writing[b]]), places[b]),
                (reading.output[b], read),
            ):
                torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64), rtol=0, atol=1e-10)


def test_what_is_read_is_what_was_just_written_by_heads_that_saw_the_memory_before() -> None:
    memory = TuringMemory(S, D)
    to, erase, add = orders(memory)
    state = memory.reset(B, dtype=torch.float64)
    moved = memory.move(state, to)
    written = memory.write(moved, erase, add)
    reading, after = memory.step(state, to, erase, add)
    assert all(torch.equal(a, b) for a, b in zip(written, after, strict=True))
    torch.testing.assert_close(reading.output, moved.reading @ written.matrix, rtol=0, atol=1e-14)
    assert not torch.allclose(memory.read(moved).output, reading.output)


def test_a_whole_erasure_and_an_addition_put_a_row_in_its_place() -> None:
    memory = TuringMemory(S, D)
    state = memory.reset(1)
    row = torch.randn(1, 1, D)
    for _ in range(2):  # the second one leaves nothing of the first
        row = torch.randn(1, 1, D)
        state = memory.write(state, torch.ones(1, 1, D), row)
    assert torch.equal(state.matrix[0, 0], row[0, 0])
    assert torch.equal(state.matrix[0, 1:], torch.full((S - 1, D), 1e-6))
    assert torch.equal(memory.read(state).output, row)


def test_erasures_are_in_no_order() -> None:
    memory = TuringMemory(S, D, writes=3)
    to, erase, add = orders(memory)
    state = memory.move(memory.reset(B, dtype=torch.float64)._replace(matrix=torch.randn(B, S, D).double()), to)
    order = [2, 0, 1]
    other = memory.write(state._replace(writing=state.writing[:, order]), erase[:, order], add[:, order])
    torch.testing.assert_close(memory.write(state, erase, add).matrix, other.matrix, rtol=0, atol=1e-12)


def test_a_reading_tells_of_its_weights() -> None:
    memory = TuringMemory(S, D, reads=2)
    to, erase, add = orders(memory)
    reading, state = memory.step(memory.reset(B, dtype=torch.float64), to, erase, add)
    assert reading.peak is not None
    assert torch.equal(reading.peak, state.reading.amax(-1))
    assert bool((reading.seen == S).all())
    with pytest.raises(regard.RegardError, match="come from an address"):
        regard.Reading.merge(reading, reading)


def test_rows_of_a_batch_know_nothing_of_each_other() -> None:
    memory = TuringMemory(S, D, 2, 2)
    told = [orders(memory) for _ in range(3)]

    def run(rows: list[int]) -> TuringState:
        state = memory.reset(len(rows), dtype=torch.float64)
        for to, erase, add in told:
            _, state = memory.step(state, Address(*(x[rows] for x in to)), erase[rows], add[rows])
        return state

    together = run([0, 1, 2])
    for b in range(B):
        for x, y in zip(run([b]), together, strict=True):
            torch.testing.assert_close(x[0], y[b], rtol=0, atol=1e-14)
    for x, y in zip(memory.reorder(together, torch.tensor([2, 0, 2])), run([2, 0, 2]), strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=1e-14)


def test_a_state_that_was_given_is_left_as_it_was() -> None:
    memory = TuringMemory(S, D)
    state = memory.reset(B, dtype=torch.float64)
    before = [x.clone() for x in state]
    memory.step(state, *orders(memory))
    assert all(torch.equal(x, y) for x, y in zip(before, state, strict=True))


def test_gradients_are_those_of_differences() -> None:
    memory = TuringMemory(5, D, 1, 2)
    to, erase, add = orders(memory, batch=1)
    matrix = torch.randn(1, 5, D, dtype=torch.float64)
    given = [x.clone().requires_grad_() for x in (matrix, *to, erase, add)]

    def run(matrix: Tensor, *told: Tensor) -> Tensor:
        state = memory.reset(1, dtype=torch.float64)._replace(matrix=matrix)
        for _ in range(2):
            reading, state = memory.step(state, Address(*told[:5]), *told[5:])
        return reading.output

    assert torch.autograd.gradcheck(run, given)


def test_the_first_step_of_an_empty_memory_has_finite_gradients() -> None:
    memory = TuringMemory(S, D)
    to, erase, add = orders(memory, dtype=torch.float32)
    given = [x.requires_grad_() for x in (*to, erase, add)]
    reading, _ = memory.step(memory.reset(B)._replace(matrix=torch.zeros(B, S, D)), to, erase, add)
    reading.output.sum().backward()
    assert all(x.grad is not None and bool(x.grad.isfinite().all()) for x in given)


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_half_precision_is_kept_in_float32(half: torch.dtype) -> None:
    memory = TuringMemory(S, D)
    state = memory.reset(B, dtype=half)
    assert {x.dtype for x in state} == {torch.float32}
    to, erase, add = orders(memory, dtype=half)
    reading, state = memory.step(state, to, erase, add)
    assert {x.dtype for x in (*state, reading.output)} == {torch.float32}
    wanted, _ = memory.step(memory.reset(B), Address(*(x.float() for x in to)), erase.float(), add.float())
    assert torch.equal(reading.output, wanted.output)


def test_bytes_and_cost_do_not_grow() -> None:
    memory = TuringMemory(S, D, 2, 3)
    state = memory.reset(B)
    size = memory.nbytes(state)
    assert size == 4 * B * (S * D + 5 * S)
    for _ in range(3):
        _, state = memory.step(state, *orders(memory, dtype=torch.float32))
    assert memory.nbytes(state) == size
    assert memory.cost(1) == memory.cost(10_000)
    assert memory.cost(1).bytes >= size / B


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"slots": 0}, "slots is 0, wanted a whole number of at least 1"),
        ({"width": 2.0}, r"width is 2\.0"),
        ({"reads": -1}, "reads is -1"),
        ({"writes": 0}, "writes is 0"),
        ({"reach": True}, "reach is True"),
        ({"slots": 4, "reach": 2}, "reach is 2 in 4 slots.*at least 5 slots"),
    ],
)
def test_sizes_that_make_no_memory_are_refused(sizes: dict[str, Any], message: str) -> None:
    with pytest.raises(regard.RegardError, match=message):
        TuringMemory(**{"slots": S, "width": D, **sizes})


def test_what_does_not_fit_is_refused() -> None:
    memory = TuringMemory(S, D)
    state = memory.reset(B, dtype=torch.float64)
    to, erase, add = orders(memory)
    for message, wrong in {
        r"to\.key is \(3, 1, 5\)": (to._replace(key=to.key[:, :1]), erase, add),
        r"to\.gate is \(3, 2, 1\)": (to._replace(gate=to.gate[..., None]), erase, add),
        r"to\.shift is \(3, 2, 2\)": (to._replace(shift=to.shift[..., :2]), erase, add),
        r"to\.sharpness .* of torch\.int64": (to._replace(sharpness=to.sharpness.long()), erase, add),
        r"erase is \(2, 1, 5\)": (to, erase[:2], add),
        r"add is \(3, 1, 4\)": (to, erase, add[..., :4]),
    }.items():
        with pytest.raises(regard.RegardError, match=message):
            memory.step(state, *wrong)
    with pytest.raises(regard.RegardError, match=r"state\.matrix"):
        memory.read(TuringMemory(S + 1, D).reset(B))
