"""Two channels that agree: what they count together, and what each counts alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.align.expect import Agreement, Channel, agreed, expect
from regard.align.places import Found
from regard.align.places.uniform import Uniform
from tests.align.exhaustive import random_corpus, random_jumps, random_lexicon, views

Array = np.ndarray[Any, Any]

BOTH = {
    "product": lambda p, q: p * q,
    "geometric": lambda p, q: (p * q) ** 0.5,
    "mean": lambda p, q: (p + q) / 2,
}


@pytest.mark.parametrize("agreement", BOTH)
def test_two_posteriors_as_one(agreement: Agreement) -> None:
    """More cells than a thread takes at a time, and one that is beyond the block stays as it was."""
    rng = np.random.default_rng(1)
    p, q = rng.random((2, (1 << 18) + 7))
    before = p.copy()
    found = agreed(p, q, agreement, len(p) - 1, threads=2)
    assert found is p
    np.testing.assert_allclose(found[:-1], BOTH[agreement](before, q)[:-1], rtol=1e-12)
    assert found[-1] == before[-1]


@pytest.mark.parametrize("agreement", [*BOTH, None])
@pytest.mark.parametrize("cells", [1 << 22, 11])
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=7)
def test_counts_are_sums_over_all_cells(agreement: Agreement | None, cells: int, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.align.view._CELLS", cells)
        rng = np.random.default_rng(seed)
        both = views(random_corpus(rng, 13))
        channels = [
            Channel(both[0], random_lexicon(rng, both[0]), random_jumps(rng, both[0])),
            Channel(both[1], random_lexicon(rng, both[1]), Uniform()),
        ]
        posts: list[Array] = []
        for channel in channels:
            found, parts = Found(channel.view, np.float64), []
            for block in channel.view.blocks():
                channel.places.expect(channel.view, block, channel.lexicon, found, 1)
                parts.append(found.post[: block.cells].copy())
            posts.append(np.concatenate(parts))
            expected = expect(channels, agreement, 2)[len(posts) - 1]
            assert expected.score == pytest.approx(found.score, abs=1e-9)
            side = channel.view.generated
            null = np.bincount(side.tokens, weights=found.null, minlength=len(side.words))
            np.testing.assert_allclose(expected.null, null, atol=1e-12)
        if agreement:
            posts = [BOTH[agreement](*posts)] * 2
        for post, expected in zip(posts, expect(channels, agreement, 2), strict=True):
            pairs = both[0].pairs
            counts = np.bincount(pairs.cells, weights=post, minlength=len(pairs))
            np.testing.assert_allclose(expected.counts, counts, atol=1e-12)
