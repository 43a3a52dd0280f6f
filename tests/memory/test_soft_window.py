"""The soft window: the paper with plain loops, what is known of its sums and its way, rows, bad input."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, pi, sqrt

import pytest
import torch
from torch import Tensor

import regard
from regard.memory import SoftWindow
from regard.memory.soft_window import Moved, WindowState, window

B, U, E, K = 3, 7, 5, 11
F64 = torch.float64

Row = list[float]


def by_loops(text: list[Row], moves: list[tuple[Row, Row, Row]]) -> tuple[list[Row], list[Row], list[Row]]:
    """Graves 2013, section 5.1, for one row: w, φ and κ of every step, with numbers of Python."""
    places = [0.0] * len(moves[0][0])
    reads, weights, ways = [], [], []
    for heights, sharpnesses, steps in moves:
        alpha, beta = [exp(x) for x in heights], [exp(x) for x in sharpnesses]
        places = [place + exp(x) for place, x in zip(places, steps, strict=True)]
        phi = []
        for u in range(1, len(text) + 1):
            each = zip(alpha, beta, places, strict=True)
            phi.append(sum(a * exp(-b * (kappa - u) ** 2) for a, b, kappa in each))
        reads.append([sum(phi[u] * text[u][e] for u in range(len(text))) for e in range(len(text[0]))])
        weights.append(phi)
        ways.append(places)
    return reads, weights, ways


def told(batch: int = B, windows: int = K, scale: float = 1.0) -> Moved:
    height, sharpness, step = (scale * torch.randn(batch, windows, dtype=F64) for _ in range(3))
    return Moved(height, sharpness, step - 1)


def with_text(memory: SoftWindow, batch: int = B, length: int = U) -> WindowState:
    return memory.write(memory.reset(batch, dtype=F64), torch.randn(batch, length, memory.width, dtype=F64))


def test_steps_are_the_papers() -> None:
    memory = SoftWindow(E, K)
    state = with_text(memory)
    moves = [told() for _ in range(4)]
    wanted = [
        by_loops(
            state.text[b].tolist(),
            [(to.height[b].tolist(), to.sharpness[b].tolist(), to.step[b].tolist()) for to in moves],
        )
        for b in range(B)
    ]
    for t, to in enumerate(moves):
        reading, state = memory.step(state, to)
        for b in range(B):
            for found, numbers in (
                (reading.output[b, 0, 0], wanted[b][0][t]),
                (memory.weights(state)[b], wanted[b][1][t]),
                (state.places[b], wanted[b][2][t]),
            ):
                torch.testing.assert_close(found, torch.tensor(numbers, dtype=F64), rtol=0, atol=1e-10)


def test_gradients_are_those_of_the_equations() -> None:
    """∂φ_k/∂α̂ = φ_k, ∂φ_k/∂β̂ = −β d² φ_k, and ∂φ_k/∂κ̂ of any step so far is −2 β d φ_k exp(κ̂), d = κ − u."""
    memory = SoftWindow(E, K)
    state = with_text(memory, 1)
    moves = [Moved(*(x.requires_grad_() for x in told(1))) for _ in range(3)]
    for to in moves:
        reading, state = memory.step(state, to)
    (last := reading.output).sum().backward()
    at, c = torch.arange(1, U + 1, dtype=F64), state.text[0].sum(-1)
    away, beta = (state.places[0, :, None] - at).detach(), moves[-1].sharpness[0].detach().exp()[:, None]
    phi = moves[-1].height[0].detach().exp()[:, None] * (-beta * away**2).exp() * c
    assert last.shape == (1, 1, 1, E)
    for name, number in (("height", phi.sum(-1)), ("sharpness", (-beta * away**2 * phi).sum(-1))):
        torch.testing.assert_close(getattr(moves[-1], name).grad[0], number, rtol=0, atol=1e-10)
    for to in moves:
        step = (-2 * beta * away * phi).sum(-1) * to.step[0].detach().exp()
        assert to.step.grad is not None
        torch.testing.assert_close(to.step.grad[0], step, rtol=0, atol=1e-10)


def test_gradients_are_those_of_differences() -> None:
    memory = SoftWindow(2, 3)
    text = torch.randn(1, 5, 2, dtype=F64)
    given = [x.clone().requires_grad_() for x in (text, *told(1, 3), *told(1, 3))]

    def run(text: Tensor, *numbers: Tensor) -> Tensor:
        state = memory.write(memory.reset(dtype=F64), text)
        _, state = memory.step(state, Moved(*numbers[:3]))
        return memory.step(state, Moved(*numbers[3:]))[0].output

    assert torch.autograd.gradcheck(run, given)


def test_windows_only_go_on() -> None:
    memory = SoftWindow(E, K)
    state = with_text(memory)
    for _ in range(50):
        before, state = state.places, memory.move(state, told(scale=3.0))
        assert bool((state.places > before).all())


def total(beta: float, place: float) -> float:
    """Σ over whole numbers u of exp(−β (κ − u)²)."""
    at = torch.arange(-200, 201, dtype=F64)
    one = torch.tensor([beta], dtype=F64)
    return float(window(torch.zeros(1, dtype=F64), one.log(), torch.tensor([place], dtype=F64), at).exp().sum())


@pytest.mark.parametrize("beta", [0.01, 0.3, 1.2])
@pytest.mark.parametrize("place", [0.0, 0.5, 3.1])
def test_a_wide_window_sums_to_its_integral(beta: float, place: float) -> None:
    """Poisson's sum: √(π/β) (1 + 2 Σ_m exp(−π² m²/β) cos 2πmκ), so a share 2 exp(−π²/β) away at most: .06 % at 1.2."""
    share = abs(total(beta, place) / sqrt(pi / beta) - 1)
    assert share <= 2 * exp(-(pi**2) / beta) + 1e-12
    assert share <= 6e-4


