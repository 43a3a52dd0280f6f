"""Scores: how well a key matches a query, any real number, before anything is normalised.

Every score is written in three steps, so that what can be done once is done once: ``queries`` turns the queries,
``keys`` turns the keys (a memory that is read many times keeps the result), ``compare`` matches the two.
"""

from __future__ import annotations

from regard.errors import unknown_name
from regard.score.base import Bias, Biased, Capped, DotForm, Keyed, Score, Wrapped
from regard.score.learnt import Additive, Concat, Learned
from regard.score.products import Cosine, Dot, Euclidean, General, ScaledDot

__all__ = [
    "NAMES",
    "Additive",
    "Bias",
    "Biased",
    "Capped",
    "Concat",
    "Cosine",
    "Dot",
    "DotForm",
    "Euclidean",
    "General",
    "Keyed",
    "Learned",
    "ScaledDot",
    "Score",
    "Wrapped",
    "named",
]

NAMES: dict[str, Score] = {
    "dot": Dot(),
    "scaled_dot": ScaledDot(),
    "cosine": Cosine(),
    "euclidean": Euclidean(),
}


def named(score: Score | str) -> Score:
    """The score itself, or the parameterless one of that name: dot, scaled_dot, cosine, euclidean."""
    if isinstance(score, Score):
        return score
    if isinstance(score, str) and score in NAMES:
        return NAMES[score]
    raise unknown_name("score", score, NAMES)
