"""This package's caches for Hugging Face's ``generate``: `cache_for` makes one that a model takes as its own.

Nothing here imports transformers until a cache is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from regard.memory import PairMemory

if TYPE_CHECKING:
    from torch import Tensor

    from regard.bridge.cache.offered import OfferedCache

__all__ = ["Factory", "cache_for"]

#: What builds a layer's memory from its key heads and the widths of a key and of a value: a class, or a partial of one.
Factory = Callable[[int, int, int], PairMemory[Any]]


def cache_for(
    model: Any, memory: Factory | Mapping[str, Factory], *, attention_mask: Tensor | None = None
) -> OfferedCache:
    """A transformers ``Cache`` whose layers are memories of this package: ``model.generate(…, cache=cache_for(…))``.

    The model goes on to read by its own attention: softmax over the keys that the memory kept, under its own mask. With
    a memory that keeps every pair, what is generated is what transformers' ``DynamicCache`` gives.

    Args:
        model: a transformers decoder. Its configuration is enough for memories without sinks.
        memory: builds a layer's memory from ``heads, width, value_width``: ``KVCache``, or
            ``functools.partial(SlidingCache, window=256)``. A mapping has one for each of the model's layer types
            ("full_attention", "sliding_attention", "chunked_attention").
        attention_mask: (B, S), 1 for a token and 0 for padding in front, as it is given to ``generate``. Wanted where
            the memory has sinks and a prompt is padded: padding is no sink. Beams are counted from its rows.

    A memory with a window keeps the last pairs only, and a token sees the window, itself in it. Where the model has no
    such window itself, a chunk of L > 1 tokens is given a mask that says so: by a hook on the model's decoder, which
    acts on calls with such a cache alone. Where that cannot be (sinks, whose distance is another for each token; layers
    of several kinds; a configuration without its model; positions that are not rotary; an attention other than eager,
    sdpa and this package's), the chunk sees what is left when room is made for it, and a first prompt is read whole
    before pairs are let go. A memory with sinks keeps the first pairs besides, and turns their keys with every step so
    that they stand right before the window (Xiao et al. 2023): by the model's own frequencies, which are measured on it
    with one token, and refused where its keys do not turn by a rotary law.

    Raises:
        RegardError: no decoder of transformers, a layer without keys and values, a memory that keeps no pairs or has a
            score or a normaliser of its own, positions that cannot be moved, padding that is not in front.

    >>> import torch, transformers
    >>> from regard.memory import KVCache
    >>> model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
    ...     vocab_size=31, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=4,
    ...     num_key_value_heads=2, eos_token_id=None))
    >>> cache = cache_for(model, KVCache)
    >>> prompt = torch.tensor([[3, 1, 4, 1, 5]])
    >>> model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=3, cache=cache).shape
    torch.Size([1, 8])
    >>> cache.nbytes  # two layers of 7 pairs, 2 heads, 4 + 4 numbers of 4 bytes
    896
    """
    from regard.bridge.cache.offered import offered

    return offered(model, memory, attention_mask)
