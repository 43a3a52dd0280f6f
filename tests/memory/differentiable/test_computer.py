"""The differentiable computer's memory: equal to the paper, and with every bound the paper promises."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

import regard
from regard.memory import DifferentiableComputer
from regard.memory.differentiable import Asking, DifferentiableState, Writing, interface, interface_width
from regard.memory.differentiable.links import backward, forward, linked, preceding
from regard.memory.differentiable.usage import allocation
from tests.memory.differentiable.paper import Paper

N, W, R, B = 11, 5, 3, 2
MEMORY = DifferentiableComputer(slots=N, width=W, reads=R)


def vectors(steps: int, seed: int, scale: float = 2.0, batch: int = B) -> Tensor:
    """Interface vectors (steps, B, W·R + 3W + 5R + 3), wide enough for gates to shut and open."""
    torch.manual_seed(seed)
    return scale * torch.randn(steps, batch, interface_width(W, R), dtype=torch.float64)


def run(xs: Tensor, memory: DifferentiableComputer = MEMORY) -> list[tuple[regard.Reading, DifferentiableState]]:
    state = memory.reset(xs.shape[1], dtype=xs.dtype)
    found = []
    for x in xs:
        reading, state = memory.step(state, *interface(x, W, R))
        found.append((reading, state))
    return found


def bounds(state: DifferentiableState, slack: float = 1e-12) -> None:
    """What the paper promises of every state."""
    state = DifferentiableState(*(part.detach() for part in state))
    for weighting in (state.usage, state.precedence, state.written, state.looking, state.link):
        assert float(weighting.min()) >= -slack
    assert float(state.usage.max()) <= 1 + slack
    for total in (
        state.written.sum(-1),
        state.precedence.sum(-1),
        state.looking.sum(-1),
        state.link.sum(-1),
        state.link.sum(-2),
    ):
        assert float(total.max()) <= 1 + slack
    assert float(state.link.diagonal(dim1=-2, dim2=-1).abs().max()) == 0
    a = allocation(state.usage)
    assert float(a.min()) >= -slack
    torch.testing.assert_close(a.sum(-1), 1 - state.usage.prod(-1), atol=max(slack, 1e-12), rtol=0)


@pytest.mark.parametrize("seed", [0, 1])
def test_every_step_is_the_papers(seed: int) -> None:
    xs = vectors(40, seed)
    papers = [Paper(N, W, R) for _ in range(B)]
    for x, (reading, state) in zip(xs, run(xs), strict=True):
        for b, paper in enumerate(papers):
            told = paper.step(x[b].tolist())
            for found, wanted in (
                (reading.output[b, :, 0], told),
                (state.rows[b], paper.M),
                (state.usage[b], paper.u),
                (state.link[b], paper.L),
                (state.precedence[b], paper.p),
                (state.written[b], paper.ww),
                (state.looking[b], paper.wr),
            ):
                torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64), atol=1e-10, rtol=0)


@pytest.mark.parametrize("scale", [0.5, 2.0, 8.0, 60.0])
def test_what_the_paper_promises_holds_for_200_steps(scale: float) -> None:
    for _, state in run(vectors(200, seed=3, scale=scale)):
        bounds(state)


def one_hot(*places: int) -> Tensor:
    return torch.nn.functional.one_hot(torch.tensor(places), N).double()


def test_links_go_forward_and_backward_through_what_was_written() -> None:
    link, precedence = torch.zeros(1, N, N, dtype=torch.float64), torch.zeros(1, N, dtype=torch.float64)
    for place in (3, 5, 1, 6):
        link, precedence = linked(link, one_hot(place), precedence), preceding(precedence, one_hot(place))
    at, seen = one_hot(3).unsqueeze(0), []
    for _ in range(3):
        at = forward(link, at)
        assert torch.equal(at.sum(-1), torch.ones_like(at[..., 0]))
        seen.append(int(at.argmax()))
    assert seen == [5, 1, 6]
    assert not forward(link, at).any()  # nothing was written after the last
    seen = []
    for _ in range(3):
        at = backward(link, at)
        seen.append(int(at.argmax()))
    assert seen == [1, 5, 3]
    assert torch.equal(at, one_hot(3).unsqueeze(0))
    assert not backward(link, at).any()


def told(add: Tensor, *, gate: float = 1.0, allocate: float = 1.0, free: float = 0.0) -> Writing:
    """A write of ``add`` (B, W) that erases what was there; to a free place unless ``allocate`` is 0."""
    rows = add.new_ones(add.shape[0])
    return Writing(
        key=add,
        strength=100 * rows,
        erase=torch.ones_like(add),
        add=add,
        free=free * add.new_ones(add.shape[0], R),
        allocate=allocate * rows,
        gate=gate * rows,
    )


def asked(key: Tensor, mode: str) -> Asking:
    modes = torch.tensor([float(mode == each) for each in ("backward", "content", "forward")], dtype=key.dtype)
    B = key.shape[0]
    return Asking(key.unsqueeze(1).expand(B, R, W), key.new_full((B, R), 1e3), modes.expand(B, R, 3))


def test_a_list_is_recalled_along_its_links_exactly() -> None:
    """Items written to free places; the first is found by its content, the rest by what was written next."""
    torch.manual_seed(0)
    items = torch.randint(0, 2, (N, B, W)).double()  # items may repeat: content alone could not tell them apart
    first = 2.0 + torch.rand(B, W, dtype=torch.float64)
    first[:, 0] = -3.0  # like no other item
    state = MEMORY.reset(B, dtype=torch.float64)
    for item in [first, *items[: N - 1]]:
        state = MEMORY.write(state, told(item))
    reading, state = MEMORY.step(state, told(first, gate=0.0), asked(first, "content"))
    torch.testing.assert_close(reading.output[:, :, 0], first.unsqueeze(1).expand(B, R, W))
    for item in items[: N - 1]:
        reading, state = MEMORY.step(state, told(first, gate=0.0), asked(first, "forward"))
        torch.testing.assert_close(reading.output[:, :, 0], item.unsqueeze(1).expand(B, R, W))
    for item in [*reversed(items[: N - 2]), first]:
        reading, state = MEMORY.step(state, told(first, gate=0.0), asked(first, "backward"))
        torch.testing.assert_close(reading.output[:, :, 0], item.unsqueeze(1).expand(B, R, W))


def test_what_was_read_and_freed_is_written_next() -> None:
    torch.manual_seed(1)
    items = torch.randn(N, B, W, dtype=torch.float64)
    state = MEMORY.reset(B, dtype=torch.float64)
    for n, item in enumerate(items):
        state = MEMORY.write(state, told(item))
        assert state.written.argmax(-1).tolist() == [n] * B
    full = MEMORY.write(state, told(items[0]))
    assert float(full.written.abs().max()) == 0  # nothing is free, so there is nowhere to write
    torch.testing.assert_close(full.rows, items.transpose(0, 1))
    _, state = MEMORY.step(state, told(items[0], gate=0.0), asked(items[4], "content"))
    kept = MEMORY.write(state, told(items[0]))
    assert float(kept.written.max()) < 1e-12  # read, but not freed
    state = MEMORY.write(state, told(items[0], free=1.0))
    torch.testing.assert_close(state.written, one_hot(4).expand(B, N))


def test_gradients_are_right() -> None:
    """By finite differences through three steps, from states without ties in their free lists."""
    memory = DifferentiableComputer(slots=4, width=2, reads=2)
    torch.manual_seed(5)
    xs = torch.randn(3, 1, interface_width(2, 2), dtype=torch.float64)
    start = memory.reset(1, dtype=torch.float64)
    start = start._replace(rows=torch.randn_like(start.rows), usage=torch.tensor([[0.1, 0.7, 0.4, 0.9]]).double())

    def whole(xs: Tensor, rows: Tensor, usage: Tensor) -> Tensor:
        state, outputs = start._replace(rows=rows, usage=usage), []
        for x in xs:
            reading, state = memory.step(state, *interface(x, 2, 2))
            outputs.append(reading.output)
        return torch.cat([torch.stack(outputs).flatten(), state.link.flatten(), state.usage.flatten()])

    given = tuple(x.clone().requires_grad_() for x in (xs, start.rows, start.usage))
    assert torch.autograd.gradcheck(whole, given)


def test_gradients_are_numbers_from_an_empty_memory() -> None:
    xs = vectors(30, 7).float().requires_grad_()
    torch.stack([reading.output for reading, _ in run(xs)]).square().sum().backward()
    assert xs.grad is not None
    assert bool(xs.grad.isfinite().all())
    assert float(xs.grad.abs().max()) < 1e4


def test_gradients_from_usage_stop_where_they_are_told_to() -> None:
    """Usage depends on the write before it; the authors' code does not let a gradient through there."""
    allocate, gate = (interface_width(W, R) - 3 * R - back for back in (2, 1))
    free = slice(allocate - R, allocate)
    found = {}
    for memory in (MEMORY, dataclasses.replace(MEMORY, usage_gradient=False)):
        xs = vectors(2, 9)
        xs[1, :, free] = -1e3  # nothing is freed: where was read would be another way back to the write
        xs.requires_grad_()
        state = run(xs, memory)[1][1]
        (gradient,) = torch.autograd.grad(state.usage[0, 0], xs)
        found[memory.usage_gradient] = (state, gradient[0, 0])
    for one, other in zip(found[True][0], found[False][0], strict=True):
        assert torch.equal(one, other)
    assert float(found[True][1][gate].abs()) > 1e-6
    assert not found[False][1].any()


