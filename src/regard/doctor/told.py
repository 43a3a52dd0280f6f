"""What a model says of itself: the arguments it takes, its vocabulary, its special tokens, what it would write."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.doctor.inputs import Inputs

_SPECIAL = ("pad", "bos", "eos", "cls", "sep", "mask", "unk", "decoder_start", "image", "video", "audio")


def accepted_by(model: nn.Module) -> tuple[str, ...]:
    """The names that the model's call takes; a compiled model's are those of what was compiled."""
    inner = getattr(model, "_orig_mod", model)
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return tuple(n for n, p in inspect.signature(inner.forward).parameters.items() if p.kind in kinds)


def vocabulary_size(model: nn.Module, largest: int, alone: bool = True) -> int:
    """How many ids there are: as the configuration says, else, for the ids of an only sequence, the first embedding
    that has room for the largest; 0 where nothing says."""
    told = getattr(getattr(model, "config", None), "vocab_size", None)
    if isinstance(told, int) and told > largest:
        return told
    sizes = (m.num_embeddings for m in model.modules() if isinstance(m, nn.Embedding) and alone)
    return next((n for n in sizes if n > largest), 0)


def pad_of(model: nn.Module) -> int | None:
    """The id on padding that the configuration says."""
    told = getattr(getattr(model, "config", None), "pad_token_id", None)
    return told if isinstance(told, int) and told >= 0 else None


def padding_index(model: nn.Module) -> int | None:
    """The id on padding that the first embedding to have one says."""
    found = (m.padding_idx for m in model.modules() if isinstance(m, nn.Embedding))
    return next((int(i) for i in found if i is not None), None)


def special_ids(model: nn.Module) -> set[int]:
    """The ids of tokens that have a meaning of their own: padding, start, end."""
    config = getattr(model, "config", None)
    return {i for name in _SPECIAL for i in token_ids(config, name)}


def token_ids(config: Any, name: str) -> list[int]:
    """The ids that a configuration gives a special token: none, one, or a list of them."""
    found = getattr(config, f"{name}_token_id", None)
    return [one for one in (found if isinstance(found, list | tuple) else [found]) if isinstance(one, int)]


def with_target(model: nn.Module, inputs: Inputs, values: Mapping[str, Any], tokens: str) -> Inputs:
    """An encoder-decoder needs something to have written: from the labels, or from the source."""
    if "decoder_input_ids" in inputs.values or tokens not in inputs.values:
        return inputs
    labels = values.get("labels")
    made = getattr(model, "prepare_decoder_input_ids_from_labels", None)
    if isinstance(labels, Tensor) and made is not None:
        return inputs.with_values(decoder_input_ids=made(labels))
    source: Tensor = inputs.values[tokens]
    mask = inputs.values.get("attention_mask")
    count = mask.bool().sum(-1) if isinstance(mask, Tensor) and mask.dim() == 2 else source.new_tensor(source.shape[1])
    place = torch.arange(max(2, source.shape[1] - 3), device=source.device)
    # Real tokens only, round and round: a pad in the middle of a text is not one.
    first = mask.long().argmax(-1) if isinstance(mask, Tensor) and mask.dim() == 2 else source.new_tensor(0)
    at = (first.unsqueeze(-1) + (place * 5 + 1) % count.clamp(min=1).unsqueeze(-1)).expand(source.shape[0], -1)
    return inputs.with_values(decoder_input_ids=source.gather(1, at))
