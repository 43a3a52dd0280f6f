"""What the averaged model is worth on the dev text, at the end of an epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from regard.translate.models.encoder_decoder import EncoderDecoder
from regard.translate.text.batches import Batch, collate, plan
from regard.translate.text.corpus import Corpus
from regard.translate.text.vocabulary import Vocabulary
from regard.translate.training.device import moved
from regard.translate.training.entropy import Sample
from regard.translate.training.evaluate import bleu
from regard.translate.training.loss import loss
from regard.translate.training.settings import Settings
from regard.translate.translator import Translator

__all__ = ["Exam", "best_of"]


class Exam:
    """The dev text: translated greedily for BLEU, read as it stands for the loss, a sample of it for the looks."""

    def __init__(self, dev: Corpus, source: Vocabulary, target: Vocabulary, settings: Settings) -> None:
        self.dev, self.vocabularies, self.settings = dev, (source, target), settings
        left, right = source.encode(dev.source), target.encode(dev.target)
        self.batches = _batches(left, right, settings.batch_tokens)
        self.sample = Sample(left, right)

    def measure(self, model: EncoderDecoder[Any, Any]) -> dict[str, Any]:
        """All that an epoch is told by: ``dev_loss``, ``bleu``, and the ``entropy`` of each layer's each head."""
        return {"dev_loss": self.loss(model), "bleu": self.bleu(model), "entropy": self.sample.entropies(model)}

    def bleu(self, model: EncoderDecoder[Any, Any]) -> float:
        """BLEU of the model's translations."""
        texts = Translator(model, *self.vocabularies).texts(self.dev.source, beam=1, ahead=4096)
        return bleu(list(texts), self.dev.target, self.settings.tokenize)

    @torch.no_grad()
    def loss(self, model: EncoderDecoder[Any, Any]) -> float:
        """Mean over the references' pieces of -log p(y | y_<i, x), without smoothing: its exponential is perplexity."""
        device = next(model.parameters()).device
        summed = pieces = 0.0
        for batch in self.batches:
            count = int(batch.target_lengths.sum())
            summed += float(loss(model, moved(batch, device))) * count
            pieces += count
        return summed / pieces

    @property
    def counts(self) -> str:
        """The measure in a line of history by which epochs are compared."""
        return "dev_loss" if self.settings.stop_on == "loss" else "bleu"

    def better(self, line: Mapping[str, float], best: float | None) -> bool:
        """Whether an epoch beats the best before it; a loss that is not a number beats nothing."""
        found = line[self.counts]
        if best is None:
            return True
        return found < best if self.settings.stop_on == "loss" else found > best


def best_of(settings: Settings, best: float | None) -> str:
    """The best so far, in words."""
    name, form = ("dev loss", ".3f") if settings.stop_on == "loss" else ("dev BLEU", ".2f")
    return f"{name} {'none yet' if best is None else format(best, form)}"


def _batches(source: list[list[int]], target: list[list[int]], tokens: int) -> list[Batch]:
    """The dev text in batches; a pair longer than a batch, which training would leave out, is a batch of its own."""
    lengths = [(len(a), len(b)) for a, b in zip(source, target, strict=True)]
    order = plan(lengths, tokens=max(tokens, *(a + b for a, b in lengths)), seed=0, epoch=0)
    return [collate([source[n] for n in members], [target[n] for n in members]) for members in order]
