"""Sequences that are rewritten: the rules by hand, what a model is shown, who its rivals are, how it is judged."""

from __future__ import annotations

from collections import Counter
from functools import partial
from math import factorial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmarks import transduction
from benchmarks.harness.row import Line, Row, Spot, at_least, at_most
from benchmarks.harness.setting import Setting
from benchmarks.learning.experiment import Exam
from benchmarks.learning.training import Outcome
from benchmarks.rewriting.contest import Claim
from benchmarks.rewriting.contests import CONTESTS, contest
from benchmarks.rewriting.looks import aligned, exact, opening, spoken
from benchmarks.rewriting.models import Translating, alone, translating
from benchmarks.rewriting.task import RULES, Rewriting, parts
from regard.errors import RegardError
from regard.translate.decoding.beam import beam_search
from regard.translate.text.vocabulary import BOS, EOS

every = pytest.mark.parametrize("rule", RULES)


def by_hand(rule: str, said: list[int], words: int) -> tuple[list[int], list[int]]:
    """The target, and where in the source each of its words comes from."""
    places = list(range(len(said)))
    if rule == "sort":
        places.sort(key=lambda i: said[i])
    if rule == "first":
        places = [0]
    i = 0
    while rule == "reorder" and i + 1 < len(said):
        if said[i] < 4 + words / 2 <= said[i + 1]:
            places[i], places[i + 1] = i + 1, i
            i += 1
        i += 1
    step = {30: 7, 7: 11, 4: 7}[words]
    names = {x: 4 + (step * (x - 4) + 2) % words for x in range(4, 4 + words)}
    return [names[said[i]] if rule in ("relabel", "reorder") else said[i] for i in places], places


@every
@pytest.mark.parametrize("words", [30, 4])
def test_the_rules(rule: str, words: int) -> None:
    task, draw = Rewriting(rule, (1, 13), words), torch.Generator().manual_seed(3)
    for _ in range(7):
        example = task.draw(5, draw)
        for row, answers in zip(example.inputs.tolist(), example.targets.tolist(), strict=True):
            said = row[: row.index(EOS)]
            target, places = by_hand(rule, said, words)
            assert row == [*said, EOS, BOS, *target]
            assert answers == [0] * (len(said) + 1) + [*target, EOS]
            assert task.places(torch.tensor([said]))[0].tolist() == places
        assert torch.equal(task.oracle(example.inputs), example.targets)
        assert torch.equal(example.asked, example.targets > 0)


def test_a_translation_is_of_one_word_alone() -> None:
    for words in (30, 7, 4):
        task = Rewriting("relabel", (1, 1), words)
        assert sorted(task.target(torch.arange(4, 4 + words)[:, None])[:, 0].tolist()) == list(range(4, 4 + words))


def test_at_a_length_the_words_alone_are_asked() -> None:
    (example,) = Exam(Rewriting("reorder", (3, 20)).at(7), 1, 5).questions()
    assert example.asked[0].tolist() == [False] * 8 + [True] * 7 + [False]
    assert torch.equal(Rewriting("reorder", (3, 20)).at(7).oracle(example.inputs), example.targets)


@pytest.mark.parametrize(
    "build", [partial(translating, name="cho", hidden=5), partial(alone, width=6, heads=3, feed=5)]
)
def test_a_model_is_shown_what_stands_before_and_no_more(build: Any) -> None:
    torch.manual_seed(1)
    task = Rewriting("copy", (5, 5), 7)
    model, (example,) = build(task).eval(), Exam(task, 1, 3).questions()
    other = example.inputs.clone()
    other[:, 8] = 4 + (other[:, 8] - 3) % 7  # the second word of the target, which is said before the third is asked
    a, b = model(example.inputs), model(other)
    assert torch.equal(a[:, 6:8], b[:, 6:8])
    assert not torch.allclose(a[:, 8], b[:, 8])
    other = example.inputs.clone()
    other[:, 0] = 4 + (other[:, 0] - 3) % 7
    assert not torch.allclose(model(other)[:, 6], a[:, 6])


