"""The attention that a switched Hugging Face model calls: every keyword is honoured or refused, none ignored."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.bridge.masks import lengths_to_segments
from regard.bridge.predicate import Predicate
from regard.errors import RegardError
from regard.grid import Grid
from regard.mask import Mask, causal, dense, segments, window
from regard.normalize import Softmax
from regard.operator import attend, read
from regard.score import Bias, Dot, Score

__all__ = ["Settings", "attention"]

#: Keywords that say nothing of how keys are read: places, which made the mask, and what the model shall return.
INERT = frozenset(
    {
        "cache_position",
        "deterministic",
        "layer_idx",
        "logits_to_keep",
        "max_length_k",
        "max_length_q",
        "num_items_in_batch",
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
        "position_ids",
        "return_dict",
        "use_cache",
    }
)


@dataclass(frozen=True)
class Settings:
    """How the attentions of a model are read."""

    engine: str = "auto"
    statistics: bool | tuple[str, ...] = True


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    cu_seq_lens_q: Tensor | None = None,
    cu_seq_lens_k: Tensor | None = None,
    seq_idx: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, Any]:
    """What transformers' AttentionInterface calls: query (B, H, L, D), key (B, G, S, D), value (B, G, S, E).

    Returns the read as (B, L, H, E), and the layer's Reading where ``output_attentions`` was asked for, else None.
    """
    _refuse_others(others)
    query, key, value = _one_batch(query, key, value)
    B, _, L, D = query.shape
    S = key.shape[2]
    allowed, bias = _mask(attention_mask, (B, L, S))
    if attention_mask is None:
        looks_back = is_causal if is_causal is not None else getattr(module, "is_causal", True)
        allowed = _unsaid(bool(looks_back) and L > 1, sliding_window, L, S)
    documents = list(_documents(cu_seq_lens_q, cu_seq_lens_k, seq_idx, (B, L, S)))
    for ids in documents:
        allowed = ids if allowed is None else allowed & ids
    if not documents and isinstance(attention_mask, Predicate):
        attention_mask.refuse_unseen_documents(others.get("position_ids"))
    score = _score(D**-0.5 if scaling is None else float(scaling), softcap)
    for each in (position_bias, bias):
        score = score if each is None else score + Given(each)
    settings = getattr(module, "_regard", None) or Settings()
    parts: dict[str, Any] = {
        "score": score,
        "normalize": "softmax" if s_aux is None else Softmax(sink=s_aux),
        "mask": allowed,
        "engine": settings.engine,
        "dropout": dropout,
    }
    if others.get("output_attentions") or _collecting():
        reading = read(query, key, value, telemetry=settings.statistics, **parts)
        return reading.output.transpose(1, 2).contiguous(), reading
    return attend(query, key, value, **parts).transpose(1, 2).contiguous(), None


class Given(Bias):
    """A bias that the model hands over as numbers, (B|1, H|1, L|1, S)."""

    def __init__(self, numbers: Tensor) -> None:
        super().__init__()
        self.numbers = numbers

    def forward(self, grid: Grid) -> Tensor:
        index = (grid.b, grid.h, grid.i, grid.j)
        b, h, i, j = (n if size > 1 else n * 0 for n, size in zip(index, self.numbers.shape, strict=True))
        return self.numbers[b, h, i, j]


class _Scaled(Dot):
    """s = scale · q·k, the scale being the model's own."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self._scale = scale

    def scale(self, width: int) -> float:
        return self._scale


def _score(scale: float, cap: float | None) -> Score:
    score = _Scaled(scale)
    return score if cap is None else score.capped(float(cap))


def _refuse_others(others: Mapping[str, Any]) -> None:
    for name, given in others.items():
        if name in INERT or given is None or given is False:
            continue
        raise RegardError(
            f"{name}: this model hands its attention a keyword that regard does not honour; wanted one of scaling, "
            "dropout, is_causal, sliding_window, softcap, s_aux, position_bias, cu_seq_lens_q, cu_seq_lens_k, seq_idx; "
            'go back with model.set_attn_implementation("eager")'
        )


def _one_batch(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries that a whole batch shares (learned ones) as many times as there are rows; values in the queries' type."""
    if query.shape[0] == 1 and key.shape[0] > 1:
        query = query.expand(key.shape[0], -1, -1, -1)
    return query, key.to(query.dtype), value.to(query.dtype)


def _mask(given: Tensor | None, sizes: tuple[int, int, int]) -> tuple[Mask | None, Tensor | None]:
    """The mask, and what a float mask adds to scores besides."""
    B, L, S = sizes
    if given is None:
        return None, None
    if isinstance(given, Tensor) and given.dim() == 4 and given.shape[0] in (1, B):
        if isinstance(given, Predicate) and tuple(given.shape[2:]) == (L, S):
            return given.allowed, None
        if given.shape[2] in (1, L) and given.shape[3] in (1, S):
            return _numbers(given)
    found = tuple(given.shape) if isinstance(given, Tensor) else type(given).__name__
    raise RegardError(
        f"attention_mask: found {found}, wanted (B, 1, L, S) = ({B}, 1, {L}, {S}), booleans with True = may look or a "
        "float mask that is added to scores; pass the model a mask (B, S) of 1 for a token and 0 for padding"
    )


def _numbers(given: Tensor) -> tuple[Mask | None, Tensor | None]:
    if isinstance(given, Predicate):
        given = given.booleans()
    if given.dtype == torch.bool:
        return dense(given), None
    if not given.is_floating_point():
        raise RegardError(
            f"attention_mask: found {given.dtype} of four axes, wanted booleans or a float mask that is added to scores"
        )
    hidden = given.detach() <= -1e4
    if given.requires_grad or bool((~hidden & (given != 0)).any()):
        return dense(~hidden), torch.where(hidden, 0.0, given)
    return dense(~hidden), None


def _unsaid(looks_back: bool, width: int | None, L: int, S: int) -> Mask | None:
    """The mask where the model gives none: its module's claim, as transformers' own sdpa attention has it."""
    if not looks_back:
        return None
    if L != S:
        raise RegardError(
            f"attention_mask: found None for a causal module with L = {L} queries and S = {S} keys, which does not say "
            "where the queries stand; pass the model a mask (B, S) of 1 for a token and 0 for padding"
        )
    return causal() if width is None else window(width - 1, 0)


def _documents(
    cumulative_q: Tensor | None, cumulative_k: Tensor | None, ids: Tensor | None, sizes: tuple[int, int, int]
) -> Iterator[Mask]:
    B, L, S = sizes
    if (cumulative_q is None) != (cumulative_k is None):
        raise RegardError("cu_seq_lens_q, cu_seq_lens_k: found one of the two, wanted both or none")
    if cumulative_q is not None and cumulative_k is not None:
        if B != 1:
            raise RegardError(f"cu_seq_lens_q: found B = {B} rows, wanted documents packed in one row")
        yield lengths_to_segments(cumulative_q, cumulative_k, L, S)
    if ids is not None:
        if tuple(ids.shape) not in ((B, S), (1, S)) or L != S:
            raise RegardError(
                f"seq_idx: found {tuple(ids.shape)} for L = {L}, S = {S}, wanted (B, S) and no cache of earlier tokens"
            )
        yield segments(ids)


def _collecting() -> bool:
    """Whether the model collects attentions though its layers are not told so."""
    capturing = sys.modules.get("transformers.utils.output_capturing")
    active = getattr(capturing, "_active_collector", None)
    return active is not None and "attentions" in (active.get() or ())