def test_rows_know_nothing_of_each_other_and_are_reordered() -> None:
    xs = vectors(13, 11, batch=3)
    whole = run(xs)[-1]
    for b in range(3):
        alone = run(xs[:, b : b + 1])[-1]
        torch.testing.assert_close(alone[0].output[0], whole[0].output[b])
    index = torch.tensor([2, 0, 2, 1])
    again, more = MEMORY.reorder(whole[1], index), interface(vectors(1, 12, batch=3)[0], W, R)
    wanted, _ = MEMORY.step(whole[1], *more)
    found, _ = MEMORY.step(again, Writing(*(x[index] for x in more[0])), Asking(*(x[index] for x in more[1])))
    torch.testing.assert_close(found.output, wanted.output[index])


def test_a_row_that_is_not_valid_stays_and_reads_nothing() -> None:
    xs = vectors(9, 13, batch=2)
    valid = torch.tensor([[1, 1], [0, 1], [1, 1], [0, 1], [0, 1], [1, 1], [1, 1], [1, 1], [0, 1]]).bool()
    state = MEMORY.reset(2, dtype=torch.float64)
    outputs = []
    for x, there in zip(xs, valid, strict=True):
        reading, state = MEMORY.step(state, *interface(x, W, R), valid=there)
        outputs.append(reading.output)
        assert not reading.output[~there].any()
        assert bool((reading.lse[~there] == -torch.inf).all())
    alone = run(xs[valid[:, 0], :1])
    torch.testing.assert_close(torch.stack(outputs)[valid[:, 0], 0], torch.stack([r.output[0] for r, _ in alone]))
    for found, wanted in zip(state, alone[-1][1], strict=True):
        torch.testing.assert_close(found[:1], wanted)


