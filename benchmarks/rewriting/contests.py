"""The contests, by name. The bounds are from what is claimed of the articles' models, set before they were trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.harness.row import at_least, at_most
from benchmarks.learning.experiment import Arm, Exam, Experiment, Look, Recipe
from benchmarks.rewriting.contest import Claim, Contest
from benchmarks.rewriting.looks import aligned, exact, opening, spoken
from benchmarks.rewriting.models import alone, translating
from benchmarks.rewriting.task import Rewriting
from regard.errors import unknown_name

__all__ = ["CONTESTS", "contest"]

LENGTHS = (5, 10, 15, 20, 30, 40)
TRAINED = (3, 20)

SMALL: dict[str, Any] = {"width": 64, "heads": 4, "layers": 2, "feed": 256}
UNPLACED: dict[str, Any] = {**SMALL, "positions": "none"}
PUBLISHED = Arm("a Transformer, norm after", partial(translating, name="transformer", **SMALL))
BLIND = Arm("the same without positions", partial(translating, name="transformer", **UNPLACED))


@dataclass(frozen=True)
class Looks:
    """How much is looked at: ``rows`` of every length, and the lengths that models write by themselves."""

    rows: int = 64
    spoken: tuple[int, ...] = (10, 20, 30)


def reorder(looks: Looks) -> Contest:
    """Looking back, beside one vector with as many parameters: lengths that were learnt, and twice them.

    Each with the dropout that is better for it, as seed 7 had it, which is not judged: some makes who looks look at
    the very word and go on beyond what was learnt; who keeps one vector learns less with it.
    """
    task = Rewriting("reorder", TRAINED)
    recipe = Recipe(2000, 64, 3e-3, 1.0, enough=-1.0)
    each = partial(_rising_and_late, recipe)
    inside = [n for n in LENGTHS if n <= TRAINED[1]]
    speaks = partial(spoken, task, looks.spoken, looks.rows)
    return Contest(
        _by_length(
            "reorder",
            task,
            recipe,
            {
                "bahdanau": Arm(
                    "looks back at every step; dropout 0.1",
                    partial(
                        translating, name="bahdanau", embedding=32, hidden=64, alignment=64, readout=32, dropout=0.1
                    ),
                    each=each,
                    look=_all(partial(aligned, task, inside, looks.rows), speaks),
                ),
                "cho": Arm(
                    "one vector, in every step; no dropout",
                    partial(translating, name="cho", embedding=32, hidden=86, readout=32),
                    each=each,
                    look=speaks,
                ),
            },
        ),
        (
            Claim("length 20", "bahdanau", at_least(0.2), behind="cho"),
            Claim("length 30", "bahdanau", at_least(0.25), behind="cho"),
            Claim("aligned", "bahdanau", at_least(0.95)),
        ),
        curve="reorder: words right after the true ones",
    )


def reverse(looks: Looks) -> Contest:
    """A state that is handed over once, the source read from its first word or from its last."""
    task = Rewriting("relabel", TRAINED)
    seen = _all(partial(opening, task, 20, looks.rows), partial(spoken, task, looks.spoken, looks.rows))
    sizes: dict[str, Any] = {"embedding": 32, "hidden": 128, "layers": 1}
    stack = partial(translating, name="sutskever", **sizes)
    return Contest(
        _by_length(
            "reverse",
            task,
            Recipe(2000, 64, 3e-3, 1.0, enough=-1.0),
            {
                "forward": Arm("the source as it stands", stack, look=seen),
                "reversed": Arm("the source from its end", partial(stack, reverse=True), look=seen),
            },
        ),
        (
            Claim("length 15", "reversed", at_least(0.04), behind="forward"),
            Claim("first three of 20", "reversed", behind="forward"),
        ),
        curve="reverse: words right after the true ones",
    )


def copy(looks: Looks) -> Contest:
    """Copying needs the order of the source, which attention does not see by itself.

    Who sees a bag of words says it in the right order in 0.085 of the cases: a source of n different words has n!
    orders, and sources of 2 to 10 words are asked for alike.
    """
    arms = {"sinusoidal": PUBLISHED, "none": BLIND}
    return Contest(
        _alike("copy", Rewriting("copy", (2, 10)), 1200, looks, arms),
        (Claim("exact", "sinusoidal", at_least(0.99)), Claim("exact", "none", at_most(0.12))),
    )


def sort(looks: Looks) -> Contest:
    """Sorting does not need it: what is without positions is not broken otherwise."""
    arms = {"sinusoidal": PUBLISHED, "none": BLIND}
    return Contest(
        _alike("sort", Rewriting("sort", (2, 10), words=20), 2000, looks, arms),
        (Claim("exact", "sinusoidal", at_least(0.99)), Claim("exact", "none", at_least(0.9))),
    )


def first(looks: Looks) -> Contest:
    """Which word stood first: an encoder without positions cannot know, a decoder that sees only what is before it can.

    Who sees a bag of words is right in 0.28 of the cases, if it says the word that is in it most often.
    """
    arms = {"none": BLIND, "alone": Arm("its decoder alone, without positions", partial(alone, **UNPLACED))}
    return Contest(
        _alike("first", Rewriting("first", (2, 10)), 500, looks, arms),
        (Claim("exact", "none", at_most(0.35)), Claim("exact", "alone", at_least(0.99))),
    )


CONTESTS: dict[str, Callable[[Looks], Contest]] = {
    "reorder": reorder,
    "reverse": reverse,
    "copy": copy,
    "sort": sort,
    "first": first,
}


def contest(name: str, quick: bool = False) -> Contest:
    """The contest of that name, with hardly anything to do if ``quick``.

    Raises:
        RegardError: there is none (lists those that are).
    """
    if name not in CONTESTS:
        raise unknown_name("--task", name, CONTESTS)
    found = CONTESTS[name](Looks(2, (3,)) if quick else Looks())
    return Contest(found.experiment.quick(), found.claims, found.curve) if quick else found


def _by_length(name: str, task: Rewriting, recipe: Recipe, arms: dict[str, Arm]) -> Experiment:
    """Asked at lengths inside and outside of training, after as many updates of every arm."""
    exams = {f"length {n}": Exam(task.at(n), 4, 128, seed=1_000_033) for n in LENGTHS}
    return Experiment(name, task, recipe, {"length 15": Exam(task.at(15), 1)}, exams, arms)


def _alike(name: str, task: Rewriting, steps: int, looks: Looks, arms: dict[str, Arm]) -> Experiment:
    """Asked at the lengths of training; the rate rises for a tenth of the updates and falls to 0."""
    recipe = Recipe(steps, 32, 3e-3, 1.0, enough=-1.0)
    exams = {f"length {n}": Exam(task.at(n), 1, 128, seed=1_000_033) for n in (5, 10)}
    each = partial(_rising, recipe)
    arms = {
        n: Arm(a.says, a.build, recipe=recipe, each=each, look=partial(exact, task, looks.rows))
        for n, a in arms.items()
    }
    return Experiment(name, task, recipe, {"length 10": Exam(task.at(10), 1)}, exams, arms)


def _rising(recipe: Recipe, model: nn.Module, optimiser: torch.optim.Optimizer, step: int) -> None:
    warm = recipe.steps / 10
    optimiser.param_groups[0]["lr"] = recipe.rate * min(1.0, (step + 1) / warm) * (1.0 - step / recipe.steps)


def _rising_and_late(recipe: Recipe, model: nn.Module, optimiser: torch.optim.Optimizer, step: int) -> None:
    """The rate rises for a tenth of the updates and falls to 0 in the last quarter."""
    up, down = (step + 1) / (recipe.steps / 10), (recipe.steps - step) / (recipe.steps / 4)
    optimiser.param_groups[0]["lr"] = recipe.rate * min(1.0, up, down)


def _all(*looks: Look) -> Look:
    def look(model: nn.Module) -> dict[str, float]:
        return {name: value for each in looks for name, value in each(model).items()}

    return look
