"""A vocabulary: text to piece numbers and back, by SentencePiece."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Iterable, Sequence
from math import exp
from pathlib import Path
from typing import Any, Literal

from regard.errors import RegardError

__all__ = ["BOS", "EOS", "PAD", "UNK", "Kind", "Vocabulary"]

Kind = Literal["unigram", "bpe", "char", "word"]

PAD, UNK, BOS, EOS = 0, 1, 2, 3


class Vocabulary:
    """Pieces numbered ``0 .. size - 1``; 0 to 3 are padding, unknown, begin and end.

    Of four kinds: the subwords that a unigram model finds likeliest (Kudo 2018), pairs merged from the commonest on
    (``bpe``, Sennrich et al. 2016), characters, and words. Text is taken as it stands (the corpus is NFC already);
    nothing is folded, so what comes out of ``decode`` has the case, the accents and the full-width marks that the
    training text had.
    """

    def __init__(self, model: bytes) -> None:
        import sentencepiece

        if not model:
            raise RuntimeError("a model of no bytes")  # SentencePiece would take it, and know nothing
        self.model = model
        self._processor: Any = sentencepiece.SentencePieceProcessor(model_proto=model)
        self._log_p = [float(self._processor.get_score(i)) for i in range(len(self))]
        self._mute = {PAD, UNK, BOS, EOS, int(self._processor.piece_to_id("▁"))}

    @classmethod
    def train(cls, lines: Iterable[str], size: int, name: str = "vocabulary", kind: Kind = "unigram") -> Vocabulary:
        """Learns ``size`` pieces from ``lines``; the same lines always give the same bytes.

        Of characters and of words it learns the ``size`` commonest, fewer where the text has no more.

        Raises:
            RegardError: the text cannot fill ``size`` pieces, or ``size`` cannot hold its characters.
        """
        import sentencepiece

        out = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(lines),
                model_writer=out,
                vocab_size=size,
                model_type=kind,
                hard_vocab_limit=kind in ("unigram", "bpe"),
                character_coverage=0.9998,
                normalization_rule_name="identity",
                byte_fallback=False,
                pad_id=PAD,
                unk_id=UNK,
                bos_id=BOS,
                eos_id=EOS,
                unk_surface="",
                num_threads=1,
                minloglevel=2,
                max_sentence_length=1 << 24,  # bytes; it would skip longer ones without a word
            )
        except RuntimeError as error:
            most = re.search(r"value <= (\d+)", str(error))
            least = re.search(r"required_chars[^0-9]*(\d+)|(\d+) vs", str(error))
            if most:
                wanted = f"this text gives at most {most.group(1)} pieces; ask for that many or give more text"
            elif least:
                wanted = "the text has more characters than that; ask for a larger vocabulary"
            else:
                wanted = f"SentencePiece says: {' '.join(str(error).split())[-160:]}"
            raise RegardError(f"{name}: {size} pieces cannot be learnt: {wanted}") from error
        return cls(out.getvalue())

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Reads a SentencePiece model from ``path``."""
        try:
            return cls(Path(path).read_bytes())
        except (OSError, RuntimeError) as error:
            raise RegardError(f"vocabulary: {path} is not a readable SentencePiece model: {error}") from error

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """The most probable pieces of each line, closed by ``EOS``."""
        return [[*ids, EOS] for ids in self._processor.encode(list(lines), num_threads=1)]

    def knows(self, ids: Sequence[int]) -> bool:
        """Whether a piece among ``ids`` says something: is neither special nor a bare space."""
        return not self._mute.issuperset(ids)

    def sample(self, lines: Sequence[str], alpha: float, seed: int, best: int = 8) -> list[list[int]]:
        """Pieces of each line drawn from its ``best`` likeliest readings, P ∝ P(reading)^alpha, closed by ``EOS``.

        Subword regularisation (Kudo 2018). A pure function of its arguments, in any process: SentencePiece's own
        sampling is not, its generator starts elsewhere in every process whatever its seed.

        Raises:
            RegardError: the vocabulary is of another kind than unigram, by which a line has one reading.
        """
        draw = random.Random(seed)
        drawn = []
        try:
            found = self._processor.nbest_encode_as_ids(list(lines), best)
        except RuntimeError as error:
            raise RegardError(
                "sample: only pieces of a unigram model have several readings; give --sample 0, or --pieces unigram"
            ) from error
        for readings in found:
            log_p = [alpha * sum(self._log_p[i] for i in ids) for ids in readings]
            top = max(log_p)
            drawn.append([*draw.choices(readings, [exp(x - top) for x in log_p])[0], EOS])
        return drawn

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ``ids``; padding, begin and end say nothing."""
        return str(self._processor.decode([int(i) for i in ids if int(i) not in (PAD, BOS, EOS)])).strip()

    def spelled(self, line: str) -> list[str]:
        """The pieces of a line, as :meth:`encode` cuts it, as they stand in it: unknown ones too."""
        return [str(piece) for piece in self._processor.encode(line, out_type=str)]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces as written, ``▁`` marking the start of a word."""
        return [str(self._processor.id_to_piece(int(i))) for i in ids]