def test_reading_leaves_the_state_and_says_what_it_saw() -> None:
    xs = vectors(6, 15)
    _, state = run(xs)[-1]
    copies = [x.clone() for x in state]
    _, asking = interface(xs[0], W, R)
    reading = MEMORY.read(state, asking)
    for found, wanted in zip(state, copies, strict=True):
        assert torch.equal(found, wanted)
    after = MEMORY.move(state, asking)
    torch.testing.assert_close(reading.output[:, :, 0], after.looking @ state.rows)
    assert torch.equal(MEMORY.read(after).output, reading.output)
    assert reading.peak_at is not None
    assert torch.equal(reading.peak_at[:, :, 0], after.looking.argmax(-1))
    with pytest.raises(regard.RegardError, match="cannot be merged"):
        regard.Reading.merge(reading, reading)
    empty = MEMORY.read(MEMORY.reset(B, dtype=torch.float64), asking)
    assert not empty.output.any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_kept_in_float32(dtype: torch.dtype) -> None:
    xs = vectors(50, 17).to(dtype)
    state = MEMORY.reset(B, dtype=dtype)
    exact = MEMORY.reset(B, dtype=torch.float64)
    for x in xs:
        reading, state = MEMORY.step(state, *interface(x, W, R))
        wanted, exact = MEMORY.step(exact, *interface(x.double(), W, R))
        bounds(state, slack=1e-5)
        torch.testing.assert_close(reading.output.double(), wanted.output, atol=1e-4, rtol=1e-4)
    assert {part.dtype for part in state} == {torch.float32}


