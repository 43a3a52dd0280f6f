"""A batch of sentences on its way through the decoder, and how a sentence's numbers come to ignore its batch.

A sentence translated among others must give the very bits that it gives alone. Four things see to it:

- sentences go together that are padded to one length, the next multiple of each's own that the model's ``grain`` says:
  sums over the source have the same terms, in the same places, and zeros behind;
- a product has at least 16 rows. A matrix library multiplies few rows by other routines than many, with other rounding;
  from 16 on the one that PyTorch brings for this machine gives a row the same bits whatever stands in the others. A
  batch that is too small has its last sentence repeated, over all places, because some encoders pass over padding;
- one thread, so that no product is divided by how many rows there are;
- the engine that reads is chosen without a look at sizes.

The second holds where it was tested, with MKL on processors with AVX-512, for models whose widths are multiples of 4:
their rows all begin at multiples of 16 bytes, and what MKL does with a row elsewhere depends, on some processors, on
where it begins. With another library or other widths a score can differ in its last bits, and a translation where two
candidates are equal but for these.
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
from regard.translate.models.encoder_decoder import Branches, EncoderDecoder, Looks
from regard.translate.text.batches import pad
from regard.translate.text.vocabulary import BOS, PAD, UNK

__all__ = ["Walk", "of", "padded", "spread", "steady", "taken"]

_ROWS = 16
_NEVER = float("-inf")


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
    """``width`` beginnings of each of B sentences of one padded length, of which some may be there for company only.

    ``ids`` (B, K, t) is what they say so far, ``looks`` (B, K, t, S) where they looked if that is wanted, the mean over
    so many layers and ``heads``, and ``numbers`` says which sentence each of the B is: −1 for company.

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
        self.model, self.width, self.looking, self.padding = model, width, looking, padding
        places = padded(max(map(len, sources)), model.grain)
        company = max(0, _ROWS - sum(len(ids) == places for ids in sources))  # whole, so that no place has fewer rows
        source, lengths = pad([*sources, *[_filled(sources[-1], places)] * company])
        self.device = next(model.parameters()).device
        source, lengths = pad_end(source, (0, padding), value=PAD).to(self.device), lengths.to(self.device)
        self.memory, state = model.encode(source, lengths)
        self.numbers = [*range(len(sources)), *[-1] * company]
        rows = len(self.numbers), width
        self.ids = torch.full((*rows, 0), PAD, device=self.device)
        self.looks = torch.zeros(*rows, 0, source.shape[1], device=self.device) if looking else None
        self.heads = 1, 1
        self.state = spread(state, width)
        self._previous = torch.full(rows, BOS, device=self.device)
        self._looked: Tensor | None = None
        self._keep(range(len(sources)))

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
            self.heads = looked.shape[1], looked.shape[2]
            self._looked = looked.float().mean((1, 2))  # (B, K, S)
        else:
            logits, self.state = self.model.step(self.state, self._previous, self.memory)
        log_p = torch.log_softmax(logits.float(), -1)
        forced = [(b, piece) for b, piece in enumerate(must) if piece >= 0]
        given = [(b, piece, log_p[b, :, piece].clone()) for b, piece in forced]
        for mute in (PAD, BOS) if unknown else (PAD, BOS, UNK):
            log_p[..., mute] = _NEVER
        for b, piece, value in given:
            log_p[b] = _NEVER
            log_p[b, :, piece] = value
        return log_p

    def follow(self, parent: Tensor | None, piece: Tensor) -> None:
        """Beginning k of each sentence becomes what ``parent`` (B, K) was, and says ``piece`` (B, K).

        Without parents each goes on as what it was.
        """
        if parent is not None:
            self.state, self.ids = taken(self.state, parent), _rows_of(parent, self.ids)
            self.looks = None if self.looks is None else _rows_of(parent, self.looks)
            self._looked = None if self._looked is None else _rows_of(parent, self._looked)
        self.ids = torch.cat([self.ids, piece.unsqueeze(-1)], -1)
        self._previous = piece
        if self.looks is not None and self._looked is not None:
            self.looks = torch.cat([self.looks, self._looked.unsqueeze(-2)], -2)

    def leave(self, staying: Sequence[int]) -> Tensor | None:
        """Lets all go but the rows ``staying``, and those whose company they need; which rows are left, if fewer.

        Nobody moves for a few: what moves is copied.
        """
        return self._keep(staying) if self._needed(staying) <= 0.85 * self.batch else None

    def _needed(self, staying: Sequence[int]) -> int:
        return max(len(staying), -(-_ROWS // self.width), 2)

    def _keep(self, staying: Sequence[int]) -> Tensor:
        others = [b for b in range(self.batch) if b not in set(staying)]
        rows = torch.tensor([*staying, *others[: self._needed(staying) - len(staying)]], device=self.device)
        self.numbers = [self.numbers[b] if b in set(staying) else -1 for b in rows.tolist()]
        self.memory = _sentences(self.memory, rows)
        self.state = of(self.state, rows)
        self.ids, self._previous = self.ids[rows], self._previous[rows]
        self.looks = None if self.looks is None else self.looks[rows]
        return rows


def padded(length: int, grain: int) -> int:
    """How many places a source of so many pieces is given: a multiple of ``grain``, which its own length alone decides.

    >>> padded(9, 8), padded(9, 1)
    (16, 9)
    """
    return -(-length // grain) * grain


def _filled(ids: Sequence[int], places: int) -> list[int]:
    """As many pieces, by saying these again."""
    return [ids[n % len(ids)] for n in range(places)]


def spread(state: Any, width: int) -> Any:
    """A state of one beginning (B, 1) as that of so many alike."""
    if isinstance(state, Branches):
        return state.spread(width)
    return _each(state, lambda x: x.expand(x.shape[0], width, *x.shape[2:]).contiguous())


def taken(state: Any, parent: Tensor) -> Any:
    """The state when beginning k of each sentence has become what ``parent`` (B, K) was."""
    return state.taken(parent) if isinstance(state, Branches) else _each(state, partial(_rows_of, parent))


def of(state: Any, rows: Tensor) -> Any:
    """The state of these sentences alone."""
    return state.of(rows) if isinstance(state, Branches) else _each(state, lambda x: x[rows])


def _each(state: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """``change`` done to the tensor, or to each of the tensors, that a state is."""
    return change(state) if isinstance(state, Tensor) else tuple(change(x) for x in state)


def _rows_of(parent: Tensor, x: Tensor) -> Tensor:
    """Of each sentence the rows ``parent`` (B, K) of x (B, K, ...)."""
    return x[torch.arange(len(x), device=x.device).unsqueeze(-1), parent]


def _sentences(memory: Any, rows: Tensor) -> Any:
    """A memory of these sentences alone."""
    if isinstance(memory, Tensor):
        return memory[rows]
    if isinstance(memory, tuple):
        return tuple(_sentences(x, rows) for x in memory)
    if is_dataclass(memory) and not isinstance(memory, type):
        return replace(memory, **{f.name: _sentences(getattr(memory, f.name), rows) for f in fields(memory)})
    return memory