def test_a_sharp_window_does_not_sum_to_its_integral() -> None:
    assert abs(total(5.0, 0.0) / sqrt(pi / 5) - 1) > 0.25
    assert total(50.0, 0.5) < 1e-4  # between two characters it reads nearly nothing


def test_weights_are_not_normalised() -> None:
    memory = SoftWindow(1, K)
    state = memory.write(memory.reset(dtype=F64), torch.ones(1, 41, 1, dtype=F64))
    to = Moved(torch.full((1, K), 0.4, dtype=F64), torch.zeros(1, K, dtype=F64), torch.full((1, K), 3.0, dtype=F64))
    reading, _ = memory.step(state, to)
    wanted = K * exp(0.4) * sqrt(pi)
    assert abs(reading.output.item() / wanted - 1) < 6e-4
    assert reading.output.item() > 20
    assert reading.peak is not None
    assert reading.peak.item() > 1
    assert reading.peak_at is not None
    assert reading.peak_at.item() == round(exp(3.0)) - 1
    assert reading.entropy is None
    assert bool(reading.lse.isnan().all())
    with pytest.raises(regard.RegardError, match="cannot be merged: a window's weights sum to no 1"):
        regard.Reading.merge(reading, reading)


def test_softplus_steps_and_divided_ones_are_other_windows() -> None:
    """Ports have softplus for exp, a step over 25 and a division by β; none of them is what the paper says."""
    memory = SoftWindow(E, 1)
    state = memory.move(with_text(memory, 1), Moved(*(torch.full((1, 1), x, dtype=F64) for x in (0.0, 1.0, -0.5))))
    assert state.places.item() == pytest.approx(exp(-0.5), abs=1e-12)
    one = memory.weights(state)[0, 0].item()
    assert one == pytest.approx(exp(-exp(1.0) * (exp(-0.5) - 1) ** 2), abs=1e-12)


def test_before_the_first_move_nothing_is_read() -> None:
    memory = SoftWindow(E, K)
    state = with_text(memory)
    assert memory.read(state).output.abs().max() == 0
    assert memory.ended(state).tolist() == [False] * B


def test_rows_without_text_read_nothing() -> None:
    memory = SoftWindow(E, K)
    state = memory.reset(B, dtype=F64)
    for written in (state, memory.write(state, torch.randn(B, 2, E, dtype=F64), valid=torch.eye(3, 2).bool())):
        reading, after = memory.step(written, told())
        assert reading.output[2].abs().max() == 0
        assert reading.lse[2].item() == -torch.inf
        assert reading.seen[2].item() == 0
        assert reading.peak is not None
        assert reading.peak[2].item() == 0
        assert reading.peak_at is not None
        assert reading.peak_at[2].item() == -1
        assert memory.ended(after)[2].item()


