"""The Neural Turing Machine: the paper with plain loops, states, rows of their own lengths."""

from __future__ import annotations

from math import exp, log1p, tanh

import pytest
import torch
from torch import Tensor

import regard
from regard.memory.turing import TuringMemory
from regard.nn import MachineState, NeuralTuringMachine
from tests.memory.turing import paper

I, O, HIDDEN, S, D = 3, 2, 7, 11, 5


def machine(reads: int = 1, writes: int = 1, reach: int = 1) -> NeuralTuringMachine:
    found = NeuralTuringMachine(I, O, HIDDEN, TuringMemory(S, D, reads, writes, reach)).double()
    for p in found.parameters():
        torch.nn.init.normal_(p, std=0.5)
    return found


def sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x))


def linear(weight: Tensor, bias: Tensor, x: list[float]) -> list[float]:
    rows = zip(weight.tolist(), bias.tolist(), strict=True)
    return [b + sum(w * v for w, v in zip(row, x, strict=True)) for row, b in rows]


def by_loops(m: NeuralTuringMachine, inputs: list[list[float]]) -> list[list[float]]:
    """The outputs for one sequence, every head and every number by itself."""
    R, W, n = m.memory.reads, m.memory.writes, 2 * m.memory.reach + 1
    first = m.first.tolist()
    hidden, cell = [tanh(x) for x in first[:HIDDEN]], first[HIDDEN : 2 * HIDDEN]
    read = [tanh(x) for x in first[2 * HIDDEN :]]
    matrix = [[1e-6] * D for _ in range(S)]
    places = [[1.0] + [0.0] * (S - 1) for _ in range(R + W)]
    outputs = []
    for x in inputs:
        c = m.controller
        a = linear(c.weight_ih, c.bias_ih, x + read)
        b = linear(c.weight_hh, c.bias_hh, hidden)
        i, f, g, o = ([p + q for p, q in zip(a, b, strict=True)][k * HIDDEN : (k + 1) * HIDDEN] for k in range(4))
        cell = [sigmoid(f[k]) * cell[k] + sigmoid(i[k]) * tanh(g[k]) for k in range(HIDDEN)]
        hidden = [sigmoid(o[k]) * tanh(cell[k]) for k in range(HIDDEN)]
        told = linear(m.tell.weight, m.tell.bias, hidden)
        for h in range(R + W):
            mine, told = told[: D + 3 + n], told[D + 3 + n :]
            moves = [exp(v) for v in mine[D + 3 :]]
            places[h] = paper.address(
                matrix,
                places[h],
                [tanh(v) for v in mine[:D]],
                log1p(exp(mine[D + 1])),
                sigmoid(mine[D]),
                [v / sum(moves) for v in moves],
                1 + log1p(exp(mine[D + 2])),
            )
        erase = [[sigmoid(v) for v in told[h * D : (h + 1) * D]] for h in range(W)]
        add = [[tanh(v) for v in told[(W + h) * D : (W + h + 1) * D]] for h in range(W)]
        matrix = paper.write(matrix, places[R:], erase, add)
        read = [v for h in range(R) for v in paper.read(matrix, places[h])]
        outputs.append(linear(m.answer.weight, m.answer.bias, hidden + read))
    return outputs


@pytest.mark.parametrize(("reads", "writes", "reach"), [(1, 1, 1), (2, 3, 2)])
def test_a_machine_is_the_papers(reads: int, writes: int, reach: int) -> None:
    m = machine(reads, writes, reach)
    inputs = torch.randn(2, 4, I, dtype=torch.float64)
    outputs, _ = m(inputs)
    for b in range(2):
        wanted = torch.tensor(by_loops(m, inputs[b].tolist()), dtype=torch.float64)
        torch.testing.assert_close(outputs[b], wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("cut", [0, 1, 4, 6])
def test_a_sequence_in_parts_is_the_sequence(cut: int) -> None:
    m, inputs = machine(), torch.randn(2, 6, I, dtype=torch.float64)
    whole, last = m(inputs)
    first, state = m(inputs[:, :cut])
    second, end = m(inputs[:, cut:], state)
    torch.testing.assert_close(torch.cat([first, second], 1), whole, rtol=0, atol=1e-14)
    torch.testing.assert_close(end.memory.matrix, last.memory.matrix, rtol=0, atol=1e-14)
    assert isinstance(end, MachineState)


def test_rows_of_their_own_lengths_and_with_padding_on_the_left_are_as_alone() -> None:
    m, inputs = machine(), torch.randn(3, 6, I, dtype=torch.float64)
    valid = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 0, 1, 1, 0, 1]]).bool()
    inputs[~valid] = torch.nan
    outputs, state = m(inputs, valid=valid)
    for b in range(3):
        alone, end = m(inputs[b : b + 1, valid[b]])
        torch.testing.assert_close(outputs[b, valid[b]], alone[0], rtol=0, atol=1e-13)
        torch.testing.assert_close(state.memory.matrix[b], end.memory.matrix[0], rtol=0, atol=1e-13)
        torch.testing.assert_close(state.read[b], end.read[0], rtol=0, atol=1e-13)
    assert outputs[~valid].abs().max() == 0
    outputs.sum().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in m.parameters())


def test_rows_know_nothing_of_each_other() -> None:
    m, inputs = machine(), torch.randn(3, 5, I, dtype=torch.float64, requires_grad=True)
    outputs, _ = m(inputs)
    (gradient,) = torch.autograd.grad(outputs[1].sum(), inputs)
    assert gradient[[0, 2]].abs().max() == 0
    assert gradient[1].abs().amax(-1).min() > 0


def test_gradients_are_those_of_differences() -> None:
    m, inputs = machine(2, 1), torch.randn(1, 3, I, dtype=torch.float64)
    names, given = zip(*((name, p.detach().clone().requires_grad_()) for name, p in m.named_parameters()), strict=True)

    def run(*parameters: Tensor) -> Tensor:
        found = torch.func.functional_call(m, dict(zip(names, parameters, strict=True)), (inputs,))
        outputs: Tensor = found[0]
        return outputs

    assert torch.autograd.gradcheck(run, given, fast_mode=True)


def test_every_parameter_is_learnt() -> None:
    m = machine()
    m(torch.randn(2, 4, I, dtype=torch.float64))[0].square().sum().backward()
    assert [name for name, p in m.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0] == []


def test_half_precision_keeps_its_memory_in_float32() -> None:
    m = machine().to(torch.bfloat16)
    outputs, state = m(torch.randn(2, 4, I, dtype=torch.bfloat16))
    assert outputs.dtype == torch.bfloat16
    assert state.memory.matrix.dtype == torch.float32


def test_what_does_not_fit_is_refused() -> None:
    m = machine()
    with pytest.raises(regard.RegardError, match=r"inputs are \(2, 4, 4\), wanted \(B, L, 3\)"):
        m(torch.zeros(2, 4, I + 1, dtype=torch.float64))
    with pytest.raises(regard.RegardError, match=r"valid is \(2, 3\) of torch\.bool, wanted booleans \(2, 4\)"):
        m(torch.zeros(2, 4, I, dtype=torch.float64), valid=torch.ones(2, 3, dtype=torch.bool))
    with pytest.raises(regard.RegardError, match=r"state is for 3 rows, inputs are for 2"):
        m(torch.zeros(2, 4, I, dtype=torch.float64), m.reset(3))
    with pytest.raises(regard.RegardError, match="hidden is 0"):
        NeuralTuringMachine(I, O, 0, m.memory)
