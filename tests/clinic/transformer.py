"""One small healthy transformer. A patient of the clinic is this model with one method of one part replaced."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.clinic.memory import Cache, Memory


@dataclass(frozen=True)
class Config:
    vocabulary: int = 61
    width: int = 32
    heads: int = 4
    kv_heads: int = 4
    layers: int = 2
    causal: bool = True
    prefix: int = 0  # tokens at the start that all see each other
    sliding_window: int | None = None  # keys a query sees, itself among them
    positions: Literal["rotary", "learned", "alibi", "none"] = "rotary"
    dropout: float = 0.0


@dataclass(frozen=True)
class View:
    """Where the tokens of a call stand.

    A token's *place* is its index in the row, pads counted; its *position* is what it is told, pads not counted.
    """

    places: Tensor  # (L,) of the queries
    positions: Tensor  # (B, L) of the queries
    real: Tensor | None = None  # (B, S) True where a key is a token; None where every key is
    documents: Tensor | None = None  # (B, S) packed documents by number
    causal: bool = True
    weights: bool = False  # the caller asked for the weights


@dataclass(frozen=True)
class Output:
    logits: Tensor  # (B, L, vocabulary)
    past_key_values: Cache | None = None
    attentions: tuple[Tensor, ...] | None = None


class Attention(nn.Module):
    """Attention in steps that can each go wrong: split, turn, pair, score, hide, normalise, read, merge."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.width = config.width // config.heads
        self.query = nn.Linear(config.width, config.heads * self.width, bias=False)
        self.key = nn.Linear(config.width, config.kv_heads * self.width, bias=False)
        self.value = nn.Linear(config.width, config.kv_heads * self.width, bias=False)
        self.out = nn.Linear(config.heads * self.width, config.width, bias=False)

    def forward(self, x: Tensor, view: View, memory: Memory | None) -> tuple[Tensor, Tensor | None]:
        q = self.split(self.query(x), self.config.heads)
        k = self.split(self.key(x), self.config.kv_heads)
        v = self.split(self.value(x), self.config.kv_heads)
        if self.config.positions == "rotary":
            q, k = self.turn(q, view.positions), self.turn(k, view.positions)
        places = view.places
        if memory is not None:
            k, v, places = memory.extend(k, v)
        read, weights = self.attend(q, self.pair(k), self.pair(v), view, places)
        out: Tensor = self.out(self.merge(read))
        return out, weights

    def split(self, x: Tensor, heads: int) -> Tensor:
        by_head: Tensor = x.unflatten(-1, (heads, self.width))
        return by_head.transpose(1, 2)  # (B, H, L, D)

    def merge(self, read: Tensor) -> Tensor:
        return read.transpose(1, 2).flatten(2)  # (B, L, H D)

    def turn(self, x: Tensor, positions: Tensor) -> Tensor:
        """Rotary positions: pair (d, d + D/2) turns by position · 10000^(−2d/D); in float32, whatever x is."""
        half = self.width // 2
        frequency = 10000 ** (-torch.arange(half, dtype=torch.float32) / half)
        phase = (positions[:, None, :, None].float() * frequency).to(torch.float32)  # (B, 1, L, D/2)
        cos, sin = phase.cos().to(x.dtype), phase.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)

    def pair(self, x: Tensor) -> Tensor:
        """Query head h reads key head h // (H / G)."""
        return x.repeat_interleave(self.config.heads // self.config.kv_heads, dim=1)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, view: View, places: Tensor) -> tuple[Tensor, Tensor | None]:
        scores = self.score(q, k)
        if self.config.positions == "alibi":
            scores = scores + self.slope(view.places, places).to(scores.dtype)
        weights = self.normalise(self.hide(scores, self.allowed(view, places)))
        return weights @ v, weights

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT / math.sqrt(self.width)

    def slope(self, queries: Tensor, keys: Tensor) -> Tensor:
        """ALiBi: minus the distance, by a slope per head."""
        slopes = 2.0 ** -torch.arange(1, self.config.heads + 1)
        return -slopes[:, None, None] * (queries[:, None] - keys).abs()  # (H, L, S)

    def allowed(self, view: View, places: Tensor) -> Tensor:
        """(B, 1, L, S), True = may look. A token may look at itself even where it is a pad: no row is empty."""
        back = view.places[:, None] - places
        seen = self.reach(back, view.causal).expand(1, 1, *back.shape)
        if self.config.prefix:
            nth = places + 1 if view.real is None else view.real.long().cumsum(-1)[:, None, None, places]
            seen = seen | (nth <= self.config.prefix)
        if view.real is not None:
            seen = seen & (view.real[:, None, None, places] | (back == 0))
        if view.documents is not None:
            ids = view.documents
            seen = seen & (ids[:, None, view.places, None] == ids[:, None, None, places])
        return seen

    def reach(self, back: Tensor, causal: bool) -> Tensor:
        """Which distances may be seen: not the future of a causal model, and no more than a window of keys."""
        seen = torch.ones_like(back, dtype=torch.bool)
        if causal:
            seen = seen & (back >= 0)
        if self.config.sliding_window is not None:
            seen = seen & (back.abs() < self.config.sliding_window)
        return seen

    def hide(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return scores.masked_fill(~allowed, -math.inf)

    def normalise(self, scores: Tensor) -> Tensor:
        weights = torch.softmax(scores, dim=-1)
        return F.dropout(weights, self.config.dropout, self.training)


class Fused(Attention):
    """The same by PyTorch's fused kernel."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, view: View, places: Tensor) -> tuple[Tensor, Tensor | None]:
        if view.weights:
            return super().attend(q, k, v, view, places)
        dropout = self.config.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, self.bias(view, places), dropout), None

    def bias(self, view: View, places: Tensor) -> Tensor:
        """What the kernel gets as its mask."""
        allowed = self.allowed(view, places)
        if self.config.positions == "alibi":
            return self.slope(view.places, places).to(self.out.weight.dtype).masked_fill(~allowed, -math.inf)
        return allowed


class Layer(nn.Module):
    def __init__(self, config: Config, attention: type[Attention] = Attention) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.attention = attention(config)
        self.mlp = nn.Sequential(
            nn.LayerNorm(config.width),
            nn.Linear(config.width, 2 * config.width),
            nn.GELU(),
            nn.Linear(2 * config.width, config.width),
        )

    def forward(self, x: Tensor, view: View, memory: Memory | None) -> tuple[Tensor, Tensor | None]:
        read, weights = self.attention(self.norm(x), view, memory)
        x = x + read
        return x + self.mlp(x), weights


class Transformer(nn.Module):
    """Layers over an embedding, with Hugging Face's argument names."""

    layer = Layer
    longest = 512

    def __init__(self, config: Config, attentions: Sequence[type[Attention]]) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        if config.positions == "learned":
            self.position = nn.Embedding(self.longest, config.width)
        self.layers = nn.ModuleList([self.layer(config, attention) for attention in attentions])
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        output_attentions: bool = False,
    ) -> Output:
        return self.run(input_ids, self.view(input_ids, attention_mask, position_ids, 0), None, output_attentions)

    def run(self, ids: Tensor, view: View, cache: Cache | None, weights: bool) -> Output:
        view = replace(view, weights=weights)
        x, attentions = self.embed(ids, view), []
        for number, layer in enumerate(self.layers):
            x, seen = layer(x, view, cache.memories[number] if cache is not None else None)
            attentions.append(seen)
        return Output(self.head(self.norm(x)), cache, tuple(attentions) if weights else None)

    def view(self, ids: Tensor, mask: Tensor | None, positions: Tensor | None, past: int) -> View:
        """Positions count the real tokens of a row, unless they are given."""
        places = torch.arange(past, past + ids.shape[1])
        if positions is None:
            positions = places.expand(ids.shape)
            if mask is not None:
                positions = self.count(mask)[:, -ids.shape[1] :]
        return View(places, positions, None if mask is None else mask.bool(), causal=self.config.causal)

    def count(self, mask: Tensor) -> Tensor:
        return (mask.long().cumsum(-1) - 1).clamp(min=0)

    def embed(self, ids: Tensor, view: View) -> Tensor:
        x: Tensor = self.embedding(ids)
        return x + self.position(view.positions) if self.config.positions == "learned" else x


class Decoder(Transformer):
    """The same with a cache: what it has read it need not read again."""

    def forward(  # type: ignore[override]
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        use_cache: bool = False,
        output_attentions: bool = False,
    ) -> Output:
        cache = past_key_values or (self.cache() if use_cache else None)
        past = cache.get_seq_length() if cache is not None else 0
        return self.run(input_ids, self.view(input_ids, attention_mask, position_ids, past), cache, output_attentions)

    def cache(self) -> Cache:
        return Cache([Memory() for _ in self.layers])


class Plain(Transformer):
    """A model of whole texts: it takes no mask."""

    def forward(self, input_ids: Tensor) -> Output:  # type: ignore[override]
        return super().forward(input_ids)


def transformer(
    config: Config | None = None,
    attention: type[Attention] = Attention,
    *,
    healthy: type[Attention] = Attention,
    at: int = 1,
    model: type[Transformer] | None = None,
) -> Transformer:
    """In eval mode, always with the same weights; ``attention`` stands in layer ``at``, ``healthy`` in the others."""
    config = config or Config()
    model = model or (Decoder if config.causal else Transformer)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        built = model(config, [attention if number == at else healthy for number in range(config.layers)])
        for parameter in built.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)  # queries and keys of unit variance
    return built.eval()
