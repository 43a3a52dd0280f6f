"""The delta rule: exact overwriting, and in chunks the recurrence of the papers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import regard
from regard.memory import DeltaMemory, EluPlusOne, PairMemory
from regard.memory.linear import delta

B, H, G, L, D, E = 2, 6, 3, 23, 5, 7


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks and stretches so short that a short sequence has many, and none ends where the sequence does."""
    monkeypatch.setattr(delta, "CHUNK", 4)
    monkeypatch.setattr(delta, "STRETCH", 8)


def given_pairs(length: int = L, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    q, k, v = (
        torch.randn(B, heads, length, width, generator=g, dtype=torch.float64)
        for heads, width in ((H, D), (G, D), (G, E))
    )
    return q, k, v, 2 * torch.rand(B, G, length, generator=g, dtype=torch.float64)


def loops(q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Tensor:
    """Schlag et al. (2021), equations 24 and 25, and Yang et al. (2024), equation 1, with their W = Sᵀ of (E, D)."""
    rows = []
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            g = h // (q.shape[1] // k.shape[1])
            w = torch.zeros(v.shape[-1], k.shape[-1], dtype=torch.float64)
            for t in range(k.shape[2]):
                old = w @ k[b, g, t]
                w = w + beta[b, g, t] * torch.outer(v[b, g, t] - old, k[b, g, t])
                rows.append(w @ q[b, h, t])
    return torch.stack(rows).view(*q.shape[:3], -1)


def test_unit_keys_are_the_loops_of_yang_et_al_forward_and_backward() -> None:
    given = [x.requires_grad_() for x in given_pairs()]
    q, k, v, beta = given
    memory = DeltaMemory(G, D, E)
    mine = memory.step(memory.reset(B, dtype=torch.float64), q, k, v, beta=beta)[0].output
    theirs = loops(q / q.norm(dim=-1, keepdim=True), k / k.norm(dim=-1, keepdim=True), v, beta)
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-10)
    weight = torch.randn_like(mine)
    for a, b in zip(*(torch.autograd.grad((x * weight).sum(), given) for x in (mine, theirs)), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


def test_keys_as_given_are_the_loops_of_schlag_et_al() -> None:
    q, k, v, beta = given_pairs()
    q, k = (EluPlusOne()(x) / EluPlusOne()(x).sum(-1, keepdim=True) for x in (q, k))
    memory = DeltaMemory(G, D, E, keys="given")
    mine = memory.step(memory.reset(B, dtype=torch.float64), q, k, v, beta=beta)[0].output
    torch.testing.assert_close(mine, loops(q, k, v, beta), rtol=0, atol=1e-10)


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_any_split_and_any_padding_is_one_pair_after_the_other(data: st.DataObject) -> None:
    memory = DeltaMemory(G, D, E)
    q, k, v, beta = given_pairs(seed=data.draw(st.integers(0, 99)))
    lengths = data.draw(st.lists(st.integers(0, L), min_size=B, max_size=B))
    valid = torch.arange(L) >= L - torch.tensor(lengths)[:, None]
    if data.draw(st.booleans()):
        valid = torch.rand(B, L) < 0.7
    q, k, v = (torch.where(valid[:, None, :, None], x, torch.nan) for x in (q, k, v))
    cuts = sorted(data.draw(st.lists(st.integers(0, L), max_size=3)))
    state, parts = memory.reset(B, dtype=torch.float64), []
    for first, last in zip([0, *cuts], [*cuts, L], strict=True):
        at = slice(first, last)
        reading, state = memory.step(
            state, q[:, :, at], k[:, :, at], v[:, :, at], beta=beta[:, :, at], valid=valid[:, at]
        )
        parts.append(reading)
    for b in range(B):
        here = valid[b]
        mine = torch.cat([part.output[b] for part in parts], 1)
        seen = torch.cat([part.seen[b] for part in parts], 1)
        assert not mine[:, ~here].any()
        assert not seen[:, ~here].any()
        if here.any():
            alone = [x[b : b + 1, :, here] for x in (q, k, v)]
            asked, keys = (x / x.norm(dim=-1, keepdim=True) for x in alone[:2])
            one = loops(asked, keys, alone[2], beta[b : b + 1, :, here])
            torch.testing.assert_close(mine[:, here], one[0], rtol=0, atol=1e-10)
            assert torch.equal(seen[0, here], torch.arange(1, int(here.sum()) + 1))


def test_a_step_is_pair_by_pair_and_write_leaves_the_same_state() -> None:
    memory = DeltaMemory(G, D, E)
    q, k, v, _ = given_pairs()
    mine, state = memory.step(memory.reset(B), q, k, v)
    one, other = PairMemory.step(memory, memory.reset(B), q, k, v)
    torch.testing.assert_close(mine.output, one.output, rtol=0, atol=1e-10)
    assert torch.equal(mine.seen, one.seen)
    for each in (other, memory.write(memory.reset(B), k, v)):
        torch.testing.assert_close(each.matrix, state.matrix, rtol=0, atol=1e-10)
        assert torch.equal(each.seen, state.seen)
    index = torch.tensor([1, 0, 1])
    torch.testing.assert_close(
        memory.read(memory.reorder(state, index), q[index]).output, memory.read(state, q).output[index]
    )
    assert memory.nbytes(state) == memory.nbytes(memory.reset(B, dtype=torch.float64))
    assert memory.cost(1) == memory.cost(10**6)


def test_a_repeated_key_holds_exactly_its_last_value() -> None:
    memory = DeltaMemory(1, D, E)
    k = torch.eye(D, dtype=torch.float64)[[0, 1, 0, 2, 0, 1]][None, None]
    v = torch.randn(1, 1, 6, E, dtype=torch.float64)
    state = memory.write(memory.reset(), k, v)
    torch.testing.assert_close(memory.read(state, k[:, :, 3:]).output, v[:, :, 3:], rtol=0, atol=1e-14)
    same = torch.randn(1, 1, 1, D, dtype=torch.float64).expand(1, 1, 6, D)  # in one direction, among nothing else
    state = memory.write(memory.reset(), 3 * same, v)
    torch.testing.assert_close(memory.read(state, same[:, :, :1]).output, v[:, :, -1:], rtol=0, atol=1e-12)
    half = memory.write(memory.reset(), same[:, :, :2], v[:, :, :2], beta=torch.full((1, 1, 2), 0.5))
    torch.testing.assert_close(memory.read(half, same[:, :, :1]).output[0, 0, 0], v[0, 0, 0] / 4 + v[0, 0, 1] / 2)


def test_a_zero_key_writes_and_reads_nothing_and_has_no_gradient() -> None:
    memory = DeltaMemory(1, D, E)
    k = torch.zeros(1, 1, 1, D, requires_grad=True)
    v = torch.ones(1, 1, 1, E)
    reading, state = memory.step(memory.reset(), k, k, v)
    assert not state.matrix.any()
    assert not reading.output.any()
    (slope,) = torch.autograd.grad(reading.output.sum(), k)
    assert not slope.any()
    tiny, huge = (memory.write(memory.reset(), torch.full((1, 1, 1, D), x), v).matrix for x in (1e-30, 1e30))
    torch.testing.assert_close(tiny, huge)


def test_a_state_that_was_given_gets_its_gradient() -> None:
    memory = DeltaMemory(G, D, E)
    q, k, v, beta = (x.requires_grad_() for x in given_pairs())
    found = []
    for way in ("in one", "in stretches"):
        state = memory.write(memory.reset(B), k[:, :, :3], v[:, :, :3])
        at = slice(3, 10) if way == "in one" else slice(3, None)
        reading, state = memory.step(state, q[:, :, at], k[:, :, at], v[:, :, at], beta=beta[:, :, at])
        loss = reading.output[:, :, :7].square().sum()
        found.append(torch.autograd.grad(loss, (q, k, v, beta)))
    for a, b in zip(*found, strict=True):
        assert a.any()
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


def test_half_precision_is_kept_in_single() -> None:
    memory = DeltaMemory(G, D, E)
    q, k, v, _ = (x.to(torch.bfloat16) for x in given_pairs(length=61))
    reading, state = memory.step(memory.reset(B, dtype=torch.bfloat16), q, k, v)
    assert (reading.output.dtype, state.matrix.dtype) == (torch.bfloat16, torch.float32)
    exact = memory.step(memory.reset(B), q.double(), k.double(), v.double())[0].output
    torch.testing.assert_close(reading.output.double(), exact, rtol=2**-8, atol=1e-4)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(memory.step(memory.reset(B), q, k, v)[0].output, reading.output)


def test_it_is_no_weighted_average_and_says_so() -> None:
    memory = DeltaMemory(G, D, E)
    q, k, v, _ = given_pairs()
    reading, _ = memory.step(memory.reset(B), q, k, v)
    with pytest.raises(regard.RegardError, match="no weighted average"):
        regard.Reading.merge(reading, reading)
    assert not memory.read(memory.reset(B), q).output.any()


def test_what_does_not_fit_is_refused() -> None:
    memory = DeltaMemory(G, D, E)
    state = memory.reset(B)
    q, k, v, beta = given_pairs()
    for wrong, message in (
        (beta[:, :2], r"beta is \(2, 2, 23\)"),
        (beta + 1, "wanted them in \\[0, 2\\]"),
        (beta * torch.nan, "beta has numbers from nan"),
        (beta.long(), "wanted a floating tensor"),
    ):
        with pytest.raises(regard.RegardError, match=message):
            memory.step(state, q, k, v, beta=wrong)
    with pytest.raises(regard.RegardError, match="did you mean 'unit'"):
        DeltaMemory(1, 2, keys="units")  # type: ignore[arg-type]
    with pytest.raises(regard.RegardError, match="width is 0"):
        DeltaMemory(1, 0)
