"""Two translators of PyTorch's own layers, as many people write them, that may forget their source's padding."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from examples.forgotten_mask.language import BEGIN, WORDS, batch, sentences

__all__ = ["ARMS", "TRANSLATORS", "Recurrent", "Transformer", "Translator", "forgotten", "half_mended", "masked"]

WIDTH = 64
#: What a translator forgets the padding in.
ARMS = {"masked": (), "half mended": ("look",), "forgotten": ("encoder", "look")}


class Translator(nn.Module, ABC):
    """``forward(source, lengths, previous)``: logits (B, T, V) of the words after ``previous`` (B, T), for ``source``
    (B, S) of which ``lengths`` (B,) are words."""

    @abstractmethod
    def read(self, source: Tensor, lengths: Tensor) -> Tensor:
        """What the encoder says of every place of the source: (B, S, E)."""

    @abstractmethod
    def write(self, previous: Tensor, states: Tensor, seen: Tensor | None) -> Tensor:
        """The logits, by looks at the states that are ``seen`` (B, S); at all of them where nothing says."""

    def __init__(self, forgets: tuple[str, ...]) -> None:
        super().__init__()
        self.forgets = forgets

    def forward(self, source: Tensor, lengths: Tensor, previous: Tensor) -> Tensor:
        return self.write(previous, self.read(source, lengths), self.seen(source, lengths))

    def seen(self, source: Tensor, lengths: Tensor) -> Tensor | None:
        return None if "look" in self.forgets else words(source, lengths)

    @torch.no_grad()
    def greedy(self, source: Tensor, lengths: Tensor, longest: int = 20) -> Tensor:
        """The likeliest word at each step, (B, longest)."""
        states, seen = self.read(source, lengths), self.seen(source, lengths)
        said = torch.full((len(source), 1), BEGIN)
        for _ in range(longest):
            said = torch.cat([said, self.write(said, states, seen)[:, -1:].argmax(-1)], 1)
        return said[:, 1:]


class Recurrent(Translator):
    """A GRU both ways, a GRU that writes, and one look a step."""

    def __init__(self, forgets: tuple[str, ...] = ()) -> None:
        super().__init__(forgets)
        self.source, self.target = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)
        self.encoder = nn.GRU(WIDTH, WIDTH, batch_first=True, bidirectional=True)
        self.decoder = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.first, self.attention = nn.Linear(WIDTH, WIDTH), Attention()
        self.join, self.out = nn.Linear(3 * WIDTH, WIDTH), nn.Linear(WIDTH, WORDS)

    def read(self, source: Tensor, lengths: Tensor) -> Tensor:
        x = self.source(source)
        if "encoder" in self.forgets:
            states: Tensor = self.encoder(x)[0]
            return states
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.encoder(packed)[0], batch_first=True, total_length=x.shape[1])[0]

    def write(self, previous: Tensor, states: Tensor, seen: Tensor | None) -> Tensor:
        back = states[:, 0, WIDTH:]  # what the way back has read when it is at the first word
        asked, _ = self.decoder(self.target(previous), torch.tanh(self.first(back)).unsqueeze(0))
        logits: Tensor = self.out(torch.tanh(self.join(torch.cat([asked, self.attention(asked, states, seen)], -1))))
        return logits


class Attention(nn.Module):
    """Σ_s w_s h_s with w = softmax(qᵀ W h / √D)."""

    def __init__(self) -> None:
        super().__init__()
        self.key = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, asked: Tensor, states: Tensor, seen: Tensor | None) -> Tensor:
        scores = asked @ self.key(states).transpose(1, 2) / math.sqrt(WIDTH)  # (B, T, S)
        if seen is not None:
            scores = scores.masked_fill(~seen[:, None], -math.inf)
        found: Tensor = scores.softmax(-1) @ states
        return found


class Transformer(Translator):
    """``nn.TransformerEncoder`` and ``nn.TransformerDecoder``, two layers each."""

    def __init__(self, forgets: tuple[str, ...] = ()) -> None:
        super().__init__(forgets)
        self.source, self.target, self.place = (nn.Embedding(n, WIDTH) for n in (WORDS, WORDS, 64))
        encoder = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, 0.0, batch_first=True, norm_first=True)
        decoder = nn.TransformerDecoderLayer(WIDTH, 4, 2 * WIDTH, 0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(encoder, 2, enable_nested_tensor=False)
        self.decoder, self.out = nn.TransformerDecoder(decoder, 2), nn.Linear(WIDTH, WORDS)

    def read(self, source: Tensor, lengths: Tensor) -> Tensor:
        hidden = None if "encoder" in self.forgets else ~words(source, lengths)
        states: Tensor = self.encoder(self._at(self.source(source)), src_key_padding_mask=hidden)
        return states

    def write(self, previous: Tensor, states: Tensor, seen: Tensor | None) -> Tensor:
        y, T = self._at(self.target(previous)), previous.shape[1]
        future = torch.ones(T, T, dtype=torch.bool).triu(1)
        hidden = None if seen is None else ~seen
        logits: Tensor = self.out(self.decoder(y, states, tgt_mask=future, memory_key_padding_mask=hidden))
        return logits

    def _at(self, x: Tensor) -> Tensor:
        there: Tensor = x + self.place(torch.arange(x.shape[1]))
        return there


def words(source: Tensor, lengths: Tensor) -> Tensor:
    """Which places (B, S) hold words, and no padding."""
    return torch.arange(source.shape[1]) < lengths[:, None]


TRANSLATORS: dict[str, Callable[[tuple[str, ...]], Translator]] = {"gru": Recurrent, "transformer": Transformer}


def _untrained(arm: str) -> tuple[Translator, dict[str, Tensor]]:
    source, lengths, previous, _ = batch(sentences(4, seed=3))
    return Recurrent(ARMS[arm]), {"source": source, "lengths": lengths, "previous": previous}


def masked() -> tuple[Translator, dict[str, Tensor]]:
    """For ``regard check examples.forgotten_mask.translators:masked``: a model and a batch, before any training."""
    return _untrained("masked")


def half_mended() -> tuple[Translator, dict[str, Tensor]]:
    """The one whose encoder was mended, and whose look was not."""
    return _untrained("half mended")


def forgotten() -> tuple[Translator, dict[str, Tensor]]:
    """The one that forgets its padding everywhere."""
    return _untrained("forgotten")
