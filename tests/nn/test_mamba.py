"""The Mamba block: its parts in plain loops, another implementation, one step at a time, padding, precision."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import regard
from regard.memory.space import Discretization, Euler, ZeroOrderHold
from regard.nn import Mamba

B, L, WIDTH, N = 3, 23, 17, 5
BOTH = [Euler(), ZeroOrderHold()]


def block(discretization: Discretization | None = None, **more: int) -> Mamba:
    layer = Mamba(WIDTH, states=N, discretization=discretization, **more).double()
    with torch.no_grad():
        layer.dt_proj.bias.add_(2.0)  # steps that matter within a short sequence
        layer.A_log.add_(torch.randn_like(layer.A_log) / 4)
        layer.D.add_(torch.randn_like(layer.D))
    return layer


def by_the_paper(layer: Mamba, u: Tensor) -> Tensor:
    """Figure 3 with algorithm 2, one sequence (L, width), one step after the other."""
    p = dict(layer.named_parameters())
    E, K, R = layer.inner, layer.kernel, layer.rank
    past, h, found = torch.zeros(K, E).double(), torch.zeros(E, N).double(), []
    for u_t in u:
        both = p["in_proj.weight"] @ u_t
        past = torch.cat([past[1:], both[None, :E]])
        x = F.silu((p["conv1d.weight"][:, 0] * past.T).sum(1) + p["conv1d.bias"])
        told = p["x_proj.weight"] @ x
        delta = torch.log1p(torch.exp(p["dt_proj.weight"] @ told[:R] + p["dt_proj.bias"]))
        A, b, c = -torch.exp(p["A_log"]), told[R : R + N], told[R + N :]
        decay = torch.exp(delta[:, None] * A)
        hold = isinstance(layer.discretization, ZeroOrderHold)
        w = (decay - 1) / A if hold else delta[:, None]
        h = decay * h + w * b * x[:, None]
        found.append(p["out_proj.weight"] @ ((h @ c + p["D"] * x) * F.silu(both[E:])))
    return torch.stack(found)


@pytest.mark.parametrize("discretization", BOTH, ids=str)
def test_it_is_what_the_paper_says(discretization: Discretization) -> None:
    layer, u = block(discretization), torch.randn(B, L, WIDTH).double()
    wanted = torch.stack([by_the_paper(layer, row) for row in u])
    torch.testing.assert_close(layer(u), wanted, atol=1e-10, rtol=1e-10)


def test_it_is_the_mixer_of_transformers_with_its_weights() -> None:
    from transformers import MambaConfig
    from transformers.models.mamba.modeling_mamba import MambaMixer

    layer = block(rank=3)
    config = MambaConfig(
        hidden_size=WIDTH, state_size=N, expand=2, conv_kernel=4, time_step_rank=3, use_bias=False, use_conv_bias=True
    )
    theirs = MambaMixer(config, layer_idx=0).double().eval()
    theirs.load_state_dict(layer.state_dict())  # the same names and shapes, all of them
    u = torch.randn(B, L, WIDTH).double()
    # It computes the scan in single precision.
    torch.testing.assert_close(layer(u), theirs(u), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("discretization", BOTH, ids=str)
@pytest.mark.parametrize("lengths", [[1] * L, [7, 0, 1, 15], [2, 21]], ids=str)
def test_step_by_step_it_is_the_whole(discretization: Discretization, lengths: list[int]) -> None:
    layer, u = block(discretization), torch.randn(B, L, WIDTH).double()
    state, found, sizes = layer.reset(B), [], set()
    for part in u.split(lengths, 1):
        o, state = layer.step(state, part)
        found.append(o)
        sizes.add((tuple(state.tail.shape), layer.memory.nbytes(state.memory)))
    torch.testing.assert_close(torch.cat(found, 1), layer(u), atol=1e-10, rtol=1e-10)
    assert len(sizes) == 1  # constant


@pytest.mark.parametrize("cut", [0, 1, 2, 10, L])
def test_what_is_not_valid_takes_no_place(cut: int) -> None:
    """Holes anywhere, and chunks: each row is what it is alone and without them, also what follows a hole."""
    layer, u = block(), torch.randn(B, L, WIDTH).double()
    valid = torch.rand(B, L) < 0.6
    valid[0] = torch.arange(L) >= 9  # left padding
    u = u.masked_fill(~valid.unsqueeze(-1), math.nan)
    state, found = layer.reset(B), []
    for part in (slice(cut), slice(cut, None)):
        o, state = layer.step(state, u[:, part], valid=valid[:, part])
        found.append(o)
    whole = torch.cat(found, 1)
    for b in range(B):
        alone, last = layer.step(layer.reset(), u[b : b + 1, valid[b]])
        torch.testing.assert_close(whole[b, valid[b]], alone[0], atol=1e-10, rtol=1e-10)
        torch.testing.assert_close(state.tail[b], last.tail[0], atol=1e-10, rtol=1e-10)
        torch.testing.assert_close(state.memory.h[b], last.memory.h[0], atol=1e-10, rtol=1e-10)
    assert whole[~valid].abs().max() == 0


def test_the_future_is_not_seen() -> None:
    layer, u = block(), torch.randn(B, L, WIDTH).double()
    before = layer(u)
    u[:, 11:] += 1.0
    after = layer(u)
    assert torch.equal(before[:, :11], after[:, :11])
    assert not torch.isclose(before[:, 11], after[:, 11]).any()


def test_gradients() -> None:
    layer = Mamba(3, states=2, kernel=3).double()
    u = torch.randn(2, 5, 3).double().requires_grad_()
    names, values = zip(*layer.named_parameters(), strict=True)

    def run(u: Tensor, *values: Tensor) -> Tensor:
        found: Tensor = torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (u,))
        return found

    assert torch.autograd.gradcheck(run, (u, *values))


def test_it_begins_as_published() -> None:
    layer = Mamba(64, states=16)
    assert (layer.rank, layer.inner, layer.kernel) == (4, 128, 4)
    torch.testing.assert_close(layer.memory.A, -torch.arange(1.0, 17).expand(1, 128, 16))
    delta = F.softplus(Mamba(2048).dt_proj.bias)  # 4,096 draws
    assert 1e-3 * 0.99 < delta.min() < 1.02e-3
    assert 0.098 < delta.max() < 0.101
    middle = delta.log().mean()
    assert abs(middle - math.log(1e-2)) < 5 * math.log(100) / math.sqrt(12 * 4096)
    assert layer.dt_proj.weight.abs().max() <= 4**-0.5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_in_half_precision_the_state_is_single(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layer = Mamba(32).to(dtype)
    u = torch.randn(2, 300, 32)
    o, state = layer.step(layer.reset(2), u.to(dtype))
    assert o.dtype == state.tail.dtype == dtype
    assert state.memory.h.dtype == torch.float32
    exact = layer.float()(u.to(dtype).float())
    assert (o.float() - exact).norm() < 0.02 * exact.norm()


def test_what_does_not_fit_is_refused() -> None:
    layer = block()
    with pytest.raises(regard.RegardError, match=r"Mamba: x is \(3, 17\), wanted \(B, L, 17\)"):
        layer(torch.zeros(3, WIDTH))
    with pytest.raises(regard.RegardError, match="the state's tail is"):
        layer.step(layer.reset(2), torch.zeros(3, 1, WIDTH).double())
    with pytest.raises(regard.RegardError, match="valid is"):
        layer(torch.zeros(3, 4, WIDTH).double(), valid=torch.ones(3, 4))
    with pytest.raises(regard.RegardError, match="states is 0"):
        Mamba(3, states=0)
    with pytest.raises(regard.RegardError, match="rank is 0"):
        Mamba(3, rank=0)


def test_it_compiles_whole() -> None:
    layer, u = block(), torch.randn(2, 4, WIDTH).double()
    run = torch.compile(layer, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(run(u), layer(u))
