"""Models 3 to 5 on disk: what was killed goes on as if it had not been; new text begins where the guide looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.align.applied import Applied
from regard.align.corpus import Corpus, Side
from regard.align.decode import believe
from regard.align.fertility.places import Fertile
from regard.align.lexicon import Dirichlet
from regard.align.pairs import Pairs
from regard.align.recipe import Recipe, Stage
from regard.align.saved import Saved, save
from regard.align.train import Iteration, State, begin, train
from tests.align.fertility.test_places import random_corpus

CHAIN = tuple(Stage(model, 2) for model in ("ibm1", "hmm", "ibm3", "ibm4", "ibm5"))
RECIPE = Recipe(CHAIN, Dirichlet(0.01, 0.01), classes=3)


def some(seed: int = 1) -> Corpus:
    rng = np.random.default_rng(seed)
    return random_corpus(seed, [tuple(rng.integers(1, 12, 2).tolist()) for _ in range(41)], (13, 17))


@pytest.mark.parametrize("killed", [5, 6, 8, 9])
def test_training_goes_on_where_it_was_killed(tmp_path: Path, killed: int) -> None:
    corpus = some()
    pairs = Pairs.of(corpus)

    def each(done: Iteration, state: State) -> None:
        if done.done == killed:
            save(tmp_path, corpus, state.channels, state.done, RECIPE, corpus.digest())

    whole = train(begin(corpus, pairs, RECIPE), RECIPE, threads=1, each=each).channels
    saved = Saved.of(tmp_path)
    saved.match(RECIPE, corpus.digest())
    again = train(saved.resumed(corpus, pairs), RECIPE, threads=1).channels
    for a, b in zip(whole, again, strict=True):
        one: Any = a.places
        two: Any = b.places
        assert isinstance(b.places, Fertile)
        np.testing.assert_array_equal(a.lexicon.table, b.lexicon.table)
        np.testing.assert_array_equal(one.fertility, two.fertility)
        np.testing.assert_array_equal(one.distances.opening, two.distances.opening)
        np.testing.assert_array_equal(one.tops.places, two.tops.places)


@pytest.mark.parametrize("stages", [3, 4, 5])
def test_a_kept_model_aligns_text_it_has_not_seen(tmp_path: Path, stages: int) -> None:
    corpus = some()
    recipe = Recipe(CHAIN[:stages], Dirichlet(0.01, 0.01), classes=3)
    state = train(begin(corpus, Pairs.of(corpus), recipe), recipe, threads=1)
    save(tmp_path, corpus, state.channels, state.done, recipe, corpus.digest())
    other = some(2)
    new = Corpus(  # some words are as they were, some are not
        Side(other.source.tokens, other.source.offsets, [*other.source.words[:7], *(b"n%d" % k for k in range(6))]),
        Side(other.target.tokens, other.target.offsets, [*(b"m%d" % k for k in range(5)), *other.target.words[5:]]),
        other.refused,
    )
    channels = Applied(Saved.of(tmp_path)).channels(new, Pairs.of(new))
    (found,) = believe(channels, viterbi=True, threads=1)
    for links, side in ((found.links[0], new.target), (found.links[1], new.source)):
        assert 0 < len(links.source) <= len(side.tokens)
    assert np.isfinite(found.both).all()
