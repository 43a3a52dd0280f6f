"""The computer as a layer: any split of a sequence, rows of their own lengths, and bounds that hold while it learns."""

from __future__ import annotations

import pytest
import torch

import regard
from regard.memory import DifferentiableComputer
from regard.nn import Computer
from tests.memory.differentiable.paper import Paper
from tests.memory.differentiable.test_computer import bounds

MEMORY = DifferentiableComputer(slots=7, width=5, reads=2)


def layer(layers: int = 1) -> Computer:
    torch.manual_seed(0)
    return Computer(inputs=3, outputs=4, memory=MEMORY, hidden=11, layers=layers).double()


@pytest.mark.parametrize("layers", [1, 2])
def test_answers_are_the_papers(layers: int) -> None:
    """y_t = W_y [h^1; …] + W_r [r^1; …], ξ_t = W_ξ [h^1; …], each layer seeing x, the reads and the layer below."""
    net = layer(layers)
    x = torch.randn(1, 9, 3, dtype=torch.float64)
    y, _ = net(x)
    paper, found = Paper(7, 5, 2), torch.zeros(1, 10, dtype=torch.float64)
    states = [(torch.zeros(1, 11, dtype=torch.float64),) * 2 for _ in range(layers)]
    for t in range(9):
        hs: list[torch.Tensor] = []
        for n, cell in enumerate(net.controller):
            assert isinstance(cell, torch.nn.LSTMCell)
            w, r, b = cell.weight_ih, cell.weight_hh, cell.bias_ih + cell.bias_hh
            given = torch.cat([x[:, t], found, *hs[n - 1 : n]], 1) if n else torch.cat([x[:, t], found], 1)
            i, f, g, o = (given @ w.T + states[n][0] @ r.T + b).chunk(4, 1)
            c = f.sigmoid() * states[n][1] + i.sigmoid() * g.tanh()
            states[n] = (o.sigmoid() * c.tanh(), c)
            hs.append(states[n][0])
        h = torch.cat(hs, 1)
        xi = h @ net.interface.weight.T + net.interface.bias
        found = torch.tensor(paper.step(xi[0].tolist()), dtype=torch.float64).reshape(1, 10)
        wanted = h @ net.from_controller.weight.T + net.from_controller.bias + found @ net.from_memory.weight.T
        torch.testing.assert_close(y[:, t], wanted, atol=1e-10, rtol=0)


def test_any_split_gives_the_same() -> None:
    net, x = layer(2), torch.randn(2, 9, 3, dtype=torch.float64)
    whole, _ = net(x)
    for sizes in ([9], [1] * 9, [4, 5], [2, 0, 7]):
        state, parts = None, []
        for part in x.split(sizes, 1):
            y, state = net(part, state)
            parts.append(y)
        torch.testing.assert_close(torch.cat(parts, 1), whole)


def test_rows_have_lengths_of_their_own() -> None:
    net, x = layer(2), torch.randn(3, 9, 3, dtype=torch.float64)
    valid = torch.ones(3, 9, dtype=torch.bool)
    valid[0, :4] = False  # padded on the left
    valid[1, 6:] = False
    valid[2, [1, 5]] = False
    y, state = net(x, valid=valid)
    reading = net.read(x, valid=valid)
    for b in range(3):
        at = valid[b]
        alone, after = net(x[b : b + 1, at])
        torch.testing.assert_close(y[b, at], alone[0])
        torch.testing.assert_close(reading.output[b, :, at], net.read(x[b : b + 1, at]).output[0])
        torch.testing.assert_close(state.memory.link[b], after.memory.link[0])
        torch.testing.assert_close(state.hidden[b], after.hidden[0])
        assert not y[b, ~at].any()
        assert not reading.output[b, :, ~at].any()


def test_rows_are_reordered_between_steps() -> None:
    net, x = layer(2), torch.randn(3, 6, 3, dtype=torch.float64)
    _, state = net(x[:, :3])
    wanted, _ = net(x[:, 3:], state)
    index = torch.tensor([2, 0, 0, 1])
    found, _ = net(x[index, 3:], net.reorder(state, index))
    torch.testing.assert_close(found, wanted[index])
    with pytest.raises(regard.RegardError, match="index names rows 0 to 3"):
        net.reorder(state, torch.tensor([0, 3]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_keeps_its_memory_in_float32(dtype: torch.dtype) -> None:
    net, x = layer().to(dtype), torch.randn(2, 30, 3, dtype=dtype)
    y, state = net(x)
    assert y.dtype == state.hidden.dtype == dtype
    assert {part.dtype for part in state.memory} == {torch.float32}
    bounds(state.memory, slack=1e-5)
    wanted, _ = net.double()(x.double())
    torch.testing.assert_close(y.double(), wanted, atol=0.05, rtol=0.05)


def test_what_the_paper_promises_holds_while_it_learns() -> None:
    net = layer().float()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for step in range(12):
        x = torch.randn(5, 8, 3)
        state, loss = net.reset(5), torch.zeros(())
        for t in range(8):
            y, state = net.step(x[:, t], state)
            bounds(state.memory, slack=1e-5)
            loss = loss + (y[:, :3] - x[:, max(t - 3, 0)]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in net.parameters()), step
        optimizer.step()


def test_what_does_not_fit_is_refused() -> None:
    net = layer()
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    with pytest.raises(regard.RegardError, match=r"x is \(2, 5, 2\)"):
        net(x[..., :2])
    with pytest.raises(regard.RegardError, match="valid is"):
        net(x, valid=torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(regard.RegardError, match="x has 2 rows and the state 3"):
        net(x, net.reset(3))
    with pytest.raises(regard.RegardError, match="no steps"):
        net.read(x[:, :0])
    with pytest.raises(regard.RegardError, match="hidden is 0"):
        Computer(3, 4, MEMORY, hidden=0)
