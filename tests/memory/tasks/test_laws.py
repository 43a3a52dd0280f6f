"""Every task: its oracle is right, a seed is a batch, guessing stays at chance, bad sizes are refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.errors import RegardError
from regard.memory.tasks import (
    TASKS,
    AssociativeRecall,
    Bits,
    Copy,
    Example,
    GraphTraversal,
    Induction,
    MultiQueryRecall,
    Needle,
    PrioritySort,
    Regions,
    RepeatCopy,
    SelectiveCopy,
    Stories,
    Symbols,
    Task,
    Vectors,
    stacked,
)

Strategy = st.SearchStrategy[Any]


def whole(low: int, high: int) -> Strategy:
    return st.integers(low, high)


def ranges(low: int, high: int) -> Strategy:
    return st.tuples(whole(low, high), whole(low, high)).map(lambda pair: (min(pair), max(pair)))


SIZES: dict[str, Strategy] = {
    "associative": st.builds(AssociativeRecall, width=whole(2, 7), vectors=whole(2, 5), items=ranges(2, 9)),
    "copy": st.builds(Copy, width=whole(1, 7), lengths=ranges(1, 9)),
    "graph": st.builds(GraphTraversal, nodes=ranges(2, 7), degree=whole(1, 3), labels=whole(3, 5), steps=ranges(1, 6)),
    "induction": st.builds(Induction, lengths=ranges(1, 11), symbols=whole(2, 7)),
    "multiquery": st.builds(
        MultiQueryRecall, pairs=ranges(1, 7), keys=whole(7, 11), values=whole(2, 5), spread=whole(1, 3)
    ),
    "needle": st.builds(
        Needle,
        lengths=ranges(0, 13),
        depths=st.tuples(st.floats(0, 0.5), st.floats(0.5, 1)),
        keys=whole(4, 7),
        values=whole(2, 5),
        chaff=whole(1, 3),
        decoys=whole(0, 3),
    ),
    "regions": st.builds(
        Regions, regions=ranges(2, 5), colours=whole(5, 7), shapes=whole(2, 5), chained=st.floats(0, 1)
    ),
    "repeat": st.builds(RepeatCopy, width=whole(1, 5), lengths=ranges(1, 7), repeats=ranges(1, 13)),
    "selective": st.builds(SelectiveCopy, places=ranges(5, 13), items=ranges(1, 5), symbols=whole(2, 7)),
    "stories": st.builds(
        Stories, facts=whole(1, 3), people=whole(2, 5), places=whole(3, 7), things=whole(1, 3), sentences=ranges(6, 13)
    ),
    "sort": st.builds(PrioritySort, width=whole(1, 5), counts=ranges(3, 11), kept=whole(1, 3)),
}
every_task = pytest.mark.parametrize("name", list(TASKS))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(name: str) -> Callable[[Callable[[Task, Example], None]], None]:
    """Runs a check on examples of sizes that Hypothesis draws."""

    def run(check: Callable[[Task, Example], None]) -> None:
        @settings(max_examples=25)
        @given(task=SIZES[name], seed=whole(0, 2**31), batch=whole(1, 5), ragged=st.booleans())
        def checked(task: Task, seed: int, batch: int, ragged: bool) -> None:
            check(task, task.draw(batch, generator(seed), ragged=ragged))

        checked()

    return run


def test_every_task_is_here() -> None:
    assert set(SIZES) == set(TASKS)


@every_task
def test_the_oracle_is_right(name: str) -> None:
    @drawn(name)
    def check(task: Task, example: Example) -> None:
        answers = task.oracle(example.inputs)
        assert task.score(answers, example) == 1
        assert torch.equal(answers.reshape(example.targets.shape), example.targets), "an answer where none is asked"


@every_task
def test_shapes_and_kinds(name: str) -> None:
    @drawn(name)
    def check(task: Task, example: Example) -> None:
        B, L = example.valid.shape
        assert example.asked.dtype == example.valid.dtype == torch.bool
        assert bool(example.asked.any(-1).all()), "a row that is asked nothing"
        assert not bool((example.asked & ~example.valid).any())
        assert bool((example.valid.long().diff(dim=1) <= 0).all()), "padding is on the right"
        for x, form in ((example.inputs, task.inputs), (example.targets, task.answers)):
            if isinstance(form, Symbols):
                assert x.dtype == torch.int64
                assert x.shape == (B, L)
                assert 0 <= int(x.min()) <= int(x.max()) < form.count
            else:
                assert isinstance(form, Vectors | Bits)
                assert x.shape == (B, L, form.width)
        if isinstance(task.answers, Bits):
            assert set(example.targets.unique().tolist()) <= {0.0, 1.0}
        assert bool((example.inputs.reshape(B, L, -1).abs().sum(-1)[~example.valid] == 0).all())
        assert bool((example.targets.reshape(B, L, -1).abs().sum(-1)[~example.asked] == 0).all())


@every_task
def test_a_seed_is_a_batch(name: str) -> None:
    task = TASKS[name]()
    one, again, other = (task.draw(3, generator(seed)) for seed in (5, 5, 6))
    assert all(torch.equal(a, b) for a, b in zip(one, again, strict=True))
    assert one.inputs.shape != other.inputs.shape or not torch.equal(one.inputs, other.inputs)
    assert TASKS[name]() == task, "a task is its sizes"


@every_task
def test_rows_of_their_own_sizes(name: str) -> None:
    task, parts = TASKS[name](), generator(3)
    alone = [task.alike(1, parts) for _ in range(4)]
    together = task.draw(4, generator(3), ragged=True)
    for b, one in enumerate(alone):
        L = one.inputs.shape[1]
        assert int(together.valid[b].sum()) == L
        for x, y in zip(together, one, strict=True):
            assert torch.equal(x[b, :L], y[0])
    assert all(torch.equal(x, y) for x, y in zip(stacked(alone), together, strict=True))


def guesses(task: Task, example: Example) -> dict[str, Tensor]:
    """Answers that need no memory: any constant, a guess, what was seen last, what was seen most often."""
    torch.manual_seed(7)
    B, L = example.valid.shape
    if isinstance(task.answers, Bits):
        shape = (B, L, task.answers.width)
        found = {"zeros": torch.zeros(shape), "ones": torch.ones(shape), "coins": torch.randint(0, 2, shape).float()}
        seen = example.inputs[..., : task.answers.width].clamp(0, 1).round()
        last = torch.stack([seen[:, : t + 1].flip(1).cummax(1).values[:, 0] for t in range(L)], 1)
        return found | {"last": last, "majority": (seen.cumsum(1) / example.valid.cumsum(1)[..., None]).round()}
    found = {f"always {n}": torch.full((B, L), n) for n in range(task.answers.count)}
    return found | {"a guess": torch.randint(task.answers.count, (B, L))}


@every_task
def test_who_remembers_nothing_stays_at_chance(name: str) -> None:
    task = TASKS[name]()
    example = task.draw(64, generator(1))
    asked = int(example.asked.sum()) * task.answers.parts
    once = asked / (task.repeats[1] if isinstance(task, RepeatCopy) else 1)  # what is asked again is no new evidence
    spread = math.sqrt(task.chance * (1 - task.chance) / once)
    for what, answers in guesses(task, example).items():
        assert task.score(answers, example) < task.chance + 5 * spread, what


@every_task
def test_loss_and_decide_agree_with_score(name: str) -> None:
    task = TASKS[name]()
    example = task.draw(4, generator(2), ragged=True)
    truth = task.oracle(example.inputs)
    one_hot = truth if isinstance(task.answers, Bits) else torch.nn.functional.one_hot(truth, task.answers.count)
    sure = 40 * one_hot.float() - 20
    assert float(task.loss(sure, example)) < 1e-6
    assert torch.equal(task.decide(sure), truth)
    unsure = torch.zeros_like(sure, requires_grad=True)
    loss = task.loss(unsure, example)
    assert loss.item() == pytest.approx(math.log(2 if isinstance(task.answers, Bits) else task.answers.count), rel=1e-5)
    loss.backward()
    assert unsure.grad is not None
    assert float(unsure.grad[~example.asked].abs().sum()) == 0, "only what is asked counts"
    b, t = (int(n) for n in example.asked.nonzero()[-1])
    spoilt = truth.clone()
    spoilt[b, t] = 1 - spoilt[b, t] if isinstance(task.answers, Bits) else (spoilt[b, t] + 1) % task.answers.count
    assert task.wrong(spoilt, example).tolist() == [task.answers.parts if n == b else 0 for n in range(4)]
    assert task.score(spoilt, example) == 1 - task.answers.parts / (int(example.asked.sum()) * task.answers.parts)


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: Copy(width=0), "Copy: width is 0, wanted a whole number of at least 1"),
    (lambda: Copy(lengths=(0, 3)), r"Copy: lengths is \(0, 3\), wanted \(smallest, largest\) with 1 ≤"),
    (lambda: Copy(lengths=(4, 3)), r"lengths is \(4, 3\)"),
    (lambda: Copy(lengths=5), "lengths is 5"),  # type: ignore[arg-type]
    (lambda: Copy().draw(0, generator()), "batch is 0"),
]


@pytest.mark.parametrize(("make", "message"), BAD)
def test_bad_sizes_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        make()
