"""From posteriors to links: the cell of a block is the word of a sentence, and its weight is √(p q)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.align.aligner import decoded
from regard.align.decode import believe, combined, hard
from regard.align.expect import Channel
from regard.align.links import Links
from regard.align.places.jumps import Jumps
from regard.align.places.uniform import Uniform
from regard.align.symmetrize import METHODS
from regard.align.view import View
from tests.align.exhaustive import (
    Words,
    enumerated,
    jumped,
    random_corpus,
    random_jumps,
    random_lexicon,
    views,
)

Array = np.ndarray[Any, Any]
SEEDS = st.integers(0, 2**32 - 1)


def channels(rng: np.random.Generator, sentences: int = 13, longest: int = 4) -> tuple[Channel, Channel]:
    """The HMM forward, Model 1 in reverse."""
    one, other = views(random_corpus(rng, sentences, longest))
    return (
        Channel(one, random_lexicon(rng, one), random_jumps(rng, one)),
        Channel(other, random_lexicon(rng, other), Uniform()),
    )


def weights(both: tuple[Channel, Channel], s: int) -> tuple[Array, Array]:
    """p(i|j) and p(j|i) of a sentence as (l, m), from all alignments."""
    found = []
    for channel in both:
        words = Words.of(channel.view, channel.lexicon, s)
        m, l = words.table.shape
        places = channel.places
        prior = jumped(places, words.giving) if isinstance(places, Jumps) else lambda a, l=l, m=m: (l + 1.0) ** -m
        found.append(enumerated(words, prior).post if l else np.zeros((0, 0)))
    return found[0].T, found[1]


@pytest.mark.parametrize("cells", [1 << 22, 9])
@given(seed=SEEDS)
@settings(max_examples=5)
def test_soft_links_are_the_cells_above_the_threshold(cells: int, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.align.view._CELLS", cells)
        both = channels(np.random.default_rng(seed))
        found = decoded(both[0].view, believe(both), "soft", 0.3)
        assert len(found.links) == len(both[0].view.source.offsets) - 1
        for s in range(len(found.links)):
            p, q = weights(both, s)
            joint = np.sqrt(p * q)
            expected = [(int(i), int(j), joint[i, j]) for i, j in zip(*np.nonzero(joint > 0.3), strict=True)]
            rows = found.links.row(s)
            assert [row[:2] for row in rows] == [row[:2] for row in expected]
            assert [row[2] for row in rows] == pytest.approx([row[2] for row in expected], abs=2e-6)  # type: ignore[misc]


@given(seed=SEEDS)
@settings(max_examples=5)
def test_hard_links_are_the_likeliest_place_of_each_word(seed: int) -> None:
    """One word at a time, and with √(p q) each, whichever method chose them."""
    both = channels(np.random.default_rng(seed))
    found = decoded(both[0].view, believe(both), "union")
    for s in range(len(found.links)):
        p, q = weights(both, s)
        if not p.size:
            assert found.forward[s] == found.reverse[s] == found.links[s] == []
            continue
        forward = [(int(p[:, j].argmax()), j) for j in range(p.shape[1]) if p[:, j].max() > 1 - p[:, j].sum()]
        reverse = [(i, int(q[i].argmax())) for i in range(q.shape[0]) if q[i].max() > 1 - q[i].sum()]
        assert found.forward[s] == sorted(forward)
        assert found.reverse[s] == sorted(reverse)
        assert found.links[s] == sorted({*forward, *reverse})
        for links in (found.forward, found.reverse, found.links):
            for i, j, weight in links.row(s):  # type: ignore[misc]
                assert weight == pytest.approx((p[i, j] * q[i, j]) ** 0.5, abs=2e-6)


@given(seed=SEEDS)
@settings(max_examples=5)
def test_viterbi_takes_the_likeliest_alignment_of_the_sentence(seed: int) -> None:
    both = channels(np.random.default_rng(seed))
    (believed,) = believe(both, viterbi=True)
    view = both[0].view
    for s in range(len(view.source.offsets) - 1):
        words = Words.of(view, both[0].lexicon, s)
        if not words.table.size:
            continue
        places = both[0].places
        assert isinstance(places, Jumps)
        truth = enumerated(words, jumped(places, words.giving))
        chosen = [-1] * len(words.given)
        for i, j in believed.links[0][s]:
            chosen[j] = i
        assert dict(truth.each)[tuple(chosen)] == pytest.approx(truth.most, rel=1e-9)


@pytest.mark.parametrize("symmetrize", METHODS)
def test_every_method_from_block_to_block(symmetrize: str, monkeypatch: pytest.MonkeyPatch) -> None:
    both = channels(np.random.default_rng(4), 31)
    whole = decoded(both[0].view, believe(both), symmetrize)
    monkeypatch.setattr("regard.align.view._CELLS", 9)
    parts = decoded(both[0].view, believe(both, threads=2), symmetrize)
    for name in ("links", "forward", "reverse"):
        assert getattr(whole, name) == getattr(parts, name)
        assert getattr(whole, name).probability is not None
    if symmetrize != "soft":
        assert Links.join(combined(both[0].view, each, symmetrize) for each in believe(both)) == whole.links
        assert whole.links.hard == METHODS[symmetrize](whole.forward.hard, whole.reverse.hard)


def test_places_are_links_of_their_sentence() -> None:
    text = random_corpus(np.random.default_rng(2), 11)
    for view in View.both(text, views(text)[0].pairs):
        (block,) = view.blocks()
        lengths = view.generating.lengths()
        side = view.generated
        sentence = np.repeat(np.arange(len(text)), side.lengths())
        word = np.arange(len(side.tokens)) - side.offsets[sentence]
        places = np.where(word % 3 == 2, -1, np.minimum(word, lengths[sentence] - 1))
        pairs = [(int(p), int(j)) for p, j in zip(places, word, strict=True)]
        expected = [
            sorted(
                (j, p) if view.turned else (p, j)
                for (p, j), at in zip(pairs, sentence, strict=True)
                if at == s and p >= 0
            )
            for s in range(len(text))
        ]
        assert list(hard(view, block, places.astype(np.int32))) == expected


def test_of_no_text_there_are_no_links_but_they_have_probabilities() -> None:
    both = channels(np.random.default_rng(1), 0)
    for symmetrize in METHODS:
        found = decoded(both[0].view, believe(both), symmetrize)
        for links in (found.links, found.forward, found.reverse):
            assert len(links) == 0
            assert links.probability is not None
            assert Links.join([links, Links.of([[(0, 0, 0.5)]])]).row(0) == [(0, 0, 0.5)]
