"""Links from attention weights: where a model looked as it wrote, read as which word answers to which.

Weights come as tensors (..., T, S), a row for each target piece and a column for each source piece, from
:func:`regard.weights`, a layer's ``weights``, a translator's forced reading, or whoever else has them. A word number
for each piece says which word it belongs to, −1 for marks that are no word. Weight is where a model looked: that it
looked there because the words translate each other is what a score against gold tests, not what the weight means.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from regard.align.links import Links
from regard.errors import RegardError

__all__ = ["Fold", "fold", "links", "shifted"]

Fold = Literal["sum", "max"]


def shifted(weights: Tensor) -> Tensor:
    """Row t becomes row t + 1: the look of the step that has piece t as its input (Chen et al. 2020, Shift-AET).

    The look before piece t is said cannot know it: it tells where the model looked to choose t, the look one step
    later where it looked having just read t. The last row has no later one and becomes 0. (..., T, S) as before.

    >>> shifted(torch.tensor([[1.0, 0.0], [0.25, 0.75]]))
    tensor([[0.2500, 0.7500],
            [0.0000, 0.0000]])
    """
    return torch.cat([weights[..., 1:, :], torch.zeros_like(weights[..., :1, :])], -2)


def fold(weights: Tensor, target: Sequence[int], source: Sequence[int], how: Fold = "sum") -> Tensor:
    """Weights of pieces (..., T, S) as weights of words (..., J, I).

    Args:
        weights: rows are target pieces, columns source pieces.
        target, source: the word of each piece, from 0, and −1 for a mark that is no word. J and I are one more than the
            largest; a word without pieces gets weight 0.
        how: ``"sum"``: what a word's pieces were given together, on average over the target word's own: a row still
            sums to at most 1. ``"max"``: the largest weight between two pieces.

    Raises:
        RegardError: the word numbers do not fit the weights.

    >>> w = torch.tensor([[0.5, 0.25, 0.25], [0.5, 0.5, 0.0]])
    >>> fold(w, target=[0, 0], source=[0, 1, 1])  # one target word of two pieces, a source word of one and one of two
    tensor([[0.5000, 0.5000]])
    >>> fold(w, [0, 0], [0, 1, -1], how="max")
    tensor([[0.5000, 0.5000]])
    """
    if how not in get_args(Fold):
        raise RegardError(f"how: found {how!r}, wanted {' or '.join(get_args(Fold))}")
    for name, words, axis in (("target", target, -2), ("source", source, -1)):
        if weights.dim() < 2 or len(words) != weights.shape[axis]:
            raise RegardError(
                f"{name}: found the words of {len(words)} pieces for weights {tuple(weights.shape)}, wanted one for "
                f"each {'row' if name == 'target' else 'column'} of (..., T, S); −1 marks a piece that is no word"
            )
    if how == "max":
        return _largest(_largest(weights, source, -1), target, -2)
    into_rows, into_columns = _membership(target, weights), _membership(source, weights)
    pieces = into_rows.sum(-1, keepdim=True).clamp(min=1)  # (J, 1): a target word's rows are averaged
    return (into_rows / pieces) @ weights @ into_columns.mT


def links(weights: Iterable[Tensor], *, threshold: float | None = None) -> Links:
    """Links from weights of words (J, I), one matrix a sentence: of each target word its strongest look, or all strong.

    Args:
        weights: rows are target words, ≥ 0. A row of zeros links nothing.
        threshold: link every pair with at least this weight; where left out, each target word's argmax (the first of
            equals) is linked and nothing else is.

    Returns:
        Links (i, j), source word i with target word j, their weights as probabilities.

    Raises:
        RegardError: something else than matrices, weights that are negative or not finite, a threshold of 0 or less.

    >>> w = torch.tensor([[0.75, 0.25], [0.0, 0.0], [0.5, 0.5]])
    >>> links([w])
    Links.of([[(0, 0, 0.75), (0, 2, 0.5)]])
    >>> links([w], threshold=0.5)
    Links.of([[(0, 0, 0.75), (0, 2, 0.5), (1, 2, 0.5)]])
    """
    if threshold is not None and not threshold > 0:
        raise RegardError(f"threshold: found {threshold}, wanted more than 0; every pair would be a link")
    return Links.join(_linked(n, w, threshold) for n, w in enumerate(weights))


def _linked(n: int, w: Tensor, threshold: float | None) -> Links:
    if w.dim() != 2:
        raise RegardError(
            f"weights: sentence {n + 1} has shape {tuple(w.shape)}, wanted (J, I), target words × source words; "
            "take one head, or the mean over layers and heads"
        )
    w = w.detach().cpu()
    if not bool(torch.isfinite(w).all()) or bool((w < 0).any()):
        raise RegardError(f"weights: sentence {n + 1} holds numbers below 0 or not finite; give weights, not scores")
    w = w.to(torch.promote_types(w.dtype, torch.float32)).mT
    if threshold is None:
        rows = w.argmax(0) if w.shape[0] else torch.zeros(w.shape[1], dtype=torch.int64)
        only = torch.zeros_like(w).scatter_(0, rows.unsqueeze(0), 1.0) if w.shape[0] else w
        return Links.above([(w * only).numpy()], _LEAST)
    return Links.above([w.numpy()], threshold)


_LEAST = torch.finfo(torch.float32).tiny  # any weight at all


def _membership(words: Sequence[int], like: Tensor) -> Tensor:
    """(words, pieces), 1 where a piece belongs to a word."""
    found = torch.tensor(words, dtype=torch.int64, device=like.device)
    count = max(words, default=-1) + 1
    return (torch.arange(count, device=like.device).unsqueeze(-1) == found).to(like.dtype)


def _largest(weights: Tensor, words: Sequence[int], axis: int) -> Tensor:
    """The largest of each word's pieces along an axis, 0 where it has none."""
    found = torch.tensor(words, dtype=torch.int64, device=weights.device)
    count = max(words, default=-1) + 1
    shape = list(weights.shape)
    shape[axis] = count + 1  # the last place takes what is no word
    place = torch.where(found < 0, count, found)
    place = place.unsqueeze(-1).expand_as(weights) if axis == -2 else place.expand_as(weights)
    best = weights.new_zeros(shape).scatter_reduce(axis, place, weights, "amax", include_self=True)
    return best.narrow(axis, 0, count)
