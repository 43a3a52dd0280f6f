"""A picture of written words, each point in the colour of the letter that the window was at, and the windows' way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from regard.memory.tasks.pen import Pen, polylines
from regard.nn import HandwritingSynthesis
from regard.nn.handwriting import Line, mean_place

__all__ = ["draw_words"]


def draw_words(network: HandwritingSynthesis, pen: Pen, words: list[tuple[str, float]], path: Path) -> None:
    """Words with their biases, one below the other; under them φ along the last one."""
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.45 * len(words) + 2.4), layout="constrained")
    *plots, below = figure.subplots(len(words) + 1, 1, height_ratios=[1.0] * len(words) + [1.6])
    generator = torch.Generator().manual_seed(0)
    longest = max(len(word) for word, _ in words)
    for plot, (word, bias) in zip(plots, words, strict=True):
        line = network.write(pen.spell(word), bias=bias, generator=generator)
        _write(plot, line, Normalize(0.5, longest + 0.5))
        plot.set_title(f"“{word}”" + (f", bias {bias:g}" if bias else ""), loc="left", fontsize=9, color="0.35")
    image = below.imshow(line.weights[0].T.numpy(), aspect="auto", cmap="magma", interpolation="nearest")
    below.plot((mean_place(line.weights[0]) - 1).numpy(), color="white", linewidth=1, alpha=0.8)
    below.set(yticks=range(len(word)), yticklabels=list(word), xlabel="points of the pen", ylabel="text")
    below.set_title("φ(t, u), and its mean place", loc="left", fontsize=9, color="0.35")
    figure.colorbar(image, ax=below, pad=0.01)
    figure.savefig(path, dpi=130)


def _write(plot: Any, line: Line, colours: Any) -> None:
    """One row's strokes, from point to point in the colour of where they go to."""
    from matplotlib import colormaps
    from matplotlib.collections import LineCollection

    strokes, places = line.strokes[0][line.valid[0]], mean_place(line.weights[0][line.valid[0]])
    pieces: list[Any] = []
    shades: list[float] = []
    begun = 0
    for drawn in polylines(strokes):
        pieces += list(torch.stack([drawn[:-1], drawn[1:]], 1).numpy())
        shades += places[begun + 1 : begun + len(drawn)].tolist()
        begun += len(drawn)
    hues = colormaps["turbo"](colours(shades))
    plot.add_collection(LineCollection(pieces, colors=hues, linewidths=2.6, capstyle="round"))
    plot.autoscale()
    plot.set_aspect("equal", anchor="W")
    plot.set_axis_off()