def test_rivals_have_as_many_parameters_and_as_many_updates() -> None:
    """Those that differ in one choice have the very same sizes."""
    for name in CONTESTS:
        what = contest(name).experiment
        models = {arm: each.build(what.task) for arm, each in what.arms.items()}
        sizes = [sum(parameter.numel() for parameter in model.parameters()) for model in models.values()]
        assert max(sizes) <= 1.01 * min(sizes), (name, sizes)
        assert len({what.recipe_of(arm).steps for arm in models}) == 1
        assert all(what.recipe_of(arm).enough < 0 for arm in models)  # none ends early
    for pair, differ in (
        (("reverse", "forward", "reversed"), "reverse"),
        (("copy", "sinusoidal", "none"), "positions"),
    ):
        what = contest(pair[0]).experiment
        one, two = (vars(_built(what, arm).model.config) for arm in pair[1:])
        assert {key for key in one if one[key] != two[key]} == {differ}


def test_reordering_is_learnt_at_a_rate_that_rises_stays_and_falls_to_nothing() -> None:
    for arm in contest("reorder").experiment.arms.values():
        model = nn.Linear(1, 1)
        optimiser = torch.optim.Adam(model.parameters())
        rates = []
        for step in (0, 99, 199, 1000, 1500, 1750, 1999):
            arm.each(model, optimiser, step)
            rates.append(optimiser.param_groups[0]["lr"] / 3e-3)
        assert rates == pytest.approx([1 / 200, 0.5, 1, 1, 1, 0.5, 1 / 500])


def _built(what: Any, arm: str) -> Translating:
    made = what.arms[arm].build(what.task)
    assert isinstance(made, Translating)
    return made


class Knows(nn.Module):
    """Says the right target and looks where it comes from, but for what it is told to get wrong."""

    def __init__(self, task: Rewriting, wrong: int) -> None:
        super().__init__()
        self.task, self.wrong = task, wrong

    def align(self, source: Tensor, lengths: Tensor, previous: Tensor) -> Tensor:
        places = self.task.places(source[:, :-1]).clone()
        places[:, self.wrong] = source.shape[1] - 1
        looks = nn.functional.one_hot(torch.cat([places, places[:, :1]], 1), source.shape[1])
        return looks[:, None, None].float()


def test_alignment_is_counted_at_the_worst_length() -> None:
    task = Rewriting("reorder", (3, 20))
    model = Translating(Knows(task, 1))  # type: ignore[arg-type]  # of a translator only its looks are asked for
    assert aligned(task, (5, 20), 6, model) == {"aligned": pytest.approx(0.8)}


def briefly(task: Rewriting, updates: int) -> Translating:
    """A small Transformer that knows some of its task."""
    torch.manual_seed(0)
    model = translating(task, "transformer", width=16, heads=2, layers=1, feed=32)
    assert isinstance(model, Translating)
    optimiser, draw = torch.optim.Adam(model.parameters(), 1e-2), torch.Generator().manual_seed(0)
    for _ in range(updates):
        example = task.draw(16, draw)
        optimiser.zero_grad()
        task.loss(model(example.inputs), example).backward()
        optimiser.step()
    return model.eval()


@torch.no_grad()
def test_exact_is_what_greedy_search_says_by_itself() -> None:
    task, rows = Rewriting("copy", (1, 4), 5), 16
    with torch.enable_grad():
        model = briefly(task, 60)
    found, right = exact(task, rows, model)["exact"], 0
    for n in range(1, 5):
        (example,) = Exam(Rewriting("copy", (n, n), 5), 1, rows, 1_000_037).questions()
        source, _ = parts(example.inputs)
        said = beam_search(model.model, source, torch.full((rows,), n + 1), width=1)
        right += sum([*row[:n], EOS] == list(each.ids) for row, each in zip(source.tolist(), said, strict=True))
    assert 0.1 < found < 0.9
    assert found == pytest.approx(right / (4 * rows))
    assert {"BLEU 2, greedy", "BLEU 2, beam"} == set(spoken(task, (2,), 7, model))
    assert 0 < opening(task, 4, 20, model)["first three of 4"] < 1


