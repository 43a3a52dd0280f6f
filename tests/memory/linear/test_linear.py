"""Linear attention: its three forms are one function, in any chunks, for rows with lengths of their own."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import regard
from regard.memory import EluPlusOne, Exponential, FeatureScore, LinearMemory, PairMemory, SquaredReLU
from regard.memory.linear import walking
from regard.memory.linear.sums import FeatureMemory
from tests.memory.linear.given import B, D, E, G, H, L, every, qkv, stepped

pytestmark = pytest.mark.usefixtures("short")


def recurrence(phi: Callable[[Tensor], Tensor], q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Katharopoulos et al. (2020), equations 18 to 20, one pair after the other, a head at a time."""
    rows = []
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            g = h // (q.shape[1] // k.shape[1])
            s, z = torch.zeros(()), torch.zeros(())
            for t in range(k.shape[2]):
                s = s + phi(k[b, g, t])[:, None] * v[b, g, t][None]
                z = z + phi(k[b, g, t])
                rows.append(phi(q[b, h, t]) @ s / (phi(q[b, h, t]) @ z))
    return torch.stack(rows).view(*q.shape[:3], -1)


def elu_plus_one(x: Tensor) -> Tensor:
    return torch.nn.functional.elu(x) + 1


def test_elu_plus_one_is_what_the_paper_says() -> None:
    x = torch.linspace(-5, 5, 11, dtype=torch.float64)
    torch.testing.assert_close(EluPlusOne()(x), elu_plus_one(x), rtol=1e-14, atol=0)
    q, k, v = qkv()
    memory = LinearMemory(G, D, E)
    torch.testing.assert_close(stepped(memory, q, k, v).output, recurrence(elu_plus_one, q, k, v), rtol=0, atol=1e-10)


@every
def test_three_forms_are_equal_forward_and_backward(memory: FeatureMemory) -> None:
    given = [x.requires_grad_() for x in qkv()]
    weight = torch.randn(B, H, L, E, dtype=torch.float64)
    phi = memory.map

    def quadratic(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        weights = (phi(q) @ phi(k).repeat_interleave(H // G, 1).mT).tril()
        return weights / weights.sum(-1, keepdim=True) @ v.repeat_interleave(H // G, 1)

    found = []
    for form in (
        lambda q, k, v: stepped(memory, q, k, v).output,
        quadratic,
        lambda q, k, v: recurrence(phi, q, k, v),
        lambda q, k, v: regard.attend(q, k, v, score=FeatureScore(phi), mask=regard.mask.causal(), engine="reference"),
    ):
        output = form(*given)
        found.append([output, *torch.autograd.grad((output * weight).sum(), given)])
    for other in found[1:]:
        for mine, theirs in zip(found[0], other, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-10)


@every
def test_not_causal_the_product_goes_together_either_way(memory: FeatureMemory) -> None:
    """Equation 4 = equation 5: (φ(Q) φ(K)ᵀ) V = φ(Q) (φ(K)ᵀ V), lse and gradients too."""
    given = [x.requires_grad_() for x in qkv()]
    q, k, v = given
    mine = memory.read(memory.write(memory.reset(B), k, v), q)
    wanted = regard.read(q, k, v, score=FeatureScore(memory.map), engine="reference")
    for a, b in ((mine.output, wanted.output), (mine.lse, wanted.lse)):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)
        weight = torch.randn_like(a)
        for x, y in zip(
            torch.autograd.grad((a * weight).sum(), given, allow_unused=True, retain_graph=True),
            torch.autograd.grad((b * weight).sum(), given, allow_unused=True, retain_graph=True),
            strict=True,
        ):
            assert (x is None) == (y is None) or not (x if y is None else y).any()
            if x is not None and y is not None:
                torch.testing.assert_close(x, y, rtol=0, atol=1e-10)
    assert torch.equal(mine.seen, wanted.seen)


@every
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_any_split_and_any_padding_is_one_pair_after_the_other(memory: FeatureMemory, data: st.DataObject) -> None:
    q, k, v = qkv(seed=data.draw(st.integers(0, 99)))
    lengths = data.draw(st.lists(st.integers(0, L), min_size=B, max_size=B))
    valid = torch.arange(L) >= L - torch.tensor(lengths)[:, None]  # left padding
    if data.draw(st.booleans()):
        valid = torch.rand(B, L) < 0.7  # holes
    k, v, q = (torch.where(valid[:, None, :, None], x, math.nan) for x in (k, v, q))  # what is not there may hold NaN
    cuts = sorted(data.draw(st.lists(st.integers(0, L), max_size=3)))
    state = memory.reset(B, dtype=torch.float64)
    parts = []
    for first, last in zip([0, *cuts], [*cuts, L], strict=True):
        if first < last:
            at = slice(first, last)
            reading, state = memory.step(state, q[:, :, at], k[:, :, at], v[:, :, at], valid=valid[:, at])
            parts.append(reading)
    for b in range(B):
        here = valid[b]
        for name in ("output", "lse", "seen"):
            mine = torch.cat([getattr(part, name)[b] for part in parts], 1)
            assert not (mine[:, ~here][mine[:, ~here] != -math.inf]).any()
            if here.any():
                alone = [x[b : b + 1, :, here] for x in (q, k, v)]
                one = PairMemory.step(memory, memory.reset(1, dtype=torch.float64), *alone)[0]
                torch.testing.assert_close(mine[:, here], getattr(one, name)[0], rtol=0, atol=1e-10)


@every
def test_the_last_state_is_what_write_gives_and_carries_gradients(memory: FeatureMemory) -> None:
    q, k, v = (x.requires_grad_() for x in qkv())
    valid = torch.rand(B, L) < 0.8
    valid[0] = False
    _, stepwise = memory.step(memory.reset(B), q, k, v, valid=valid)
    at_once = memory.write(memory.reset(B), k, v, valid=valid)
    found = []
    for state in (stepwise, at_once):
        reading = memory.read(state, q)
        assert reading.output[0].abs().max() == 0
        assert bool((reading.lse[0] == -math.inf).all())
        found.append((reading.output, *torch.autograd.grad(reading.output.square().sum(), (q, k, v))))
    for a, b in zip(*found, strict=True):
        assert not a[0].any()
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)
    assert torch.equal(stepwise.seen, at_once.seen)


@every
def test_weights_are_a_distribution_of_bounded_rank(memory: FeatureMemory) -> None:
    q, k, _ = qkv(length=53)
    k = k[:, :1]
    one = LinearMemory(1, D, 53, features=memory.map)
    weights = one.read(one.write(one.reset(B), k, torch.eye(53, dtype=torch.float64).expand(B, 1, 53, 53)), q).output
    assert weights.min() >= 0
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, 53, dtype=torch.float64))
    assert int(torch.linalg.matrix_rank(weights).max()) <= one.map.size(D) < 53
    assert int(torch.linalg.matrix_rank((q[:, :1] @ k.mT).exp()).min()) == 53


