"""Hard and soft addresses: one memory where a distribution is one-hot, and what an address learns from a read."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import regard
from regard.errors import RegardError
from regard.memory import HardMemory, Slots, SoftMemory

B, N, E, L = 3, 5, 2, 7


def full(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def held() -> Slots:
    return Slots(full(B, N, E))


def test_a_value_comes_back_and_the_later_stays() -> None:
    memory = HardMemory(N, E)
    index, values = torch.randint(N, (B, L)), full(B, L, E)
    wanted = torch.zeros(B, N, E, dtype=torch.float64)
    for b in range(B):
        for l in range(L):
            wanted[b, index[b, l]] = values[b, l]
    state = memory.write(memory.reset(B, dtype=torch.float64), index, values)
    assert torch.equal(state.values, wanted)
    found = memory.read(state, index)
    for b in range(B):
        for l in range(L):
            assert torch.equal(found.output[b, 0, l], wanted[b, index[b, l]])
    assert found.peak_at is not None
    assert torch.equal(found.peak_at, index.unsqueeze(1))
    assert memory.nbytes(state) == B * N * E * 8


def test_nothing_is_written_by_nothing() -> None:
    state = held()
    none = torch.zeros(B, 0, dtype=torch.long)
    assert torch.equal(HardMemory(N, E).write(state, none, full(B, 0, E)).values, state.values)
    assert torch.equal(SoftMemory(N, E).write(state, full(B, 0, N), full(B, 0, E)).values, state.values)
    assert HardMemory(N, E).read(state, none).output.shape == (B, 1, 0, E)


def test_soft_is_hard_where_the_distribution_is_one_hot() -> None:
    hard, soft = HardMemory(N, E), SoftMemory(N, E)
    index, values, state = torch.randint(N, (B, L)), full(B, L, E), held()
    weights = F.one_hot(index, N).double()
    torch.testing.assert_close(soft.write(state, weights, values).values, hard.write(state, index, values).values)
    a, b = soft.read(state, weights), hard.read(state, index)
    torch.testing.assert_close(a.output, b.output, rtol=0, atol=0)
    for name in ("entropy", "peak", "peak_at", "seen"):
        torch.testing.assert_close(getattr(a, name), getattr(b, name), rtol=0, atol=0, check_dtype=False)
    scores = full(B, L, N)
    torch.testing.assert_close(
        SoftMemory(N, E, "hardmax").read_scored(state, scores).output, hard.read(state, scores.argmax(-1)).output
    )
    cold = SoftMemory(N, E, regard.normalize.Softmax(temperature=1e-4)).read_scored(state, scores)
    torch.testing.assert_close(cold.output, hard.read(state, scores.argmax(-1)).output, rtol=0, atol=1e-9)


def moved(memory: HardMemory | SoftMemory, state: Slots, scores: Tensor, at: tuple[int, ...], by: float) -> Tensor:
    """The read with one score moved."""
    scores = scores.clone()
    scores[at] += by
    if isinstance(memory, SoftMemory):
        return memory.read_scored(state, scores).output
    return memory.read(state, scores.argmax(-1)).output


def test_a_hard_address_has_gradient_zero_and_a_soft_one_has_not() -> None:
    """Beside finite differences: the read of argmax s does not move with s, that of softmax(s) by its derivative."""
    state = Slots(full(B, N, E).requires_grad_())
    scores = full(B, 1, N).requires_grad_()
    hard, soft = HardMemory(N, E), SoftMemory(N, E)
    out = hard.read(state, scores.argmax(-1)).output.sum()
    by_score, by_value = torch.autograd.grad(out, [scores, state.values], allow_unused=True, materialize_grads=True)
    assert by_score.abs().max() == 0
    assert torch.equal(by_value, F.one_hot(scores.argmax(-1)[:, 0], N).double().unsqueeze(-1).expand(-1, -1, E))
    (learnt,) = torch.autograd.grad(soft.read_scored(state, scores).output.sum(), scores)
    assert learnt.abs().min() > 0
    step = 1e-6
    still = Slots(state.values.detach())
    for b in range(B):
        for n in range(N):
            at = (b, 0, n)
            up, down = (moved(hard, still, scores.detach(), at, sign * step) for sign in (1, -1))
            assert torch.equal(up, down)
            up, down = (moved(soft, still, scores.detach(), at, sign * step) for sign in (1, -1))
            assert abs(float((up - down).sum() / (2 * step)) - float(learnt[at])) < 1e-7


def test_a_soft_address_learns_by_writing_and_reading() -> None:
    def through(weights: Tensor, values: Tensor, start: Tensor) -> Tensor:
        memory = SoftMemory(N, E)
        state = memory.write(Slots(start), weights.softmax(-1), values)
        return memory.read(state, weights.flip(1).softmax(-1)).output

    inputs = (full(B, 3, N).requires_grad_(), full(B, 3, E).requires_grad_(), full(B, N, E).requires_grad_())
    assert torch.autograd.gradcheck(through, inputs)


def test_scores_are_read_as_regard_reads() -> None:
    """As weights of the same scores, and with an lse, so that what lies in two memories is read as one."""
    state, scores = held(), full(B, L, N)
    memory = SoftMemory(N, E)
    torch.testing.assert_close(memory.read_scored(state, scores).output, memory.read(state, scores.softmax(-1)).output)
    parts = [
        SoftMemory(2, E).read_scored(Slots(state.values[:, :2]), scores[..., :2]),
        SoftMemory(3, E).read_scored(Slots(state.values[:, 2:]), scores[..., 2:]),
    ]
    torch.testing.assert_close(regard.Reading.merge(*parts).output, memory.read_scored(state, scores).output)
    scores[0] = -torch.inf
    scores[1, :, 3] = -torch.inf
    found = memory.read_scored(state, scores)
    assert found.output[0].abs().max() == 0
    torch.testing.assert_close(found.output[1, 0], scores[1].softmax(-1) @ state.values[1])


def test_what_is_missing_of_a_distribution_keeps_what_it_was() -> None:
    state, memory = held(), SoftMemory(N, E)
    nothing = torch.zeros(B, 1, N, dtype=torch.float64)
    assert torch.equal(memory.write(state, nothing, full(B, 1, E)).values, state.values)
    assert memory.read(state, nothing).output.abs().max() == 0


def test_rows_are_reordered() -> None:
    state, index = held(), torch.tensor([2, 0, 2, 1])
    at = torch.randint(N, (B, L))
    memory = HardMemory(N, E)
    assert torch.equal(
        memory.read(memory.reorder(state, index), at[index]).output, memory.read(state, at).output[index]
    )
    with pytest.raises(RegardError, match="rows 0 to 3"):
        memory.reorder(state, torch.tensor([3, 0]))


def test_bad_input_is_refused_before_anything_is_written() -> None:
    hard, soft, state = HardMemory(N, E), SoftMemory(N, E), held()
    before = state.values.clone()
    index, values, weights = torch.zeros(B, L, dtype=torch.long), full(B, L, E), full(B, L, N).softmax(-1)
    for call, message in (
        (lambda: HardMemory(0, E), "slots is 0"),
        (lambda: SoftMemory(N, 0), "width is 0"),
        (lambda: SoftMemory(N, E, "softmx"), "did you mean 'softmax'"),
        (lambda: hard.write(state, index + N, values), "names slots 5 to 5, wanted 0 to 4"),
        (lambda: hard.read(state, index - 1), "names slots -1 to -1"),
        (lambda: hard.read(state, weights), "a distribution or scores are for SoftMemory"),
        (lambda: hard.read(state, index.double()), "wanted integers"),
        (lambda: hard.write(state, index[:, :2], values), "index has 2 places for 7 values"),
        (lambda: hard.write(state, index, values[:2]), r"values are \(2, 7, 2\)"),
        (lambda: soft.write(state, weights, values[..., :1]), r"values are \(3, 7, 1\)"),
        (lambda: soft.write(state, weights[:, :2], values), "there are 2 weights for 7 values"),
        (lambda: soft.read(state, index), "an index is for HardMemory"),
        (lambda: soft.read(state, weights * 2), "sum to at most 2, wanted"),
        (lambda: soft.read(state, weights - 1), "none below 0"),
        (lambda: soft.read(state, weights * torch.nan), "none below 0"),
        (lambda: soft.read_scored(state, weights[:2]), r"scores are \(2, 7, 5\)"),
    ):
        with pytest.raises(RegardError, match=message):
            call()
    assert torch.equal(state.values, before)


def test_half_precision_is_rounded_no_worse_than_its_sums() -> None:
    state = Slots(held().values.half())
    weights = full(B, L, N).softmax(-1).half()
    found = SoftMemory(N, E).read(state, weights).output
    assert found.dtype == torch.float16
    torch.testing.assert_close(
        found.double(), weights.double().unsqueeze(1) @ state.values.double().unsqueeze(1), rtol=0, atol=5e-3
    )
