"""Training: the stages of a recipe, iteration by iteration, from wherever it stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard.align.classes import of_both
from regard.align.corpus import Corpus
from regard.align.expect import Channel, Expected, expect
from regard.align.lexicon import Lexicon
from regard.align.pairs import Pairs
from regard.align.places import Places
from regard.align.places.diagonal import Diagonal
from regard.align.places.jumps import Jumps
from regard.align.places.table import Table
from regard.align.places.uniform import Uniform
from regard.align.recipe import Recipe, Stage
from regard.align.view import View

__all__ = ["Iteration", "State", "begin", "train"]

Array = np.ndarray[Any, Any]

_FERTILE = {"ibm3": 3, "ibm4": 4, "ibm5": 5}


@dataclass(frozen=True)
class State:
    """Where training stands: both channels, and how many iterations of the recipe are done."""

    channels: tuple[Channel, Channel]
    done: int = 0


@dataclass(frozen=True)
class Iteration:
    """One iteration, done: which of how many, of which model, and the log likelihood of a word in each direction
    (natural logarithm, before the tables were estimated anew)."""

    done: int
    of: int
    model: str
    forward: float
    reverse: float


def begin(corpus: Corpus, pairs: Pairs, recipe: Recipe, dtype: Any = np.float32) -> State:
    """Before the first iteration: every word as likely as every other, at the places of the first stage."""
    views = View.both(corpus, pairs)
    first, second = (
        Channel(view, Lexicon.uniform(view, dtype), _places(recipe.stages[0], view, recipe, dtype)) for view in views
    )
    return State((first, second))


def train(
    state: State,
    recipe: Recipe,
    *,
    known: Array | None = None,
    classes: tuple[Array, Array] | None = None,
    threads: int | None = None,
    together: Callable[[Array], Array] = lambda x: x,
    each: Callable[[Iteration, State], None] = lambda iteration, state: None,
) -> State:
    """The stages that are still to do. ``known`` are pseudo-counts of pairs, ``classes`` those of the source's and of
    the target's words (found by exchange where they are needed and not given); ``together`` adds an array up over all
    that train on a part each; ``each`` is called after every iteration.

    Without a prior and without agreement the likelihood never falls within a stage of Model 1, 2, the diagonal or the
    HMM."""
    total = sum(stage.iterations for stage in recipe.stages)
    words = [max(1, len(channel.view.generated.tokens)) for channel in state.channels]
    past = 0
    for stage in recipe.stages:
        for k in range(stage.iterations):
            if past + k < state.done:
                continue
            channels = state.channels
            if k == 0 and past > 0 and stage.model in _FERTILE:
                channels = _fertile(stage, channels, recipe, classes, threads, together)
            elif k == 0 and past > 0:
                first, second = (
                    replace(each, places=_places(stage, each.view, recipe, each.lexicon.table.dtype.type))
                    for each in channels
                )
                channels = first, second
            found = [_together(one, together) for one in expect(channels, stage.agreement, threads)]
            first, second = (
                _estimated(channel, one, recipe, known, threads) for channel, one in zip(channels, found, strict=True)
            )
            state = State((first, second), past + k + 1)
            scores = [one.score / n for one, n in zip(found, words, strict=True)]
            each(Iteration(state.done, total, stage.model, *scores), state)
        past += stage.iterations
    return state


def _places(stage: Stage, view: View, recipe: Recipe, dtype: Any) -> Places:
    if stage.model == "ibm1":
        return Uniform()
    if stage.model == "ibm2":
        return Table.uniform(view, dtype)
    if stage.model == "diagonal":
        return Diagonal.starting(view, dtype)
    return Jumps.starting(view, null=recipe.null, prior=recipe.jump, flat=recipe.flat, dtype=dtype)


def _fertile(
    stage: Stage,
    channels: tuple[Channel, Channel],
    recipe: Recipe,
    classes: tuple[Array, Array] | None,
    threads: int | None,
    together: Callable[[Array], Array],
) -> tuple[Channel, Channel]:
    """Both channels with the places of Model 3, 4 or 5, begun from those they have."""
    from regard.align.fertility.places import Fertile  # what the other models need not wait for

    model = _FERTILE[stage.model]
    made = []
    for k, channel in enumerate(channels):
        places = channel.places
        if not isinstance(places, Fertile):
            view = channel.view
            classes = classes or of_both(view.source, view.target, recipe.classes, threads=threads)
            own = (classes[k], classes[1 - k])
            places = Fertile.starting(channel, own, recipe.fertility, threads=threads, together=together)
        if places.distances.model != model:
            places = places.next(model, channel.view, threads=threads, together=together)
        made.append(replace(channel, places=places))
    return made[0], made[1]


def _estimated(channel: Channel, found: Expected, recipe: Recipe, known: Array | None, threads: int | None) -> Channel:
    view = channel.view
    lexicon = Lexicon.estimated(view, found.counts, found.null, recipe.prior, known, threads=threads)
    return Channel(view, lexicon, channel.places.fitted(view, found.sums))


def _together(found: Expected, together: Callable[[Array], Array]) -> Expected:
    score = float(together(np.array([found.score]))[0])
    return Expected(score, together(found.counts), together(found.null), together(found.sums))
