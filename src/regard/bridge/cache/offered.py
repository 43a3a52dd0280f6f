"""A transformers ``Cache`` of this package's memories. It imports transformers, so it is imported when asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor
from transformers import Cache
from transformers.cache_utils import get_layer_types_and_kwargs

from regard.bridge.cache import Factory
from regard.bridge.cache.band import Band
from regard.bridge.cache.layers import MemoryLayer, Place
from regard.bridge.cache.padding import Padding
from regard.bridge.cache.turning import turns
from regard.errors import RegardError

__all__ = ["OfferedCache", "offered"]

KINDS = ("full_attention", "sliding_attention", "chunked_attention")


class OfferedCache(Cache):
    """One memory a layer. ``layers[n].memory`` and ``layers[n].state`` are what layer n writes to."""

    layers: list[Any]
    band: Band | None = None

    def __init__(self, layers: list[Any]) -> None:
        super().__init__(layers=layers)

    @property
    def nbytes(self) -> int:
        """Bytes of all pairs that are held."""
        return sum(layer.nbytes for layer in self.layers)


def offered(model: Any, memory: Factory | Mapping[str, Factory], attention_mask: Tensor | None) -> OfferedCache:
    config, given = _config(model)
    kinds, settings = get_layer_types_and_kwargs(config)
    padding = None if attention_mask is None else Padding.of(attention_mask)
    layers = []
    for n, (kind, more) in enumerate(zip(kinds, settings, strict=True)):
        if kind not in KINDS:
            raise RegardError(
                f"model: layer {n} is of the type {kind!r}, wanted layers that keep keys and values: {', '.join(KINDS)}"
            )
        place = Place(n, kind != "full_attention", more.get("sliding_window") if kind == "sliding_attention" else None)
        layers.append(MemoryLayer(_factory(memory, kind), place, padding))
    if not any(layer.sinks for layer in layers):
        if attention_mask is not None:
            raise RegardError(
                "attention_mask: found one for memories without sinks, wanted None: the model's own mask hides padding"
            )
        return _banded(OfferedCache(layers), given)
    if given is None:
        raise RegardError(
            f"model: found a {type(model).__name__}, wanted the model itself: how its keys turn is measured on it"
        )
    for layer, turn in zip(layers, turns(given), strict=True):
        layer.turn = turn
    return OfferedCache(layers)


def _banded(cache: OfferedCache, model: Any) -> OfferedCache:
    """The cache, whose chunks see what single steps see where one mask does for all layers of the model.

    That is where none has a mask of its own. Rotary models alone know where tokens stand without a mask of two axes.
    """
    reaches = {layer.reach for layer in cache.layers}
    if model is None or len(reaches) != 1 or None in reaches or any(layer.place.masked for layer in cache.layers):
        return cache
    if model.config is not model.config.get_text_config(decoder=True):
        return cache
    if any(name.endswith("inv_freq") for name, _ in model.named_buffers()):
        cache.band = Band(model.base_model, reaches.pop())
        for layer in cache.layers:
            layer.band = cache.band
    return cache


def _config(model: Any) -> tuple[Any, Any]:
    """The decoder's configuration, and the model where it was given."""
    from transformers import PreTrainedConfig, PreTrainedModel

    if isinstance(model, PreTrainedModel):
        config, given = model.config, model
    elif isinstance(model, PreTrainedConfig):
        config, given = model, None
    else:
        raise RegardError(f"model: found {type(model).__name__}, wanted a transformers model or its configuration")
    if config.is_encoder_decoder:
        raise RegardError(
            f"model: {type(model).__name__} is an encoder-decoder, wanted a decoder alone: its cache is two, one of "
            "which never grows"
        )
    return config.get_text_config(decoder=True), given


def _factory(memory: Factory | Mapping[str, Factory], kind: str) -> Factory:
    if not isinstance(memory, Mapping):
        return memory
    if kind not in memory:
        raise RegardError(f"memory: the model has layers of the type {kind!r}, found one for {sorted(memory)}")
    return memory[kind]
