"""Wider and wider heads, with and without the √D."""

import torch

import regard


def square_root() -> dict[str, list[float]]:
    """A dot product of D terms has variance D, so that wide heads saturate at birth; divided by √D they are all alike.

    Each of 100 queries reads 32 keys, all from N(0, 1); log 32 = 3.466.
    """
    widths = [4, 16, 64, 256, 1024]
    found: dict[str, list[float]] = {"width D": [float(width) for width in widths]}
    generator = torch.Generator().manual_seed(0)
    for width in widths:
        q, k = (torch.randn(100, 1, n, width, generator=generator, dtype=torch.float64) for n in (1, 32))
        found.setdefault("variance of a score", []).append(regard.scores(q, k, score="dot").var().item())
        for name, score in (("plain", "dot"), ("over √D", "scaled_dot")):
            w = regard.weights(q, k, score=score)
            entropy = torch.special.entr(w).sum(-1).mean()
            # The norm of the weights' slope, diag(w) − wwᵀ: what is left of a gradient on its way to the scores.
            squared = w.square().sum(-1) - 2 * w.pow(3).sum(-1) + w.square().sum(-1).square()
            slope = squared.clamp(min=0).sqrt().mean()
            for what, value in (("largest weight", w.amax(-1).mean()), ("entropy", entropy), ("slope", slope)):
                found.setdefault(f"{name}: {what}", []).append(value.item())
    return found
