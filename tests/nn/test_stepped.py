"""Layers of an LSTM by steps and as a whole, with peepholes as in the paper and without."""

from __future__ import annotations

from math import exp, tanh

import pytest
import torch

from regard.nn.stepped import PeepholeLSTM, SteppedLSTM, walked

I, N, B, L = 3, 5, 2, 7
F64 = torch.float64
LAYERS = [SteppedLSTM, PeepholeLSTM]


def sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x))


def test_peepholes_are_the_papers() -> None:
    """Graves 2013, equations 7 to 11, with plain loops: i and f see the cell before, o the one after."""
    layer = PeepholeLSTM(I, N).double()
    x = torch.randn(1, L, I, dtype=F64)
    found, (h_last, c_last) = layer.whole(x, (torch.zeros(1, N, dtype=F64), torch.zeros(1, N, dtype=F64)))
    of_x, bias, of_h = layer.of_input.weight.tolist(), layer.of_input.bias.tolist(), layer.of_hidden.weight.tolist()
    seen = layer.peepholes.tolist()
    h, c = [0.0] * N, [0.0] * N
    for t in range(L):
        given = x[0, t].tolist()

        def told(row: int, given: list[float] = given, h: list[float] = h) -> float:
            inner = sum(w * v for w, v in zip(of_x[row], given, strict=True))
            return float(inner + sum(w * v for w, v in zip(of_h[row], h, strict=True)) + bias[row])

        after_h, after_c = [], []
        for n in range(N):
            i = sigmoid(told(n) + seen[0][n] * c[n])
            f = sigmoid(told(N + n) + seen[1][n] * c[n])
            cell = f * c[n] + i * tanh(told(2 * N + n))
            o = sigmoid(told(3 * N + n) + seen[2][n] * cell)
            after_h.append(o * tanh(cell))
            after_c.append(cell)
        h, c = after_h, after_c
        torch.testing.assert_close(found[0, t], torch.tensor(h, dtype=F64), rtol=0, atol=1e-12)
    assert torch.equal(h_last, found[:, -1])
    torch.testing.assert_close(c_last[0], torch.tensor(c, dtype=F64), rtol=0, atol=1e-12)


def test_without_peepholes_it_is_the_lstm_of_pytorch() -> None:
    layer = PeepholeLSTM(I, N).double()
    torch.nn.init.zeros_(layer.peepholes)
    other = SteppedLSTM(I, N).double()
    with torch.no_grad():
        own = (layer.of_input.weight, layer.of_hidden.weight, layer.of_input.bias, torch.zeros(4 * N))
        for theirs, weights in zip(other.parameters(), own, strict=True):
            theirs.copy_(weights)
    x, state = torch.randn(B, L, I, dtype=F64), (torch.randn(B, N, dtype=F64), torch.randn(B, N, dtype=F64))
    torch.testing.assert_close(layer.whole(x, state)[0], other.whole(x, state)[0], rtol=0, atol=1e-12)
    torch.nn.init.normal_(layer.peepholes)
    assert (layer.whole(x, state)[0] - other.whole(x, state)[0]).abs().max() > 1e-2  # they do something


@pytest.mark.parametrize("kind", LAYERS)
def test_steps_are_the_whole(kind: type[SteppedLSTM | PeepholeLSTM]) -> None:
    layer = kind(I, N).double()
    x, state = torch.randn(B, L, I, dtype=F64), (torch.randn(B, N, dtype=F64), torch.randn(B, N, dtype=F64))
    whole, last = layer.whole(x, state)
    valid = torch.ones(B, L).bool()
    stepped, end = walked(layer, x, state, valid)
    torch.testing.assert_close(stepped, whole, rtol=0, atol=1e-13)
    for a, b in zip(end, last, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-13)
    assert layer.whole(x[:, :0], state)[0].shape == walked(layer, x[:, :0], state, valid[:, :0])[0].shape == (B, 0, N)
