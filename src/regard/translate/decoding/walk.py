"""A batch of sentences on its way through the decoder, and how a sentence's numbers come to ignore its batch.

A sentence translated among others must give the very bits that it gives alone. Four things see to it:

- only sentences of one length go together, so that nothing is padded: sums over the source have the same terms, in the
  same places;
- a product has at least 16 rows. A matrix library multiplies few rows by other routines than many, with other rounding;
  from 16 on the one that PyTorch brings for this machine gives a row the same bits whatever stands in the others. A
  batch that is too small has its last sentence repeated;
- one thread, so that no product is divided by how many rows there are;
- the engine that reads is chosen without a look at sizes.

The second holds where it was tested, with MKL on AVX-512. With another library a score can differ in its last bits, and
a translation where two candidates are equal but for these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad as pad_end

from regard.errors import RegardError
from regard.plan import whatever_the_size
from regard.translate.models.encoder_decoder import EncoderDecoder, Looks
from regard.translate.text.batches import pad
from regard.translate.text.vocabulary import BOS, PAD, UNK

__all__ = ["Walk", "each", "rows_of", "steady"]

_ROWS = 16


@contextmanager
def steady(threads: int = 1) -> Iterator[None]:
    """Inside, no gradient, one thread a product, and engines that are chosen without a look at sizes."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.no_grad(), whatever_the_size():
            yield
    finally:
        torch.set_num_threads(before)


class Walk:
    """``width`` beginnings of each of B sentences of one length, of which some may be there for company only.

    ``ids`` (B, K, t) is what they say so far, ``looks`` (B, K, t, S) where they looked (mean of layers and heads) if
    that is wanted, and ``numbers`` says which sentence each of the B is: −1 for company.

    Raises:
        RegardError: looks are wanted of a model that does not look.
    """

    def __init__(
        self, model: EncoderDecoder[Any, Any], sources: Sequence[Sequence[int]], width: int, looking: bool, padding: int
    ) -> None:
        if looking and not isinstance(model, Looks):
            raise RegardError(
                "looks: this model reads its source once and does not look back at it; "
                "coverage, alignment, copied words and markup need a model that looks"
            )
        self.model, self.width, self.looking = model, width, looking
        company = max(0, _ROWS - len(sources))
        source, lengths = pad([*sources, *[sources[-1]] * company])
        self.device = next(model.parameters()).device
        source, lengths = pad_end(source, (0, padding), value=PAD).to(self.device), lengths.to(self.device)
        self.memory, state = model.encode(source, lengths)
        self.numbers = [*range(len(sources)), *[-1] * company]
        rows = len(self.numbers), width
        self.ids = torch.full((*rows, 0), PAD, device=self.device)
        self.looks = torch.zeros(*rows, 0, source.shape[1], device=self.device) if looking else None
        self.state = each(state, lambda x: x.expand(x.shape[0], width, *x.shape[2:]).contiguous())
        self._previous = torch.full(rows, BOS, device=self.device)
        self._looked: Tensor | None = None
        self.leave(range(len(sources)))

    @property
    def batch(self) -> int:
        return len(self.numbers)

    def step(self, unknown: bool, must: Sequence[int]) -> Tensor:
        """log p of the next piece (B, K, V); −∞ where it may not be said.

        Padding and begin are never said, the unknown piece only if ``unknown``; where ``must`` of a sentence is 0 or
        more, that piece is the only one that may be.
        """
        if self.looking:
            assert isinstance(self.model, Looks)  # a walk that looks is begun with a model that can tell
            logits, self.state, looked = self.model.step_looking(self.state, self._previous, self.memory)
            self._looked = looked.float().mean((1, 2))  # (B, K, S)
        else:
            logits, self.state = self.model.step(self.state, self._previous, self.memory)
        log_p = torch.log_softmax(logits.float(), -1)
        forced = [(b, piece) for b, piece in enumerate(must) if piece >= 0]
        given = [(b, piece, log_p[b, :, piece].clone()) for b, piece in forced]
        log_p[..., [PAD, BOS] if unknown else [PAD, BOS, UNK]] = float("-inf")
        for b, piece, value in given:
            log_p[b] = float("-inf")
            log_p[b, :, piece] = value
        return log_p

    def follow(self, parent: Tensor, piece: Tensor) -> None:
        """Beginning k of each sentence becomes what ``parent`` (B, K) was, and says ``piece`` (B, K)."""
        take = partial(rows_of, torch.arange(self.batch, device=self.device).unsqueeze(-1), parent)
        self.state = each(self.state, take)
        self.ids = torch.cat([take(self.ids), piece.unsqueeze(-1)], -1)
        self._previous = piece
        if self.looks is not None and self._looked is not None:
            self.looks = torch.cat([take(self.looks), take(self._looked).unsqueeze(-2)], -2)

    def leave(self, staying: Sequence[int]) -> Tensor | None:
        """Lets all go but the rows ``staying``, and those whose company they need; which rows are left, if fewer.

        Nobody moves for a few: what moves is copied.
        """
        wanted = max(len(staying), -(-_ROWS // self.width), 2)
        if wanted > 0.75 * self.batch:
            return None
        others = [b for b in range(self.batch) if b not in set(staying)]
        rows = torch.tensor([*staying, *others[: wanted - len(staying)]], device=self.device)
        self.numbers = [self.numbers[b] if b in set(staying) else -1 for b in rows.tolist()]
        self.memory = _sentences(self.memory, rows)
        self.state = each(self.state, lambda x: x[rows])
        self.ids, self._previous = self.ids[rows], self._previous[rows]
        self.looks = None if self.looks is None else self.looks[rows]
        return rows


def each(state: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """``change`` done to the tensor, or to each of the tensors, that a state is."""
    return change(state) if isinstance(state, Tensor) else tuple(change(x) for x in state)


def rows_of(rows: Tensor, parent: Tensor, x: Tensor) -> Tensor:
    """Of each sentence the rows ``parent`` (B, K) of x (B, K, ...)."""
    return x[rows, parent]


def _sentences(memory: Any, rows: Tensor) -> Any:
    """A memory of these sentences alone."""
    if isinstance(memory, Tensor):
        return memory[rows]
    if isinstance(memory, tuple):
        return tuple(_sentences(x, rows) for x in memory)
    if is_dataclass(memory) and not isinstance(memory, type):
        return replace(memory, **{f.name: _sentences(getattr(memory, f.name), rows) for f in fields(memory)})
    return memory
