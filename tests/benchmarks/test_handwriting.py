"""The hand that learns to write: what is measured of it, its picture, and a short training with its blind twin."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from benchmarks.hand.drawing import draw_words
from benchmarks.hand.looks import spearman, way, whole
from benchmarks.hand.training import Learner, Recipe, trained
from regard.memory.tasks import Handwriting, Pen
from regard.nn import HandwritingSynthesis, PenMixture
from regard.nn.handwriting import Followed

PEN = Pen()


def test_ranks_that_are_equal_are_shared() -> None:
    a, b = torch.tensor([1.0, 1.0, 2.0, 5.0]), torch.tensor([3.0, 1.0, 2.0, 9.0])
    one, two = torch.tensor([1.5, 1.5, 3, 4]), torch.tensor([3.0, 1, 2, 4])
    assert spearman(a, b) == pytest.approx(float(torch.corrcoef(torch.stack([one, two]))[0, 1]))
    assert spearman(b, -b) == pytest.approx(-1)


class Told(Learner):
    """One whose window goes as it is told."""

    def __init__(self, places: Tensor) -> None:
        object.__setattr__(self, "places", places)

    def followed(self, lines: Handwriting) -> Followed:
        u = torch.arange(1, lines.text.shape[1] + 1)
        weights = (1 - (self.places.unsqueeze(-1) - u).abs()).clamp(min=0)  # between two letters: shared by both
        return Followed(PenMixture.of(torch.zeros(1, 7)), weights, weights)

    places: Tensor


def test_the_way_of_a_window_is_measured() -> None:
    lines = PEN.draw(7, torch.Generator().manual_seed(0))
    letter = lines.letter.float()
    right = way(Told(letter), lines)
    assert right.spearman == pytest.approx(1)
    assert right.back == right.falls == right.off == 0
    assert 0.9 < right.highest < 1
    moved = letter.clone()
    moved[3, int(lines.valid[3].sum()) - 1] -= 0.75
    assert way(Told(moved), lines).back == pytest.approx(0.75)
    assert way(Told(lines.text_valid.sum(1, keepdim=True) + 1 - letter), lines).spearman == pytest.approx(-1)


def test_a_density_that_sums_to_1_is_found_to() -> None:
    pen = PenMixture.of(torch.randn(13, generator=torch.Generator().manual_seed(1)))
    assert whole(pen, 801) == pytest.approx(1, abs=1e-3)
    assert abs(whole(pen, 3) - 1) > 0.1  # a grid that cannot


def test_what_is_written_is_drawn(tmp_path: Path) -> None:
    network = HandwritingSynthesis(len(PEN.alphabet), 5, mixtures=2)
    draw_words(network, PEN, [("on", 0.0), ("ate", 1.0)], tmp_path / "words.png")
    assert (tmp_path / "words.png").stat().st_size > 5_000


@pytest.mark.slow
def test_a_hand_with_its_text_learns_where_it_is_and_one_without_falls_behind() -> None:
    """`regard bench handwriting` in short: few updates, short lines."""
    pen, recipe = Pen(lengths=(2, 3)), Recipe(steps=90, batch=16, rate=1e-2, hidden=40, windows=5, mixtures=5)
    lines = pen.draw(64, torch.Generator().manual_seed(1_000_003))
    learner, blind = trained(pen, recipe, 0), trained(pen, recipe, 0, reads=False)
    assert sum(p.numel() for p in learner.network.parameters()) == sum(p.numel() for p in blind.network.parameters())
    found, before = way(learner, lines), way(trained(pen, replace(recipe, steps=0), 0), lines)
    assert found.spearman >= found.highest - 0.02
    assert found.off < 0.25 < before.off
    with torch.no_grad():
        assert learner.nats(lines) < blind.nats(lines) - 0.1
