"""What the chains counted, as two channels: for text that they did not draw."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from regard.align.expect import Channel
from regard.align.gibbs.sampler import Sampler
from regard.align.gibbs.tally import Tally
from regard.align.lexicon import Dirichlet, Lexicon
from regard.align.places.jumps import Jumps

__all__ = ["channels"]


def channels(sampler: Sampler, *, threads: int | None = None) -> tuple[Channel, Channel]:
    """The HMM of the links of all chains: each table's mean under its Dirichlet. Fertilities are left out of it."""
    made = []
    for side in sampler.sides:
        view, beliefs = side.view, sampler.beliefs
        tally = Tally.of(view, *side.links)
        counts, null = tally.pair / sampler.chains, tally.null[:-1] / sampler.chains
        known = side.prior if len(side.prior) else None
        prior = Dirichlet(beliefs.lexical, beliefs.null)
        lexicon = Lexicon.estimated(view, counts.astype(sampler.dtype), null, prior, known, threads=threads)
        start = Jumps.starting(view, null=beliefs.empty, prior=beliefs.jump, dtype=sampler.dtype)
        made.append(Channel(view, lexicon, replace(start, weights=_weights(start, tally))))
    return made[0], made[1]


def _weights(start: Jumps, tally: Tally) -> np.ndarray:
    """The jumps' shares, all that go far sharing one; a jump from before the sentence is a jump like others."""
    reach, near = len(tally.jumps) // 2, start.weights.shape[1] // 2
    bucket = np.clip(np.arange(-reach, reach + 1), -near, near) + near
    counts = np.bincount(bucket, weights=tally.jumps, minlength=2 * near + 1) + start.prior
    weights = counts / np.maximum(np.bincount(bucket, minlength=2 * near + 1), 1)
    return np.tile(weights / weights.sum(), (len(start.weights), 1))