def test_rows_of_their_own_lengths_wherever_they_are_padded_are_as_alone() -> None:
    memory = SoftWindow(E, K)
    text = torch.randn(3, 6, E, dtype=F64)
    valid = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 0, 1, 1, 0, 1]]).bool()
    text[~valid] = torch.nan
    state = memory.write(memory.reset(3, dtype=F64), text[:, :4], valid=valid[:, :4])
    state = memory.write(state, text[:, 4:], valid=valid[:, 4:])
    to = told()
    reading, state = memory.step(state, to)
    assert state.lengths.tolist() == [4, 3, 4]
    for b in range(3):
        alone = memory.write(memory.reset(dtype=F64), text[b : b + 1, valid[b]])
        own, moved = memory.step(alone, Moved(*(x[b : b + 1] for x in to)))
        torch.testing.assert_close(reading.output[b], own.output[0], rtol=0, atol=1e-13)
        assert torch.equal(memory.ended(state)[b], memory.ended(moved)[0])
    assert memory.weights(state)[1, 3:].abs().max() == 0


def test_a_row_ends_when_the_window_is_past_its_text() -> None:
    memory = SoftWindow(E, 1)
    on = Moved(*(torch.full((2, 1), x, dtype=F64) for x in (0.0, 8.0, 0.0)))  # so sharp that most weights round to 0
    state = memory.write(memory.reset(2, dtype=F64), torch.randn(2, 3, E, dtype=F64), valid=torch.ones(2, 3).bool())
    state = state._replace(lengths=torch.tensor([3, 1]))
    found = []
    for _ in range(6):
        state = memory.move(state, on)
        found.append(memory.ended(state).tolist())
    assert found == [[False, False], [False, True], [False, True], [True, True], [True, True], [True, True]]


@pytest.mark.parametrize("number", [-1e4, -50.0, 50.0, 1e4, 1e30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_windows_however_high_or_sharp_are_finite(number: float, dtype: torch.dtype) -> None:
    memory = SoftWindow(E, 1)
    for at in range(3):
        given = [torch.full((1, 1), number * (n == at), dtype=dtype, requires_grad=True) for n in range(3)]
        state = memory.write(memory.reset(dtype=dtype), torch.randn(1, U, E, dtype=dtype))
        for _ in range(3):
            reading, state = memory.step(state, Moved(*given))
        reading.output.sum().backward()
        assert bool(reading.output.isfinite().all())
        assert all(x.grad is not None and bool(x.grad.isfinite().all()) for x in given)


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_half_precision_is_kept_in_float32(half: torch.dtype) -> None:
    memory = SoftWindow(E, K)
    text, to = torch.randn(B, U, E).to(half), Moved(*(x.to(half) for x in told()))
    state = memory.write(memory.reset(B, dtype=half), text)
    assert {x.dtype for x in state if x.is_floating_point()} == {torch.float32}
    reading, state = memory.step(state, to)
    wanted, _ = memory.step(memory.write(memory.reset(B), text.float()), Moved(*(x.float() for x in to)))
    assert torch.equal(reading.output, wanted.output)


def test_states_are_their_users() -> None:
    memory = SoftWindow(E, K)
    state = with_text(memory)
    before = [x.clone() for x in state]
    _, after = memory.step(state, told())
    assert all(torch.equal(x, y) for x, y in zip(before, state, strict=True))
    index = torch.tensor([2, 2, 0, 1])
    assert torch.equal(memory.read(memory.reorder(after, index)).output, memory.read(after).output[index])
    assert memory.nbytes(state) == 8 * B * (U * E + 3 * K + 1)
    assert memory.cost(2 * U).flops > memory.cost(U).flops


def test_what_does_not_fit_is_refused() -> None:
    memory = SoftWindow(E, K)
    state, to = with_text(memory), told()
    cases: dict[str, Callable[[], object]] = {
        r"width is 0, wanted a whole number of at least 1": lambda: SoftWindow(0),
        r"windows is 2\.0": lambda: SoftWindow(E, 2.0),  # type: ignore[arg-type]
        r"text is \(3, 7\) of torch\.int64, wanted .*one_hot": lambda: memory.write(state, torch.zeros(B, U).long()),
        r"text is \(2, 7, 5\)": lambda: memory.write(state, torch.zeros(2, U, E)),
        r"valid is \(3, 6\)": lambda: memory.write(state, torch.zeros(B, U, E), valid=torch.ones(B, 6).bool()),
        r"to\.step is \(3, 1\)": lambda: memory.move(state, to._replace(step=to.step[:, :1])),
        r"to\.height is \(3, 11\) of torch\.int64": lambda: memory.move(state, to._replace(height=to.height.long())),
        r"state\.places is \(3, 11\), wanted \(3, 12\)": lambda: SoftWindow(E, K + 1).read(state),
    }
    for message, call in cases.items():
        with pytest.raises(regard.RegardError, match=message):
            call()
