"""How spread each look at the source is: the entropy of its weights as a share of the most it could be.

0 is one place, 1 is everywhere alike. What is healthy depends on the task: where every word has one counterpart, as in
copying, a head does well at 0, and where the mean is what is wanted it does well at 1. So a head that stays at an end
is pointed out, and not condemned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.translate.models.encoder_decoder import EncoderDecoder, Looks
from regard.translate.text.batches import Batch, collate
from regard.translate.training.device import moved

__all__ = ["EPOCHS", "EVEN", "SINGLE", "Sample", "entropy", "pointed_out", "said"]

SINGLE, EVEN = 0.02, 0.98  # what is as good as 0 and as 1
EPOCHS = 3  # so many in a row are pointed out
_PAIRS, _CELLS = 64, 2**18  # of the sample; and weights of a batch and a head that are held at once

#: Of each layer, of each of its heads.
Entropies = list[list[float]]


def entropy(weights: Tensor, source_lengths: Tensor, target_lengths: Tensor) -> tuple[Tensor, int]:
    """Σ H(row) / log n over the rows of ``weights`` (B, N, H, T, S), by layer and head (N, H), and how many rows.

    n is the sentence's source length, padding left out. Rows of padded targets are not counted, nor are sentences of
    one source piece, which leave nothing to choose. Weights are taken as shares of their row: those of a look that
    keeps some for nothing (a sink, a Gaussian window) or has weights below 0 are made positive and sum to 1 first. An
    empty row has entropy 0.

    >>> even = torch.full((1, 1, 1, 2, 4), 0.25)
    >>> entropy(even, torch.tensor([4]), torch.tensor([2]))
    (tensor([[2.]], dtype=torch.float64), 2)
    """
    shares = weights.double().abs()
    shares = shares / shares.sum(-1, keepdim=True).clamp_min(1e-300)
    limit = source_lengths.double().log()  # (B,)
    places = torch.arange(weights.shape[-2], device=weights.device)
    counted = (places < target_lengths.unsqueeze(-1)) & (source_lengths > 1).unsqueeze(-1)  # (B, T)
    rows = torch.special.entr(shares).sum(-1) / limit.clamp_min(1e-300).view(-1, 1, 1, 1)  # (B, N, H, T)
    kept = torch.where(counted[:, None, None], rows, torch.zeros((), dtype=rows.dtype, device=rows.device))
    return kept.sum((0, 3)), int(counted.sum())


class Sample:
    """Up to 64 pairs of the dev text, evenly spaced and the same at every epoch, led through as they are written.

    Pairs whose weights would be more than 2^18 a head are left out: the sample must not need more memory than training.
    """

    def __init__(self, source: Sequence[Sequence[int]], target: Sequence[Sequence[int]]) -> None:
        fit = [n for n in range(len(source)) if len(source[n]) > 1 and len(source[n]) * len(target[n]) <= _CELLS]
        chosen = [fit[n * len(fit) // min(_PAIRS, len(fit))] for n in range(min(_PAIRS, len(fit)))]
        chosen.sort(key=lambda n: (len(source[n]), len(target[n])))
        self.batches: list[Batch] = []
        group: list[int] = []
        for n in chosen:
            wide, high = (max(len(side[m]) for m in (*group, n)) for side in (source, target))
            if group and (len(group) + 1) * wide * high > _CELLS:
                self.batches.append(collate([source[m] for m in group], [target[m] for m in group]))
                group = []
            group.append(n)
        if group:
            self.batches.append(collate([source[m] for m in group], [target[m] for m in group]))

    @torch.no_grad()
    def entropies(self, model: EncoderDecoder[Any, Any]) -> Entropies:
        """Of each layer's each head, the mean over the sample's target pieces; of a model that never looks, none."""
        if not isinstance(model, Looks):
            return []
        device = next(model.parameters()).device
        summed, count = torch.zeros(()), 0
        for batch in self.batches:
            given = moved(batch, device)
            looked = model.align(given.source, given.source_lengths, given.previous)
            found, rows = entropy(looked, given.source_lengths, given.target_lengths)
            summed, count = summed + found.cpu(), count + rows
        if not count or not summed.numel():
            return []
        mean = summed / count
        return [[round(each, 6) for each in layer] for layer in mean.tolist()]


def said(entropies: Entropies) -> str:
    """The entropies in a few words, for a line of the report: the mean, and the ends where there are several heads."""
    every = [each for layer in entropies for each in layer]
    if not every:
        return ""
    if len(every) == 1:
        return f"entropy {every[0]:.2f}"
    return f"entropy {sum(every) / len(every):.2f} ({min(every):.2f}…{max(every):.2f})"


def pointed_out(history: Sequence[Entropies]) -> list[str]:
    """What to say of heads that have now stood at an end for three epochs in a row: once, when the third is over."""
    lines = []
    single = _standing(history, [[[each <= SINGLE for each in heads] for heads in epoch] for epoch in history])
    if single:
        lines.append(
            f"{single}: entropy at most {SINGLE} of log n for {EPOCHS} epochs: one place is looked at for each piece. "
            "That is as it should be where every word has one counterpart, as in copying; if the loss stands still "
            "too, scores may have grown until nothing is learnt there: lower --rate or --clip"
        )
    even = _standing(history, [[[each >= EVEN for each in heads] for heads in epoch] for epoch in history])
    if even:
        lines.append(
            f"{even}: entropy at least {EVEN} of log n for {EPOCHS} epochs: everything is looked at alike, and the "
            "mean is read. That is as it should be where the mean is wanted, or early on; if the loss stands still "
            "too, nothing has taught it where to look: check the text's pairs, or raise --rate"
        )
    return lines


def _standing(history: Sequence[Entropies], there: Sequence[Sequence[Sequence[bool]]]) -> str:
    """The heads that are there for the third epoch in a row and no longer, in words."""
    layers = []
    for layer, heads in enumerate(history[-1] if history else []):
        found = [n + 1 for n in range(len(heads)) if _newly([epoch[layer][n] for epoch in there])]
        if found:
            layers.append(f"layer {layer + 1} head{'s' * (len(found) > 1)} {', '.join(map(str, found))}")
    return "; ".join(layers)


def _newly(there: list[bool]) -> bool:
    """Whether the last ``EPOCHS`` were at the end, and the one before was not."""
    return len(there) >= EPOCHS and all(there[-EPOCHS:]) and not (len(there) > EPOCHS and there[-EPOCHS - 1])
