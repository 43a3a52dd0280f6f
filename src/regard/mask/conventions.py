"""Masks from other conventions, each by a function whose name says from where: never a bare ``~``."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.mask.base import Mask
from regard.mask.given import dense


def from_torch_key_padding(key_padding_mask: Tensor) -> Mask:
    """``nn.MultiheadAttention``'s key_padding_mask, (S,) or (B, S) with True = *ignore*, or a float of 0 and −inf.

    >>> import torch
    >>> print(from_torch_key_padding(torch.tensor([[False, True]])).draw(1, 2))
    ■ ·
    """
    allowed = _torch_allowed("key_padding_mask", key_padding_mask)
    if allowed.dim() not in (1, 2):
        raise RegardError(f"key_padding_mask: found shape {tuple(allowed.shape)}, wanted (S,) or (B, S)")
    return dense(allowed[..., None, None, :])


def from_torch_attn_mask(attn_mask: Tensor, heads: int | None = None) -> Mask:
    """``nn.MultiheadAttention``'s attn_mask, (L, S) or (B·H, L, S) with True = *ignore*, or a float of 0 and −inf.

    A three-axis mask needs ``heads`` to take B·H apart.

    >>> import torch
    >>> print(from_torch_attn_mask(torch.ones(2, 2, dtype=torch.bool).triu(1)).draw(2, 2))
    ■ ·
    ■ ■
    """
    allowed = _torch_allowed("attn_mask", attn_mask)
    if allowed.dim() == 2:
        return dense(allowed)
    if allowed.dim() != 3:
        raise RegardError(f"attn_mask: found shape {tuple(allowed.shape)}, wanted (L, S) or (B·H, L, S)")
    if not heads or allowed.shape[0] % heads:
        raise RegardError(
            f"attn_mask: found {tuple(allowed.shape)} and heads = {heads}; wanted (B·H, L, S) with heads = H "
            "dividing the first axis"
        )
    return dense(allowed.unflatten(0, (-1, heads)))


def from_huggingface(attention_mask: Tensor) -> Mask:
    """A Hugging Face attention_mask, (B, S) with 1 for a real token and 0 for padding.

    >>> import torch
    >>> print(from_huggingface(torch.tensor([[1, 1, 0]])).draw(1, 3))
    ■ ■ ·
    """
    if attention_mask.dim() != 2:
        raise RegardError(
            f"attention_mask: found shape {tuple(attention_mask.shape)}, wanted (B, S) of 1 (token) and 0 (padding)"
        )
    strange = attention_mask[(attention_mask != 0) & (attention_mask != 1)]
    if strange.numel():
        raise RegardError(
            f"attention_mask: found the value {strange.flatten()[0].item()}, wanted 1 (token) and 0 (padding) only"
        )
    return dense((attention_mask != 0)[:, None, None, :])


def from_additive(mask: Tensor) -> Mask:
    """A float mask that is added to scores: 0 = may look; −inf or the dtype's minimum (any value ≤ −10,000) = may not.

    Other values are a bias, not a mask, and are refused: add them to the score. A mask of 0 and 1 is refused too: added
    to scores it hides nothing.

    >>> import torch
    >>> print(from_additive(torch.tensor([[0.0, -torch.inf], [0.0, 0.0]])).draw(2, 2))
    ■ ·
    ■ ■
    """
    if not mask.is_floating_point():
        raise RegardError(f"additive mask: found {mask.dtype}, wanted a float mask of 0 and −inf")
    hidden = mask <= -1e4
    odd = mask[~hidden & (mask != 0)]
    if odd.numel():
        raise RegardError(
            f"additive mask: found the value {odd.flatten()[0].item():g}, wanted only 0 (may look) and −inf or the "
            "dtype's minimum "
            "(may not); a 0/1 mask hides nothing when it is added: use from_huggingface; a bias belongs to the "
            "score: score + bias"
        )
    return dense(~hidden)


def _torch_allowed(name: str, mask: Tensor) -> Tensor:
    if mask.dtype == torch.bool:
        return ~mask
    if mask.is_floating_point():
        additive = from_additive(mask)
        assert isinstance(additive, dense)
        return additive.allowed.reshape(mask.shape)
    raise RegardError(f"{name}: found {mask.dtype}, wanted booleans (True = ignore) or a float mask of 0 and −inf")
