"""The HMM and the sampler together."""

from __future__ import annotations

import numpy as np
import pytest

from regard.align.decode import believe
from regard.align.gibbs.blend import after, blend
from regard.align.pairs import Pairs
from regard.align.recipe import BEST
from regard.align.train import begin, train
from tests.align.gibbs.test_sampler import translated


def test_posteriors_are_averaged() -> None:
    text, _ = translated(47, 1)
    plan = BEST
    channels = train(begin(text, Pairs.of(text), plan), plan).channels
    sampler = after(text, channels, sweeps=2)
    for k, side in enumerate(sampler.sides):
        assert (side.links == side.links[0]).all()
        found = sum(len(each.links[k].source) for each in believe(channels))
        assert int((side.links[0] >= 0).sum()) == found
    sampler.run()
    mine, other = list(believe(channels)), list(sampler.believe())
    for weight in (0.0, 0.25, 1.0):
        for one, two, both in zip(mine, other, blend(channels, sampler, weight=weight), strict=True):
            size = one.block.cells
            for a, b, c in ((one.forward, two.forward, both.forward), (one.reverse, two.reverse, both.reverse)):
                assert c[:size] == pytest.approx((1 - weight) * a[:size] + weight * b[:size], abs=1e-6)
            if weight != 0.25:
                want = one if weight == 0.0 else two
                assert [list(each) for each in both.links] == [list(each) for each in want.links]


@pytest.mark.slow
def test_what_is_learnt_after_the_hmm_is_no_worse() -> None:
    text, true = translated(211, 4)
    plan = BEST
    channels = train(begin(text, Pairs.of(text), plan), plan).channels
    sampler = after(text, channels)
    sampler.run()
    errors = []
    for each in (believe(channels), blend(channels, sampler)):
        links = [link for one in each for link in one.links[0]]
        hits = sum(len(set(a) & set(b)) for a, b in zip(links, true, strict=True))
        errors.append(1 - 2 * hits / (sum(map(len, links)) + sum(map(len, true))))
    assert errors[1] < errors[0] + 0.005
    assert np.isfinite(errors).all()
