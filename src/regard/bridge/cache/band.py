"""A mask for chunks: every token of one sees what a window would hold if tokens came one by one.

transformers makes its causal mask of sizes that the cache tells: what token t sees, t + 1 sees too. A window lets go of
a pair with every token, so its mask has to be given. A model takes a mask of four axes as it is.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.bridge.huggingface import NAME

__all__ = ["Band"]

#: The attentions of transformers, and this package's, that add a float mask to the scores.
ADDING = ("eager", "sdpa", NAME)

_watched: WeakSet[Any] = WeakSet()


class Band:
    """The mask that a decoder's layers share, all of which see the last ``reach`` tokens.

    It is put in when the decoder is called with a cache that has a band; other calls are left as they are.
    """

    def __init__(self, decoder: Any, reach: int) -> None:
        self.config, self.reach = decoder.config, reach
        if decoder not in _watched:
            _watched.add(decoder)
            decoder.register_forward_pre_hook(_given, with_kwargs=True)

    @property
    def read(self) -> bool:
        """Whether the model's attention, as it is set now, reads such a mask."""
        return self.config._attn_implementation in ADDING

    def mask(self, real: Tensor | None, rows: int, seen: int, length: int, like: Tensor) -> Tensor:
        """(B, 1, L, S), 0 where token i of L, after ``seen`` others, may look: at up to ``reach`` − 1 before itself.

        ``real`` (B, ·) is True where a token is no padding.
        """
        first = max(0, seen - self.reach + 1)
        i = torch.arange(seen, seen + length, device=like.device)[:, None]
        j = torch.arange(first, seen + length, device=like.device)
        may = ((j <= i) & (j > i - self.reach)).expand(rows, 1, -1, -1)
        if real is not None:
            whole = F.pad(real.to(like.device).bool(), (0, max(0, seen + length - real.shape[1])))
            may = may & whole[:, None, None, first : seen + length]
        return torch.zeros((), dtype=like.dtype, device=like.device).where(may, torch.finfo(like.dtype).min)


def _given(
    decoder: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Before the decoder's forward: the mask of a chunk, where its cache has a band."""
    cache: Any = kwargs.get("cache", kwargs.get("past_key_values"))
    band = getattr(cache, "band", None)
    if not isinstance(band, Band):
        return None
    tokens = args[0] if args else kwargs.get("input_ids")
    tokens = kwargs.get("inputs_embeds") if tokens is None else tokens
    real = kwargs.get("attention_mask")
    plain = real is None or (isinstance(real, Tensor) and real.dim() == 2)
    banded = len(args) < 2 and isinstance(tokens, Tensor) and tokens.shape[1] > 1 and plain and band.read
    for layer in cache.layers:
        layer.banded = banded
    if not banded:
        return None
    assert isinstance(tokens, Tensor)
    like = torch.empty(0, dtype=decoder.dtype, device=tokens.device)
    rows, length = tokens.shape[:2]
    return args, {**kwargs, "attention_mask": band.mask(real, rows, cache.get_seq_length(), length, like)}