def test_bytes_and_cost() -> None:
    assert MEMORY.nbytes(MEMORY.reset(B)) == 4 * B * (N * W + N * N + 3 * N + R * N)
    assert MEMORY.cost(1) == MEMORY.cost(10**6)
    assert MEMORY.cost(1).flops > 4 * R * N * N


def test_what_does_not_fit_is_refused() -> None:
    state = MEMORY.reset(B, dtype=torch.float64)
    writing, asking = interface(vectors(1, 19)[0], W, R)
    for name, wrong in {
        r"writing\.key is \(1, 5\)": writing._replace(key=writing.key[:1]),
        r"writing\.free is \(2, 2\).*wanted floats \(2, 3\)": writing._replace(free=writing.free[:, :2]),
        r"writing\.gate is .*int64": writing._replace(gate=torch.ones(B, dtype=torch.int64)),
        r"writing\.erase goes from .* to 1\.5": writing._replace(erase=torch.full_like(writing.erase, 1.5)),
        r"writing\.allocate goes from -0\.5": writing._replace(allocate=torch.full_like(writing.gate, -0.5)),
        r"writing\.gate goes from nan": writing._replace(gate=torch.full_like(writing.gate, torch.nan)),
    }.items():
        with pytest.raises(regard.RegardError, match=name):
            MEMORY.write(state, wrong)
    for name, question in {
        r"asking\.keys is": asking._replace(keys=asking.keys[..., :2]),
        r"asking\.modes is": asking._replace(modes=asking.modes[..., :2]),
        r"asking\.modes goes": asking._replace(modes=asking.modes - 2),
        r"asking\.modes, summed, goes from 3 to 3": asking._replace(modes=torch.ones_like(asking.modes)),
    }.items():
        with pytest.raises(regard.RegardError, match=name):
            MEMORY.read(state, question)
        with pytest.raises(regard.RegardError, match=name):
            MEMORY.step(state, writing, question)
    for valid in (torch.ones(B + 1, dtype=torch.bool), torch.ones(B)):
        with pytest.raises(regard.RegardError, match="valid is"):
            MEMORY.step(state, writing, asking, valid=valid)
    with pytest.raises(regard.RegardError, match=r"wanted \(B, 48\)"):
        interface(torch.zeros(2, 47), W, R)
    with pytest.raises(regard.RegardError, match="index names rows 2"):
        MEMORY.reorder(state, torch.tensor([2]))
    for sizes in ({"slots": 0}, {"slots": 2, "reads": -1}, {"slots": 2.0}, {"slots": True}):
        with pytest.raises(regard.RegardError, match="wanted a whole number"):
            DifferentiableComputer(**({"width": 3} | sizes))
