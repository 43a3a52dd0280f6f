"""How a fact becomes a vector and knows its time: position encoding, time tables, empty memories."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import RegardError


def position_encoding(words: Tensor, width: int) -> Tensor:
    """l_kj = (1 − j/J) − (k/d)(1 − 2j/J), j = 1…J the word, k = 1…d the column: (…, J) booleans → (…, J, d).

    ``words`` is True where a sentence has a word; J is the sentence's own length, whatever it is padded to, and l is 0
    where there is no word. A sentence is m = Σ_j l_j ∘ A x_j, so that the order of its words matters.
    (Sukhbaatar et al. 2015, section 4.1. The authors' code has twice this, at j − ½ and k − ½.)

    >>> position_encoding(torch.tensor([[True, True, False]]), width=2)
    tensor([[[0.5000, 0.5000],
             [0.5000, 1.0000],
             [0.0000, 0.0000]]])
    """
    _check_words(words)
    at = torch.get_default_dtype()
    J = words.sum(-1, keepdim=True).clamp(min=1).unsqueeze(-1).to(at)
    j = words.cumsum(-1).unsqueeze(-1).to(at)
    k = torch.arange(1, width + 1, device=words.device).to(at)
    return ((1 - j / J) - (k / width) * (1 - 2 * j / J)) * words.unsqueeze(-1)


def bag_of_words(words: Tensor, width: int) -> Tensor:
    """l_kj = 1: a sentence is the sum of its words, in no order. (…, J) booleans → (…, J, d).

    >>> bag_of_words(torch.tensor([True, False]), width=3)
    tensor([[1., 1., 1.],
            [0., 0., 0.]])
    """
    _check_words(words)
    return words.unsqueeze(-1).expand(*words.shape, width).to(torch.get_default_dtype())


@dataclass(frozen=True, eq=False)
class TimeTable:
    """T_A and T_C of every hop: what a fact's age adds to its key and to its value.

    ``keys`` and ``values`` are (K, N, D), row a for the fact that a others were written after; the last one has age 0.
    Time is counted backwards because that is what a question needs: what was said *last*.
    """

    keys: Tensor
    values: Tensor

    def __post_init__(self) -> None:
        if self.keys.dim() != 3 or self.keys.shape != self.values.shape:
            raise RegardError(
                f"TimeTable: keys are {tuple(self.keys.shape)} and values {tuple(self.values.shape)}, wanted both "
                "(K, N, D): hops, ages, width"
            )

    def at(self, ages: Tensor) -> tuple[Tensor, Tensor]:
        """What to add to keys and values of facts of these ages: (S,) → (1, K, S, D) each, (B, S) → (B, K, S, D).

        An age that the table does not have is refused.
        """
        N = self.keys.shape[1]
        if ages.numel() and int(ages.max()) >= N:
            raise RegardError(
                f"TimeTable: there is a fact of age {int(ages.max())}, the table has ages 0 to {N - 1}; give the "
                f"memory slots={N}, so that it keeps the newest {N}, or the table more rows"
            )
        rows = ages if ages.dim() == 2 else ages.unsqueeze(0)
        return self.keys[:, rows].transpose(0, 1), self.values[:, rows].transpose(0, 1)


def with_empty(ages: Tensor, share: float, generator: torch.Generator | None = None) -> Tensor:
    """Ages (S,) or (B, S) as if empty memories had been written between the facts at random: (B, S) or (S,).

    Behind each fact an empty one comes with probability ``share`` (the paper: a tenth), so that a time table is trained
    at more ages than the stories have, and no age stands for one story. An empty memory takes a place in time and
    is nothing to be read, as in the authors' code.

    >>> ages = torch.tensor([3, 2, 1, 0])
    >>> later = with_empty(ages, 0.5)
    >>> bool((later >= ages).all()), bool((later.diff() < 0).all())  # older, and still in order
    (True, True)
    """
    if not 0.0 <= share < 1.0:
        raise RegardError(f"with_empty: share is {share}, wanted a probability, 0 ≤ share < 1")
    gaps = torch.rand(ages.shape, generator=generator).to(ages.device) < share
    return ages + gaps.long().flip(-1).cumsum(-1).flip(-1)  # the newest stands at the right end


def _check_words(words: Tensor) -> None:
    if words.dtype != torch.bool or words.dim() < 1:
        raise RegardError(
            f"words: found {tuple(words.shape)} of {words.dtype}, wanted booleans (…, J), True where there is a word"
        )
