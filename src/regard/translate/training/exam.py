"""What the averaged model is worth on the dev text, at the end of an epoch."""

from __future__ import annotations

from typing import Any

from regard.translate.models.encoder_decoder import EncoderDecoder
from regard.translate.text.corpus import Corpus
from regard.translate.text.vocabulary import Vocabulary
from regard.translate.training.evaluate import bleu
from regard.translate.training.settings import Settings
from regard.translate.translator import Translator

__all__ = ["Exam"]


class Exam:
    """The dev text, which the model translates greedily."""

    def __init__(self, dev: Corpus, source: Vocabulary, target: Vocabulary, settings: Settings) -> None:
        self.dev, self.vocabularies, self.settings = dev, (source, target), settings

    def bleu(self, model: EncoderDecoder[Any, Any]) -> float:
        """BLEU of the model's translations."""
        texts = Translator(model, *self.vocabularies).texts(self.dev.source, beam=1, batch=4096)
        return bleu(list(texts), self.dev.target, self.settings.tokenize)
