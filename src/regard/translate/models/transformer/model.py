"""The encoder-decoder that is attention and nothing else (Vaswani et al. 2017, arXiv:1706.03762)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import mask
from regard.mask import Mask
from regard.position import sinusoidal
from regard.translate.models.dropout import dropout
from regard.translate.models.encoder_decoder import EncoderDecoder
from regard.translate.models.transformer.config import Transformer
from regard.translate.models.transformer.layers import DecoderLayer, EncoderLayer, full, read, rounded
from regard.translate.models.transformer.said import Page, Said
from regard.translate.text.vocabulary import PAD

__all__ = ["Memory", "Model"]

Look = Callable[[int, "DecoderLayer", "Memory", Tensor], Tensor]  # layer n looks at the source for y (B, L, D)


@dataclass(frozen=True)
class Memory:
    """A read source: what each decoder layer looks at, ``keys`` and ``values`` (B, H, S, D/H), and ``lengths`` (B,)."""

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    lengths: Tensor

    @property
    def mask(self) -> Mask:
        return mask.padding(self.lengths)


class Model(EncoderDecoder[Memory, Said]):
    """p(y_i | y_<i, x) ∝ exp(E_y · z_i), z the last layer of a decoder that looks at itself and at the source.

    ::

        x_0 = drop(√D · E x + PE)                                  PE sinusoidal          (B, S, D)
        encoder layer:   x ← res(x, self attention);  x ← res(x, feed)
        decoder layer:   y ← res(y, causal self attention);  y ← res(y, attention to x);  y ← res(y, feed)
        feed(x)  = W_2 max(0, W_1 x + b_1) + b_2
        res(x, f) = LN(x + drop(f(x)))      norm "post", as published
                  = x + drop(f(LN(x)))      norm "pre", with one more LN after the last layer of each side

    Which places an encoder layer sees and whether in linear time, how the decoder weighs, how all score, and whether
    heads talk is the config's. Every look is a read of this package.

    The output matrix is the target embedding; of a ``shared`` config it is the source embedding too, as published, for
    which the vocabulary has to be joint. Dropout falls where the article has it: on every sub-layer's output and on
    the sums of embeddings and positions; not on weights. Matrices start by Glorot's rule, embeddings from N(0, 1/D).

    A source is never empty: it holds at least its end mark.
    """

    def __init__(self, config: Transformer) -> None:
        super().__init__()
        self.config = config
        if not config.shared:
            self.source_embedding = nn.Embedding(config.source_vocabulary, config.width, padding_idx=PAD)
        self.target_embedding = nn.Embedding(config.target_vocabulary, config.width, padding_idx=PAD)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        last = nn.LayerNorm if config.norm == "pre" else nn.Identity
        self.encoder_norm, self.decoder_norm = last(config.width), last(config.width)
        self._initialise()

    @torch.no_grad()
    def _initialise(self) -> None:
        for name, parameter in self.named_parameters():
            if "talking" in name:
                continue  # the identity: heads begin as if they did not talk
            if "embedding" in name:
                nn.init.normal_(parameter, std=self.config.width**-0.5)
                parameter[PAD].zero_()
            elif parameter.ndim == 2:
                nn.init.xavier_uniform_(parameter)
            elif name.endswith("bias"):
                parameter.zero_()

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Memory, Said]:
        """Reads ``source`` (B, S) up to ``lengths`` (B,). Nothing is said yet."""
        x = self._embed(self.target_embedding if self.config.shared else self.source_embedding, source, 0)
        for layer in self.encoder:
            x = layer(x, lengths)
        x = rounded(self.encoder_norm(x))
        keys, values = zip(*(layer.cross.pairs(x) for layer in self._layers()), strict=True)
        return Memory(keys, values, lengths), Said.nothing(source.shape[0], source.device)

    def step(self, state: Said, previous: Tensor, memory: Memory) -> tuple[Tensor, Said]:
        """One target position for L beginnings of each sentence: log-probabilities (B, L, V), and the state after."""
        return self._step(state, previous, memory, _cross)

    def step_looking(self, state: Said, previous: Tensor, memory: Memory) -> tuple[Tensor, Said, Tensor]:
        """:meth:`step`, and where each head of each layer looked: (B, N, H, L, S)."""
        found, look = _noting()
        logits, after = self._step(state, previous, memory, look)
        return logits, after, torch.stack(found, 1)

    def _step(self, state: Said, previous: Tensor, memory: Memory, look: Look) -> tuple[Tensor, Said]:
        longer, pages = state.longer(), list[Page]()
        seen = longer.seen

        def itself(n: int, layer: DecoderLayer, y: Tensor) -> Tensor:
            pages.append(state.written(n, *(full(each) for each in layer.own.pairs(y))))
            keys, values = pages[n].first(longer.own.shape[2])  # (B, H, L·t, D/H)
            if seen is not None:
                return read(layer.own, y, keys, values, seen)
            keys, values = (  # (B, L, H, t, D/H)
                each.unflatten(2, (-1, longer.width)).permute(0, 3, 1, 2, 4) for each in (keys, values)
            )
            return read(layer.own, y.unsqueeze(-2), keys, values, None).squeeze(-2)

        y = self._embed(self.target_embedding, previous.unsqueeze(-1), state.pieces).squeeze(-2)  # (B, L, D)
        logits = self.vocabulary(self._decode(y, memory, itself, look))
        return logits, replace(longer, pages=tuple(pages))

    def hidden(self, source: Tensor, lengths: Tensor, previous: Tensor) -> Tensor:
        """z (B, T, D) of a given target."""
        memory, _ = self.encode(source, lengths)
        return self._decode(self._embed(self.target_embedding, previous, 0), memory, _itself)

    def vocabulary(self, hidden: Tensor) -> Tensor:
        """E_y · z: (..., D) to (..., V)."""
        return F.linear(hidden, self.target_embedding.weight)

    def align(self, source: Tensor, lengths: Tensor, previous: Tensor) -> Tensor:
        """Where each head of each layer looks before each piece of a given target: (B, N, H, T, S)."""
        memory, _ = self.encode(source, lengths)
        found, look = _noting()
        self._decode(self._embed(self.target_embedding, previous, 0), memory, _itself, look)
        return torch.stack(found, 1)

    def _embed(self, table: nn.Module, ids: Tensor, place: int) -> Tensor:
        """√D · E x + PE of pieces (..., L) whose first stands at ``place``: (..., L, D)."""
        x: Tensor = table(ids) * self.config.width**0.5
        if self.config.positions == "sinusoidal":
            x = x + sinusoidal(place + ids.shape[-1], self.config.width, start=place).to(x)
        return dropout(x, self.config.dropout, self.training)

    def _layers(self) -> Iterator[DecoderLayer]:
        return (layer for layer in self.decoder if isinstance(layer, DecoderLayer))  # for the type: all are

    def _decode(
        self,
        y: Tensor,
        memory: Memory,
        itself: Callable[[int, DecoderLayer, Tensor], Tensor],
        look: Look | None = None,
    ) -> Tensor:
        """All layers over y (B, L, D), by how a layer reads what was said and how it looks at the source."""
        for n, layer in enumerate(self._layers()):
            y = layer(y, partial(itself, n, layer), partial(look or _cross, n, layer, memory))
        z: Tensor = self.decoder_norm(y)
        return z


def _itself(n: int, layer: DecoderLayer, y: Tensor) -> Tensor:
    """The whole target reads itself, each place what is before it."""
    return read(layer.own, y, *layer.own.pairs(y), mask.causal())


def _cross(n: int, layer: DecoderLayer, memory: Memory, y: Tensor) -> Tensor:
    """Layer n looks at the source."""
    return read(layer.cross, y, memory.keys[n], memory.values[n], memory.mask)


def _noting() -> tuple[list[Tensor], Look]:
    """A look at the source that appends its weights (B, H, L, S) to the list."""
    found: list[Tensor] = []

    def look(n: int, layer: DecoderLayer, memory: Memory, y: Tensor) -> Tensor:
        q = layer.cross.queries(y)
        found.append(layer.cross.distributions(full(q), full(memory.keys[n]), mask=memory.mask))
        return _cross(n, layer, memory, y)

    return found, look
