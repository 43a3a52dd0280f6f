"""What training makes small: cross-entropy against a smoothed target, its gradient written out, which takes a third of
the passes over the vocabulary."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.translate.models.encoder_decoder import EncoderDecoder
from regard.translate.text.batches import Batch
from regard.translate.text.vocabulary import PAD

__all__ = ["loss", "smoothed_cross_entropy"]


def loss(model: EncoderDecoder[Any, Any], batch: Batch, smoothing: float = 0.0) -> Tensor:
    """Mean over the target's pieces, padding left out, of -Σ_y q(y) log p(y | y_<i, x); q is 1 at the true piece,
    or spreads ``smoothing`` of it evenly over the vocabulary."""
    hidden = model.hidden(batch.source, batch.source_lengths, batch.previous)
    valid = batch.target != PAD  # (B, T)
    logits = model.vocabulary(hidden[valid])  # (pieces, V)
    return smoothed_cross_entropy(logits, batch.target[valid], smoothing)


def smoothed_cross_entropy(logits: Tensor, target: Tensor, smoothing: float = 0.0) -> Tensor:
    """-(1/N) Σ_n Σ_y q_n(y) log softmax(logits_n)_y, with q = (1 - ε) at the true y plus ε/V everywhere (Szegedy 2016).

    Equal to ``torch.nn.functional.cross_entropy(logits.float(), target, label_smoothing=ε)``, at half its time. The
    gradient (softmax - q) / N is formed while the loss is, so it cannot be differentiated twice.

    Args:
        logits: (N, V), computed in float32 or wider.
        target: (N,) piece numbers.
        smoothing: ε in [0, 1).
    """
    value: Tensor = _SmoothedCrossEntropy.apply(logits, target, smoothing)  # type: ignore[no-untyped-call]
    return value


class _SmoothedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
        count, size = logits.shape
        log_p = torch.log_softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), -1)
        rows = torch.arange(count, device=logits.device)
        value = (1.0 - smoothing) * log_p[rows, target].sum()
        if smoothing:
            value = value + smoothing / size * log_p.sum()
        gradient = log_p.exp_()
        if smoothing:
            gradient.sub_(smoothing / size)
        gradient[rows, target] -= 1.0 - smoothing
        ctx.save_for_backward(gradient.div_(count).to(logits.dtype))
        return -value / count

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grown: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient.mul_(grown), None, None
