"""Looking back against a state handed over once: the same stacks, the same updates, sentences of up to twelve words."""

from __future__ import annotations

import random

import pytest
import torch

from regard.translate.models import architecture
from regard.translate.text.batches import Batch, collate
from regard.translate.text.vocabulary import EOS
from regard.translate.training.loss import loss

WORDS = range(4, 34)


def drawn(draw: random.Random, count: int, shortest: int) -> Batch:
    """Sentences of ``shortest`` to 12 words, each word with one translation, in the same order."""
    lines = [draw.choices(WORDS, k=draw.randint(shortest, 12)) for _ in range(count)]
    return collate([[*line, EOS] for line in lines], [[*(4 + (7 * x) % 30 for x in line), EOS] for line in lines])


def accuracy(name: str, seed: int, updates: int = 200, **more: bool) -> float:
    """The share of pieces of sentences of 12 words that come first, each after the true ones before it."""
    torch.manual_seed(seed)
    made = architecture(name)
    model = made.model(
        made.config(source_vocabulary=34, target_vocabulary=34, **{"embedding": 32, "hidden": 64, "layers": 1, **more})
    )
    optimiser, draw = torch.optim.Adam(model.parameters(), 3e-3), random.Random(seed)
    for _ in range(updates):
        optimiser.zero_grad()
        loss(model, drawn(draw, 32, 3)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    asked = drawn(random.Random(-1 - seed), 100, 12)
    with torch.no_grad():
        said = model(asked.source, asked.source_lengths, asked.previous).argmax(-1)
    return float((said == asked.target).float().mean())


@pytest.mark.slow
def test_looking_back_learns_what_one_state_does_not_hold() -> None:
    """At least 0.2 apart, on every one of three seeds."""
    for seed in range(3):
        looking, handed = accuracy("luong", seed, feeding=False), accuracy("sutskever", seed)
        assert looking - handed >= 0.2, (seed, looking, handed)
