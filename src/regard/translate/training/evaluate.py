"""BLEU of a model on a parallel text, by sacrebleu, of text that the model generated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from regard.errors import RegardError

__all__ = ["Tokenize", "bleu"]

Tokenize = Literal["13a", "zh", "none", "char", "intl"]


def bleu(hypotheses: Sequence[str], references: Sequence[str], tokenize: Tokenize = "13a") -> float:
    """Corpus BLEU (Papineni et al. 2002), cased, one reference, in [0, 100].

    Args:
        tokenize: sacrebleu's tokeniser: ``13a`` for languages with spaces, ``zh`` for Chinese, ``none`` for text that
            is tokenised already.
    """
    if len(hypotheses) != len(references):
        raise RegardError(f"bleu: found {len(hypotheses)} hypotheses for {len(references)} references, wanted as many")
    if tokenize not in get_args(Tokenize):
        raise RegardError(f"tokenize: found {tokenize!r}, wanted one of {', '.join(get_args(Tokenize))}")
    from sacrebleu.metrics.bleu import BLEU

    # "none" declares text tokenised on purpose; force silences the warning about it.
    return float(BLEU(tokenize=tokenize, force=True).corpus_score(list(hypotheses), [list(references)]).score)
