"""Two small models of PyTorch's own layers: a tagger and a translator."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from typing_extensions import Self

from tests.clinic.case import Batch, padded, text

VOCABULARY, WIDTH, HEADS, LAYERS, LONGEST = 61, 32, 4, 2, 128


class Seeded(nn.Module):
    @classmethod
    def seeded(cls) -> Self:
        """In eval mode, always with the same weights."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return cls().eval()


class Tagger(Seeded):
    """``nn.TransformerEncoder`` between an embedding and labels. Its masks say True = hide; a batch says 1 = real."""

    batch_first = True

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.Embedding(LONGEST, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, batch_first=self.batch_first)
        self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 7)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        x = self.embedding(input_ids) + self.position(self.positions(input_ids, attention_mask))
        hidden = None if attention_mask is None else self.hidden(attention_mask)
        tags: Tensor = self.head(self.encoder(x, mask=self.triangle(x), src_key_padding_mask=hidden))
        return tags

    def positions(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        mask = torch.ones_like(ids) if mask is None else mask
        return (mask.cumsum(-1) - 1).clamp(min=0)

    def hidden(self, mask: Tensor) -> Tensor | None:
        return mask == 0

    def triangle(self, x: Tensor) -> Tensor | None:
        return None


class Speaker(Tagger):
    """The same under a triangle; it takes no mask, as its texts are padded on the right or not at all."""

    def forward(self, input_ids: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(input_ids)

    def triangle(self, x: Tensor) -> Tensor | None:
        return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)


class Translator(Seeded):
    """``nn.TransformerEncoder`` and ``nn.TransformerDecoder``, with Hugging Face's argument names."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.Embedding(LONGEST, WIDTH)
        encoder = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, batch_first=True)
        decoder = nn.TransformerDecoderLayer(WIDTH, HEADS, 2 * WIDTH, batch_first=True)
        self.encoder = nn.TransformerEncoder(encoder, LAYERS, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(decoder, LAYERS)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, input_ids: Tensor, decoder_input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        source = self.encoder(self.embed(input_ids, real), src_key_padding_mask=real == 0)
        x = self.embed(decoder_input_ids, torch.ones_like(decoder_input_ids))
        future = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        for number, layer in enumerate(self.decoder.layers):
            x = layer(x, source, tgt_mask=future, memory_key_padding_mask=self.cross_mask(number, real))
        logits: Tensor = self.head(x)
        return logits

    def embed(self, ids: Tensor, real: Tensor) -> Tensor:
        x: Tensor = self.embedding(ids) + self.position((real.cumsum(-1) - 1).clamp(min=0))
        return x

    def cross_mask(self, layer: int, source_real: Tensor) -> Tensor | None:
        return source_real == 0


def sources(sick: bool) -> Batch:
    """Padded source sentences and whole targets."""
    return {**padded(23, 13, 19), "decoder_input_ids": text(3, 17, seed=11)}


def recited(sick: bool) -> Batch:
    """The same by lengths."""
    given = sources(sick)
    lengths = given["attention_mask"].sum(-1)
    return {"source": given["input_ids"], "lengths": lengths, "previous": given["decoder_input_ids"]}


def known(sick: bool) -> Batch:
    """The same by the pad's id, under names that nobody knows."""
    given = sources(sick)
    return {"words": given["input_ids"], "heard": given["decoder_input_ids"]}


class Reciter(Seeded):
    """A GRU both ways over sources of given lengths, and a decoder that looks at its states. It writes as it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.said = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(VOCABULARY, WIDTH)
        self.encoder = nn.GRU(WIDTH, WIDTH, batch_first=True, bidirectional=True)
        self.decoder = nn.GRU(WIDTH, 2 * WIDTH, batch_first=True)
        self.attention, self.head = Look(), nn.Linear(4 * WIDTH, VOCABULARY)

    def forward(self, source: Tensor, lengths: Tensor, previous: Tensor) -> Tensor:
        states = self.read(self.embedding(source), lengths)
        asked, _ = self.decoder(self.said(previous))
        found = self.attention(asked, states, self.seen(source, lengths))
        logits: Tensor = self.head(torch.cat([asked, found], -1))
        return logits

    def read(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.encoder(packed)[0], batch_first=True, total_length=x.shape[1])[0]

    def seen(self, source: Tensor, lengths: Tensor) -> Tensor:
        return torch.arange(source.shape[1]) < lengths[:, None]


class Knower(Reciter):
    """The same, which counts its lengths itself: whatever is no pad."""

    def forward(self, words: Tensor, heard: Tensor) -> Tensor:  # type: ignore[override]  # it takes no lengths
        return super().forward(words, (words != 0).sum(-1).clamp(min=1), heard)


class Look(nn.Module):
    def forward(self, asked: Tensor, states: Tensor, seen: Tensor) -> Tensor:
        found: Tensor = nn.functional.scaled_dot_product_attention(asked, states, states, attn_mask=seen[:, None])
        return found
