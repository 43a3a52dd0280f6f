"""The exam at the end of an epoch: the loss on the dev text is what it says."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from regard.translate.models import architecture
from regard.translate.text.batches import collate
from regard.translate.text.corpus import read_parallel
from regard.translate.text.vocabulary import Vocabulary
from regard.translate.training.exam import Exam

from ..conftest import Toy


def test_the_loss_on_the_dev_text_is_the_mean_over_its_pieces(toy: Toy) -> None:
    """Pair by pair and without smoothing, pairs longer than the training would take among them."""
    dev = read_parallel(toy.dev_source, toy.dev_target)
    source, target = Vocabulary.train(dev.source, 24), Vocabulary.train(dev.target, 24)
    settings = replace(toy.settings, max_length=9, batch_tokens=13)
    torch.manual_seed(1)
    model = architecture(settings.model).model(settings.config(24, 24)).eval()
    summed, pieces, longest = 0.0, 0, 0
    for left, right in zip(source.encode(dev.source), target.encode(dev.target), strict=True):
        batch = collate([left], [right])
        with torch.no_grad():
            log_p = model(batch.source, batch.source_lengths, batch.previous).double().log_softmax(-1)
        summed -= float(log_p[0].gather(-1, batch.target[0].unsqueeze(-1)).sum())
        pieces, longest = pieces + len(right), max(longest, len(left) + len(right))
    assert longest > settings.batch_tokens
    assert Exam(dev, source, target, settings).loss(model) == pytest.approx(summed / pieces, rel=1e-5)
