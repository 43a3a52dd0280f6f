"""A trained model with its vocabularies: sentences in, translations and what they looked at out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.translate import checkpoint
from regard.translate.decoding.beam import beam_search
from regard.translate.models.encoder_decoder import EncoderDecoder
from regard.translate.text.batches import pad
from regard.translate.text.vocabulary import BOS, PAD, Vocabulary

__all__ = ["Translation", "Translator"]


@dataclass(frozen=True)
class Translation:
    """One sentence translated.

    ``source`` holds S pieces and ``target`` T pieces, both closed by ``</s>`` (a target cut at its length limit is
    not). ``weights`` (T, S) is the soft alignment: row i is where the decoder looked before it said piece i, and sums
    to 1; of a model with several looks a step, the mean over its layers and heads. ``on_padding`` is the largest weight
    that fell behind the sentence's own end, where a batch is padded; it is 0, or the mask is broken. An empty
    sentence has no pieces, and weights (0, 0).
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    text: str
    score: float
    weights: Tensor
    on_padding: float = 0.0


class Translator:
    """A model and its two vocabularies.

    >>> Translator.load("runs/en-fr").translate(["A good day."])[0].text  # doctest: +SKIP
    'Une bonne journée.'
    """

    def __init__(self, model: EncoderDecoder[Any, Any], source: Vocabulary, target: Vocabulary) -> None:
        self.model = model.eval()
        self.source = source
        self.target = target

    @classmethod
    def load(cls, directory: str | Path) -> Translator:
        """Reads a model directory: ``config.json``, ``model.safetensors``, ``source.model``, ``target.model``.

        Raises:
            RegardError: the directory lacks a file (says which), or a file does not fit the others.
        """
        return cls(*checkpoint.load_model(Path(directory)))

    def translate(
        self, lines: Sequence[str], *, beam: int = 5, normalise: float = 1.0, padding: int = 0
    ) -> list[Translation]:
        """Translates ``lines`` in one batch, with the soft alignment of each.

        ``padding`` puts that many more places behind the longest sentence, for those who want to see that nobody looks.
        """
        full = [n for n, line in enumerate(lines) if line.strip()]
        found = [Translation((), (), "", 0.0, torch.zeros(0, 0)) for _ in lines]
        if not full:
            return found
        ids = self.source.encode([lines[n] for n in full])
        source, lengths = pad(ids)
        source = torch.nn.functional.pad(source, (0, padding), value=PAD)
        best = beam_search(self.model, source, lengths, width=beam, normalise=normalise, unknown=False)
        said, _ = pad([(BOS, *hypothesis.ids[:-1]) for hypothesis in best])
        with torch.no_grad():
            looked = self.model.align(source, lengths, said).mean((1, 2))  # (B, T, S)
        for row, (n, hypothesis) in enumerate(zip(full, best, strict=True)):
            found[n] = Translation(
                source=tuple(self.source.pieces(ids[row])),
                target=tuple(self.target.pieces(hypothesis.ids)),
                text=self.target.decode(hypothesis.ids),
                score=hypothesis.score,
                weights=looked[row, : len(hypothesis.ids), : len(ids[row])].float(),
                on_padding=float(looked[row, : len(hypothesis.ids), len(ids[row]) :].abs().sum(-1).max()),
            )
        return found

    def texts(self, lines: Iterable[str], *, beam: int = 5, normalise: float = 1.0, batch: int = 64) -> Iterator[str]:
        """The translation of each line, in order, ``batch`` lines at a time; an empty line gives an empty one."""
        if batch < 1:
            raise RegardError(f"batch: found {batch}, wanted a whole number of at least 1")
        stream = iter(lines)
        while chunk := list(islice(stream, batch)):
            yield from self._texts(chunk, beam, normalise)

    def _texts(self, lines: list[str], beam: int, normalise: float) -> list[str]:
        full = [n for n, line in enumerate(lines) if line.strip()]
        out = [""] * len(lines)
        ids = self.source.encode([lines[n] for n in full])
        order = sorted(range(len(full)), key=lambda k: len(ids[k]))
        for start in range(0, len(order), 32):  # sentences of like length together
            group = order[start : start + 32]
            source, lengths = pad([ids[k] for k in group])
            best = beam_search(self.model, source, lengths, width=beam, normalise=normalise, unknown=False)
            for k, hypothesis in zip(group, best, strict=True):
                out[full[k]] = self.target.decode(hypothesis.ids)
        return out
