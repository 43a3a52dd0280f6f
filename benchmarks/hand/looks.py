"""What a trained hand did: how its window went, whether its densities are some, and how many points it drew."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.hand.training import Learner
from regard.memory.tasks.pen import Handwriting, Pen
from regard.nn import PenMixture

__all__ = ["Way", "counted", "spearman", "way", "whole"]


@dataclass(frozen=True)
class Way:
    """How the window's mean place went along some lines."""

    spearman: float
    """Spearman's correlation with the letter that is being written, of each line; their mean. A place that grows at any
    pace has the highest there is: this tells that the window goes one way, ``off`` that it goes with the letters."""
    highest: float
    """What it is where the place always grows: letters have several points, and ranks that are tied cost some of it."""
    back: float
    """How far the place ever was behind where it had been, in letters."""
    falls: float
    """The share of steps at which it fell at all."""
    off: float
    """How far it is from the letter that is being written, in letters, on average."""


def way(learner: Learner, lines: Handwriting) -> Way:
    """How the window of a learner went that was shown these lines."""
    places = learner.followed(lines).place.double()
    found, highest, back, falls = [], [], [], []
    for row, letters, there in zip(places, lines.letter.double(), lines.valid, strict=True):
        at, letter = row[there], letters[there]
        found.append(spearman(at, letter))
        highest.append(spearman(torch.arange(len(at)).double(), letter))
        back.append(float((at.cummax(0).values - at).max()))
        falls.append((at.diff() < 0).double())
    off = (places - lines.letter)[lines.valid].abs().mean()
    mean = [sum(numbers) / len(numbers) for numbers in (found, highest)]
    return Way(mean[0], mean[1], max(back), float(torch.cat(falls).mean()), float(off))


def spearman(a: Tensor, b: Tensor) -> float:
    """The correlation of ranks of two rows of numbers (N,), those that are equal sharing theirs.

    >>> round(spearman(torch.tensor([1.0, 2.0, 9.0]), torch.tensor([0.0, 7.0, 8.0])), 6)
    1.0
    """
    return float(torch.corrcoef(torch.stack([_ranks(a), _ranks(b)]))[0, 1])


def _ranks(x: Tensor) -> Tensor:
    _, which, count = x.unique(return_inverse=True, return_counts=True)
    shared: Tensor = (count.cumsum(0) - (count - 1) / 2).double()
    return shared[which]


def whole(pen: PenMixture, side: int = 1201) -> float:
    """The integral of one density (no axes in front) over the plane and both ends, on a grid of side × side points.

    It reaches eight standard deviations beyond the means of all that has a share of a millionth.
    """
    pen = PenMixture(*(part.double() for part in pen))
    counts = pen.logits.softmax(-1) > 1e-6
    middle, far = pen.means[counts], 8 * pen.scales[counts].exp()
    low, high = (middle - far).amin(0), (middle + far).amax(0)
    x, y = (torch.linspace(float(low[n]), float(high[n]), side, dtype=torch.float64) for n in (0, 1))
    cell = float((x[1] - x[0]) * (y[1] - y[0]))
    total = 0.0
    for columns in x.split(100):  # so that no grid of all components is held
        at = torch.stack(torch.meshgrid(columns, y, indexing="ij"), -1)
        for end in (0.0, 1.0):
            points = torch.cat([at, torch.full_like(at[..., :1], end)], -1)
            total += float(pen.log_density(points).exp().sum()) * cell
    return total


def counted(learner: Learner, pen: Pen, lines: Handwriting, seed: int, bias: float = 0.0) -> float:
    """The share of texts that are written with as many points as their letters have, and end of themselves."""
    generator = torch.Generator().manual_seed(seed)
    line = learner.network.write(lines.text, valid=lines.text_valid, bias=bias, generator=generator)
    wanted = pen.written(lines.text, lines.text_valid, generator).valid.sum(1)
    return float(((line.valid.sum(1) == wanted) & line.ended).double().mean())
