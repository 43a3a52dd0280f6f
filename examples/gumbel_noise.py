"""Gumbel noise on the scores, at a falling temperature."""

import torch

import regard


def gumbel_noise() -> dict[str, list[float]]:
    """The winner of a draw follows softmax(s) at every temperature; temperature only says how hard the draw is.

    The mean of the 20,000 draws is softmax(s) only in the cold: a warm draw is biased towards even. (A softmax at a
    temperature without the noise draws nothing: it gives the same weights every time.)
    """
    scores = torch.tensor([1.0, 0.5, 0.0, -0.8])
    temperatures = [5.0, 1.0, 0.5, 0.1]
    found: dict[str, list[float]] = {"temperature": temperatures, "entropy of one draw": []}
    found |= {
        "first: softmax(s)": [torch.softmax(scores, 0)[0].item()] * 4,
        "first: wins": [],
        "first: mean weight": [],
    }
    generator = torch.Generator().manual_seed(0)
    for temperature in temperatures:
        draw = regard.normalize.GumbelSoftmax(temperature, generator=generator)
        weights = draw(scores.expand(20_000, 4))
        found["entropy of one draw"].append(torch.special.entr(weights).sum(-1).mean().item())
        found["first: wins"].append((weights.argmax(-1) == 0).float().mean().item())
        found["first: mean weight"].append(weights[:, 0].mean().item())
    return found
