"""Masks: which keys a query may look at. True = may look, everywhere.

>>> from regard import mask
>>> print(mask.causal() & mask.padding([3]))
(causal(anchor=None) & padding([3]))
■ · ·
■ ■ ·
■ ■ ■
"""

from regard.mask.base import EMPTY, FULL, PARTIAL, Mask
from regard.mask.conventions import from_additive, from_huggingface, from_torch_attn_mask, from_torch_key_padding
from regard.mask.given import blocks, dense, where
from regard.mask.places import causal, strided, window
from regard.mask.rows import padding, segments

__all__ = [
    "EMPTY",
    "FULL",
    "PARTIAL",
    "Mask",
    "blocks",
    "causal",
    "dense",
    "from_additive",
    "from_huggingface",
    "from_torch_attn_mask",
    "from_torch_key_padding",
    "padding",
    "segments",
    "strided",
    "where",
    "window",
]