def test_it_is_another_function_than_softmax_attention() -> None:
    q, k, v = qkv(length=53)
    linear = stepped(LinearMemory(G, D, E), q, k, v).output
    exact = regard.attend(q, k, v, mask=regard.mask.causal())
    assert (linear - exact).norm() / exact.norm() > 0.2


@every
def test_the_state_is_of_one_size(memory: FeatureMemory) -> None:
    state = memory.reset(B)
    sizes = {memory.nbytes(state)}
    for length in (1, 7, 300):
        _, k, v = qkv(length=length)
        state = memory.write(state, k.float(), v.float())
        sizes.add(memory.nbytes(state))
    assert sizes == {B * G * (memory.map.size(D) * (E + 2)) * 4 + B * 8}
    assert memory.cost(1) == memory.cost(10**6)


def test_operations_grow_as_the_length(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    monkeypatch.setattr(walking, "LEAST", 10**9)  # products are counted, kernels are not
    memory, found = LinearMemory(G, D, E), []
    for length in (24, 48, 96):
        with FlopCounterMode(display=False) as counter:
            memory.step(memory.reset(B), *qkv(length=length))
        found.append(counter.get_total_flops())
    assert found[2] == 2 * found[1] == 4 * found[0] > 0


@every
def test_merge_order_and_reorder(memory: FeatureMemory) -> None:
    q, k, v = qkv()
    whole = memory.read(memory.write(memory.reset(B), k, v), q)
    cut = (slice(0, 0), slice(0, 9), slice(9, L))
    parts = [memory.read(memory.write(memory.reset(B), k[:, :, at], v[:, :, at]), q) for at in cut]
    merged = regard.Reading.merge(*parts)
    torch.testing.assert_close(merged.output, whole.output, rtol=0, atol=1e-12)
    torch.testing.assert_close(merged.lse, whole.lse, rtol=0, atol=1e-12)
    assert torch.equal(merged.seen, whole.seen)
    order = torch.randperm(L)
    other = memory.read(memory.write(memory.reset(B), k[:, :, order], v[:, :, order]), q)
    torch.testing.assert_close(other.output, whole.output, rtol=0, atol=1e-12)
    index = torch.tensor([1, 1, 0])
    state = memory.write(memory.reset(B), k, v)
    torch.testing.assert_close(memory.read(memory.reorder(state, index), q[index]).output, whole.output[index])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearMemory(0, 4), "heads is 0, wanted an integer of at least 1"),
        (lambda: LinearMemory(1, 4, 0), "value_width is 0"),
        (lambda: LinearMemory(1, 4, features=torch.nn.ReLU()), "wanted a FeatureMap such as"),  # type: ignore[arg-type]
        (lambda: SquaredReLU(floor=-1.0), "floor is -1.0"),
    ],
)
def test_what_cannot_be_built_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(regard.RegardError, match=message):
        make()


def test_a_state_is_read_by_the_map_that_wrote_it() -> None:
    _, k, v = qkv()
    state = LinearMemory(G, D, E).write(LinearMemory(G, D, E).reset(B), k, v)
    LinearMemory(G, D, E).read(state, k)
    with pytest.raises(regard.RegardError, match="written by another feature map"):
        LinearMemory(G, D, E, features=Exponential()).read(state, k)
    with pytest.raises(regard.RegardError, match=r"k is \(2, 3, 23, 7\)"):
        LinearMemory(G, D, E).write(state, v, v)


def test_no_pairs_change_nothing() -> None:
    memory = LinearMemory(G, D, E)
    q, k, v = (x[:, :, :0] for x in qkv())
    state = memory.reset(B)
    assert memory.write(state, k, v) is state
    reading, same = memory.step(state, q, k, v)
    assert reading.output.shape == (B, H, 0, E)
    assert same is state