def test_what_a_bag_of_words_allows_is_below_what_is_asked_of_who_sees_none() -> None:
    """The best that can be done without the order, from 2 to 10 words."""
    best: dict[str, list[float]] = {"copy": [], "first": []}
    for n in range(2, 11):
        (example,) = Exam(Rewriting("copy", (n, n)), 1, 200, 3).questions()
        for row in example.inputs[:, :n].tolist():
            counts = list(Counter(row).values())
            orders = factorial(n)
            for count in counts:
                orders //= factorial(count)
            best["copy"].append(1 / orders)
            best["first"].append(max(counts) / n)
    for name, shares in best.items():
        (goal,) = (each.goal for each in contest(name).claims if each.arm == "none" and each.goal)
        assert not goal.above
        assert goal.bound * 0.6 < sum(shares) / len(shares) < goal.bound * 0.85


def outcome(right: float, looked: float = 0.0) -> Outcome:
    return Outcome(1, 2, 2, 3.0, 0.0, {"length 20": 1 - right}, {"aligned": looked})


def test_a_claim_is_judged_by_its_worst_seed() -> None:
    found = {"a": [outcome(0.9, 0.99), outcome(0.7, 0.9)], "b": [outcome(0.5), outcome(0.6)]}
    apart = Claim("length 20", "a", at_least(0.2), behind="b").judged("x", found, "0,1", Setting())
    assert (apart.value, apart.low, apart.high) == pytest.approx((0.1, 0.1, 0.4))
    assert apart.met is False
    assert apart.note == "seeds 0,1: 0.900 and 0.500, 0.700 and 0.600"
    assert Claim("aligned", "a", at_least(0.95)).judged("x", found, "0,1", Setting()).value == 0.9
    most = Claim("length 20", "a", at_most(0.8)).judged("x", found, "0,1", Setting())
    assert most.value == pytest.approx(0.9)


def test_unknown_names_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"task": "reorde"}, "--task: unknown name 'reorde'; did you mean 'reorder'?"),
        (
            {"task": "reorder", "model": "chi"},
            r"--model \(of --task reorder\): unknown name 'chi'; did you mean 'cho'?",
        ),
        ({"task": "copy", "seeds": "x"}, "--seeds: found 'x'"),
        ({"task": "copy", "steps": 0}, "--steps: found 0"),
    )
    for options, wanted in cases:
        with pytest.raises(RegardError, match=wanted):
            transduction.learn(**options, logs=tmp_path)


def test_it_trains_tells_and_does_not_train_twice(tmp_path: Path) -> None:
    heard: list[str] = []
    ask = partial(transduction.learn, "reverse", seeds="0,1", logs=tmp_path)
    rows = [*ask()(Setting(quick=True), heard.append)]
    lines = [row for row in rows if isinstance(row, Line)]
    assert [(line.cells["model"], line.cells["seed"]) for line in lines] == [
        ("forward", "0"), ("forward", "1"), ("reversed", "0"), ("reversed", "1"),
    ]  # fmt: skip
    assert next(row.work for row in rows if isinstance(row, Row)) == "reverse, length 15: reversed less forward"
    assert {spot.x for spot in rows if isinstance(spot, Spot)} == {5.0, 10.0, 15.0, 20.0, 30.0, 40.0}
    assert len(heard) == 8
    heard.clear()
    again = [*ask()(Setting(quick=True), heard.append)]
    assert [row for row in again if isinstance(row, Row | Spot)] == [row for row in rows if isinstance(row, Row | Spot)]
    assert heard == []
    alone = [*ask(model="forward")(Setting(quick=True), heard.append)]
    assert not any(isinstance(row, Row) for row in alone)  # there is nobody to be compared with
