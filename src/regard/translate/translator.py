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
from regard.translate.decoding.beam import Beam
from regard.translate.decoding.decode import decode
from regard.translate.decoding.hypothesis import Hypothesis
from regard.translate.decoding.penalty import Penalty
from regard.translate.decoding.sampling import Sampling
from regard.translate.decoding.words import copied, text_of
from regard.translate.models.encoder_decoder import EncoderDecoder
from regard.translate.text.vocabulary import Vocabulary
from regard.translate.text.words import END

__all__ = ["TOGETHER", "Translation", "Translator"]

TOGETHER = 512  # lines: enough of one length to fill batches, few enough that the first are soon seen


@dataclass(frozen=True)
class Translation:
    """One sentence translated.

    ``source`` holds S pieces and ``target`` T pieces, both closed by ``</s>`` (a target cut at its length limit is
    not), as they stand in the texts, ``▁`` for a space. ``score`` is what the search ranked it by. ``weights`` (T, S)
    is the soft alignment: row i is where the decoder looked before it said piece i, and sums to 1; of a model with
    several looks a step, the mean over so many layers and ``heads``; (0, 0) where looks were not asked for.
    ``on_padding`` is the largest weight that fell behind the sentence's own end, where it is padded; it is 0, or the
    mask is broken. An empty sentence has no pieces, and weights (0, 0).
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    text: str
    score: float
    weights: Tensor
    on_padding: float = 0.0
    heads: tuple[int, int] = (1, 1)


_EMPTY = Translation((), (), "", 0.0, torch.zeros(0, 0))


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
        """Translates ``lines``, with the soft alignment of each; a line's bits are the same whatever is beside it.

        ``padding`` puts that many places behind each sentence, for those who want to see that nobody looks.

        Raises:
            RegardError: the model does not look at the source.
        """
        how = Beam(beam, penalty=Penalty(normalise))
        return [found[0] for found in self.several(lines, how, looking=True, padding=padding)]

    def texts(
        self, lines: Iterable[str], *, beam: int = 5, normalise: float = 1.0, ahead: int = TOGETHER
    ) -> Iterator[str]:
        """The translation of each line, in order; an empty line gives an empty one.

        ``ahead`` lines are read at a time, and those of like length among them go together: few are read sooner, many
        are faster.
        """
        if ahead < 1:
            raise RegardError(f"ahead: found {ahead}, wanted a whole number of at least 1")
        how, stream = Beam(beam, penalty=Penalty(normalise)), iter(lines)
        while chunk := list(islice(stream, ahead)):
            yield from (found[0].text for found in self.several(chunk, how))

    def several(
        self,
        lines: Sequence[str],
        how: Beam | Sampling,
        *,
        prefixes: Sequence[str] | None = None,
        numbers: Sequence[int] | None = None,
        looking: bool = False,
        copying: bool = False,
        padding: int = 0,
    ) -> list[list[Translation]]:
        """The best translations of each line, best first; an empty line has one, which is empty.

        Args:
            how: a :class:`~regard.translate.decoding.beam.Beam` or a
                :class:`~regard.translate.decoding.sampling.Sampling`.
            prefixes: what each translation must begin with, for each line.
            numbers: of each line, what chance is drawn by; its place where left out.
            looking: keeps the soft alignment.
            copying: puts the source word that was looked at most in the place of an unknown word (Luong et al. 2015,
                arXiv:1410.8206), which ``how`` must allow to be said.
            padding: places put behind each sentence.

        Raises:
            RegardError: looks are wanted of a model that has none.
        """
        full = [n for n, line in enumerate(lines) if line.strip()]
        ids = self.source.encode([lines[n] for n in full])
        begun = None if prefixes is None else [prefixes[n] for n in full]
        out = [[_EMPTY] for _ in lines]
        found = decode(
            self.model,
            ids,
            how,
            prefixes=None if begun is None else [each[:-1] for each in self.target.encode(begun)],
            numbers=full if numbers is None else [numbers[n] for n in full],
            looking=looking or copying,
            padding=padding,
        )
        for place, (n, hypotheses) in enumerate(zip(full, found, strict=True)):
            source = (*self.source.spelled(lines[n]), END)
            prefix = [] if begun is None else self.target.spelled(begun[place])
            read = ids[place] if copying else None
            out[n] = [self._translation(source, prefix, hypothesis, read) for hypothesis in hypotheses]
        return out

    def _translation(
        self, source: tuple[str, ...], prefix: list[str], hypothesis: Hypothesis, read: list[int] | None
    ) -> Translation:
        """With the numbers ``read`` of the source's pieces, unknown words are copied from it."""
        looks, S = hypothesis.looks, len(source)
        weights = _EMPTY.weights if looks is None else looks[:, :S]
        target = (*prefix, *self.target.pieces(hypothesis.ids)[len(prefix) :])
        if read is not None:
            target = copied(hypothesis.ids, len(prefix), target, read, source, weights)
        return Translation(
            source=source,
            target=target,
            text=self.target.decode(hypothesis.ids) if not prefix and read is None else text_of(target),
            score=hypothesis.score,
            weights=weights,
            on_padding=0.0 if looks is None else float(looks[:, S:].abs().sum(-1).max()),
            heads=hypothesis.heads,
        )
