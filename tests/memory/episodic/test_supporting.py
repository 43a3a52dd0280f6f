"""The chain of supporting facts against the paper in plain loops, pair by pair."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from regard.errors import RegardError
from regard.memory.episodic import Match, SupportMemory

B, K, S, F, W = 3, 3, 7, 5, 2


def full(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def memory(hops: int = K) -> SupportMemory:
    return SupportMemory(F, Match(full(W, F), full(W, F), full(W, F), full(W, 3)), hops)


Fact = list[float]


def embedded(U: Tensor, x: Fact) -> list[float]:
    return [sum(float(U[d, f]) * x[f] for f in range(len(x))) for d in range(W)]


def preferred(match: Match, question: Fact, facts: list[Fact], found: list[int], y: int, other: int) -> float:
    """s_Ot(x, y, y′) of Weston et al. 2014, section 3.4, x = [question, the facts found]."""
    x = embedded(match.question, question)
    for at in found:
        x = [a + b for a, b in zip(x, embedded(match.support, facts[at]), strict=True)]
    x_place = found[-1] if found else len(facts)
    older = [float(x_place < y), float(x_place < other), float(y < other) - float(y > other)]
    one, two = (embedded(match.candidate, facts[i]) for i in (y, other))
    return sum(x[d] * (one[d] - two[d] + embedded(match.time, older)[d]) for d in range(W))


def chain(match: Match, question: Fact, facts: list[Fact], hops: int) -> list[int]:
    """The loop of section 3.4: the winner is kept, and compared with the next."""
    found: list[int] = []
    for _ in range(hops):
        best = 0
        for i in range(1, len(facts)):
            if preferred(match, question, facts, found, i, best) > 0:
                best = i
        found.append(best)
    return found


@pytest.mark.parametrize("turn", range(5))
def test_the_chain_is_the_papers(turn: int) -> None:
    one = memory()
    features, question = full(B, S, F), full(B, F)
    valid = torch.tensor([[1] * 7, [0, 1, 1, 0, 0, 1, 1], [1, 1, 1, 0, 0, 0, 0]]).bool()
    state = one.write(one.reset(B, dtype=torch.float64), features[:, :4], valid=valid[:, :4])
    state = one.write(state, features[:, 4:], valid=valid[:, 4:])
    found = one.chain(state, question)
    for b in range(B):
        facts = features[b, valid[b]].tolist()
        wanted = chain(one.match, question[b].tolist(), facts, K)
        assert found[b].tolist() == wanted
        reading = one.read(state, question)
        torch.testing.assert_close(reading.output[b, 0, 0], torch.tensor(facts[wanted[-1]], dtype=torch.float64))
        assert reading.no_merge


def test_preferences_are_the_papers_and_learn() -> None:
    one = memory()
    features, question = full(B, S, F), full(B, F)
    lengths = torch.tensor([7, 4, 3])
    valid = torch.arange(S) < lengths.unsqueeze(1)
    state = one.write(one.reset(B, dtype=torch.float64), features, valid=valid)
    support = torch.stack([torch.randint(int(n), (K,)) for n in lengths])
    learnt = SupportMemory(F, Match(**{n: part.clone().requires_grad_() for n, part in vars(one.match).items()}), K)
    for_right, for_other, others = learnt.preferences(state, question, support)
    for b in range(B):
        facts = features[b, valid[b]].tolist()
        n = len(facts)
        for k in range(K):
            found = support[b, :k].tolist()
            right = int(support[b, k])
            for other in range(n):
                at = (b, k, S - n + other)
                args = (one.match, question[b].tolist(), facts, found)
                assert abs(float(for_right[at].detach()) - preferred(*args, right, other)) < 1e-10
                assert abs(float(for_other[at].detach()) - preferred(*args, other, right)) < 1e-10
                assert bool(others[at]) == (other != right)
            assert not bool(others[b, k, : S - n].any())
    for x in torch.autograd.grad((for_right - 2 * for_other).sum(), list(vars(learnt.match).values())):
        assert float(x.abs().sum()) > 0


@pytest.mark.parametrize(("sign", "wanted"), [(1, 0), (-1, S - 1)])
def test_of_facts_in_the_same_words_time_alone_decides(sign: int, wanted: int) -> None:
    """With a weight below 0 for "y is older" the newest is found, with one above 0 the oldest."""
    question = torch.ones(1, F, dtype=torch.float64)
    U = torch.ones(1, F, dtype=torch.float64)
    time = torch.tensor([[0.0, 0.0, float(sign)]], dtype=torch.float64)
    one = SupportMemory(F, Match(U, U, U, time), 1)
    state = one.write(one.reset(1, dtype=torch.float64), full(1, 1, F).expand(1, S, F))
    assert one.chain(state, question).tolist() == [[wanted]]


def test_what_is_found_is_hard() -> None:
    """No gradient goes from the fact that is read to the match that chose it: what trains it are the supports."""
    one = memory(1)
    question = full(1, F).requires_grad_()
    features = full(1, S, F).requires_grad_()
    out = one.read(one.write(one.reset(1, dtype=torch.float64), features), question).output.sum()
    to_features, to_question = torch.autograd.grad(out, [features, question], allow_unused=True, materialize_grads=True)
    assert to_question.abs().max() == 0
    assert to_features.abs().sum() == F


def test_a_crop_is_as_if_no_more_had_been_written() -> None:
    one, features, question = memory(), full(B, S, F), full(B, F)
    valid = torch.tensor([[1] * 7, [0, 1, 1, 0, 0, 1, 1], [1, 1, 1, 0, 0, 0, 0]]).bool()
    state = one.write(one.reset(B, dtype=torch.float64), features, valid=valid)
    for kept in ([5, 1, 0], [7, 4, 3]):
        found = one.crop(state, torch.tensor(kept))
        first = valid & (valid.cumsum(1) <= torch.tensor(kept)[:, None])
        wanted = one.write(one.reset(B, dtype=torch.float64), features, valid=first)
        assert torch.equal(one.chain(found, question), one.chain(wanted, question))
        assert found.features.shape[1] == max(kept)
    with pytest.raises(RegardError, match="crop of row 2 to 4, wanted 0 to 3"):
        one.crop(state, torch.tensor([1, 1, 4]))


def test_rows_without_facts_and_rows_reordered() -> None:
    one = memory()
    valid = torch.tensor([[False] * S, [True] * S])
    state = one.write(one.reset(2, dtype=torch.float64), full(2, S, F), valid=valid)
    question = full(2, F)
    assert one.chain(state, question)[0].tolist() == [-1] * K
    assert one.read(state, question).output[0].abs().max() == 0
    empty = one.reset(2, dtype=torch.float64)
    assert one.chain(empty, question).tolist() == [[-1] * K] * 2
    assert one.read(empty, question).output.abs().max() == 0
    index = torch.tensor([1, 0, 1])
    assert torch.equal(one.chain(one.reorder(state, index), question[index]), one.chain(state, question)[index])
    assert one.cost(9).flops > one.cost(3).flops


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: memory(0), "hops is 0"),
    (lambda: SupportMemory(F, Match(full(W, F), full(W, F), full(W, 4), full(W, 3))), r"match.candidate is \(2, 4\)"),
    (lambda: memory().write(memory().reset(2), torch.randn(2, 1, 4)), "features are"),
    (lambda: memory().write(memory().reset(2), torch.randn(2, 1, F), valid=torch.ones(2, 1)), "valid is"),
    (lambda: memory().chain(memory().reset(2), torch.randn(3, F)), "question is"),
    (
        lambda: memory(1).preferences(
            memory(1).write(memory(1).reset(1), torch.randn(1, 2, F)), torch.randn(1, F), torch.tensor([[2]])
        ),
        "each a fact of its row",
    ),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        call()
