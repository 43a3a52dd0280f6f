"""Links from a local Hugging Face encoder: which words of two sentences stand for each other in its vectors.

The encoder has to know both languages; nothing is trained and nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.align.links import Links
from regard.align.soft.attention import fold
from regard.align.soft.similar import Similarity, named
from regard.errors import RegardError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["Encoder"]

Sentence = Sequence[str]


class Encoder:
    """A model that gives every piece of a sentence a vector, and its tokeniser.

    ``layer`` is the hidden layer that is compared: 0 is the embeddings, 1 the first layer's output. Where left out it
    is the one two thirds up, the 8th of 12, as Jalili Sabet et al. (2020) and Dou & Neubig (2021) have it for
    multilingual BERT.

    >>> encoder = Encoder.load("models/bert-base-multilingual-cased")  # doctest: +SKIP
    >>> encoder.links([["the", "house"]], [["la", "maison"]])[0]  # doctest: +SKIP
    [(0, 0), (1, 1)]
    """

    def __init__(self, model: PreTrainedModel, tokenizer: Any, layer: int | None = None) -> None:
        depth = int(model.config.num_hidden_layers)
        if layer is None:
            layer = max(1, round(2 * depth / 3))
        if not 0 <= layer <= depth:
            raise RegardError(f"layer: found {layer}, the encoder has {depth}; wanted 0 (the embeddings) to {depth}")
        if not getattr(tokenizer, "is_fast", False):
            raise RegardError(
                f"tokenizer: a {type(tokenizer).__name__} does not say which word a piece is of; "
                "load the fast one (the folder needs tokenizer.json)"
            )
        self.model, self.tokenizer, self.layer = model.eval(), tokenizer, layer

    @classmethod
    def load(cls, folder: str | Path, layer: int | None = None) -> Encoder:
        """Reads a folder that ``save_pretrained`` wrote: config, weights and tokeniser. No network is asked.

        Raises:
            RegardError: no such folder, it cannot be read as an encoder, or transformers is not installed.

        >>> Encoder.load("bert-base-multilingual-cased")
        Traceback (most recent call last):
            ...
        regard.errors.RegardError: encoder: found no folder 'bert-base-multilingual-cased', wanted one with a ...
        """
        where = Path(folder)
        if not (where / "config.json").is_file():
            found = f"no config.json in {str(folder)!r}" if where.is_dir() else f"no folder {str(folder)!r}"
            raise RegardError(
                f"encoder: found {found}, wanted one with a model in it; nothing is downloaded here: "
                "save model and tokeniser into a folder with save_pretrained(folder), and name that folder"
            )
        try:
            import transformers
        except ImportError as error:
            raise RegardError("encoder: needs transformers; pip install 'regard[hf]'") from error
        try:
            model = transformers.AutoModel.from_pretrained(where, local_files_only=True, dtype=torch.float32)
            tokenizer = transformers.AutoTokenizer.from_pretrained(where, local_files_only=True)
        except Exception as error:  # whatever transformers meets in the files
            said = " ".join(str(error).split())[:160]
            raise RegardError(
                f"encoder: {where} cannot be read ({type(error).__name__}: {said}); "
                "save model and tokeniser into it again with save_pretrained(folder)"
            ) from error
        return cls(model, tokenizer, layer)

    def links(
        self,
        source: Iterable[Sentence],
        target: Iterable[Sentence],
        *,
        similarity: Similarity | str = "softmax",
        batch: int = 32,
    ) -> Links:
        """Links of pairs of sentences, each a sequence of words: words are linked where any of their pieces are.

        Args:
            source, target: as many sentences each; an empty one gives no links.
            similarity: ``"softmax"`` both ways with a threshold (awesome-align), ``"entmax15"`` both ways, ``"argmax"``
                of both ways (SimAlign), or a :class:`~regard.align.soft.similar.Similarity`.
            batch: sentences of a side that are read at once.

        Raises:
            RegardError: one side has more sentences, or a sentence more pieces than the encoder can read.
        """
        return Links.join(
            Links.above([w.numpy()], _LEAST) for w in self.weights(source, target, similarity=similarity, batch=batch)
        )

    def weights(
        self,
        source: Iterable[Sentence],
        target: Iterable[Sentence],
        *,
        similarity: Similarity | str = "softmax",
        batch: int = 32,
    ) -> Iterator[Tensor]:
        """How strongly the words of each pair look at each other, (I, J); 0 where they are not linked."""
        compare = named(similarity)
        left, right = iter(source), iter(target)
        first = 1
        while chunk := list(islice(left, batch)):
            other = list(islice(right, batch))
            if len(other) < len(chunk):
                raise RegardError(f"target: ends after sentence {first + len(other) - 1}, source goes on")
            sides = (self.vectors(chunk, "source", first), self.vectors(other, "target", first))
            for (x, mine), (y, theirs), s, t in zip(*sides, chunk, other, strict=True):
                yield _sized(fold(compare(x, y), mine, theirs, "max"), len(s), len(t))
            first += len(chunk)
        if next(right, None) is not None:
            raise RegardError(f"source: ends after sentence {first - 1}, target goes on")

    def vectors(
        self, sentences: Sequence[Sentence], name: str = "sentences", first: int = 1
    ) -> list[tuple[Tensor, list[int]]]:
        """Of each sentence its pieces' vectors (pieces, D) at the chosen layer, and the word of each piece."""
        full = [n for n, sentence in enumerate(sentences) if sentence]
        found: list[tuple[Tensor, list[int]]] = [(torch.zeros(0, 1), []) for _ in sentences]
        if not full:
            return found
        given = self.tokenizer(
            [list(sentences[n]) for n in full], is_split_into_words=True, padding=True, return_tensors="pt"
        )
        self._check(given["attention_mask"], full, name, first)
        with torch.no_grad():
            states = self.model(**given, output_hidden_states=True).hidden_states[self.layer]
        for row, n in enumerate(full):
            words = given.word_ids(row)
            kept = [place for place, word in enumerate(words) if word is not None]
            found[n] = states[row, kept].float(), [words[place] for place in kept]
        return found

    def _check(self, attended: Tensor, full: Sequence[int], name: str, first: int) -> None:
        most = min(
            int(getattr(self.model.config, "max_position_embeddings", 0) or 1 << 30),
            int(self.tokenizer.model_max_length),  # RoBERTa's has fewer places than position embeddings
        )
        pieces = attended.sum(-1)
        if int(pieces.max()) > most:
            row = int(pieces.argmax())
            raise RegardError(
                f"{name}: sentence {first + full[row]} has {int(pieces[row])} pieces, the encoder reads at most "
                f"{most}; split it, or leave it out"
            )


_LEAST = torch.finfo(torch.float32).tiny  # any weight at all


def _sized(w: Tensor, rows: int, columns: int) -> Tensor:
    """With rows and columns of 0 for words at the end that the tokeniser left without a piece."""
    return torch.nn.functional.pad(w, (0, columns - w.shape[1], 0, rows - w.shape[0]))
