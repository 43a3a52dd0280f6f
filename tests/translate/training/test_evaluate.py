"""BLEU is sacrebleu's, cased, of one reference."""

from __future__ import annotations

import pytest

from regard.errors import RegardError
from regard.translate.training.evaluate import Tokenize, bleu


@pytest.mark.parametrize("tokenize", ["13a", "zh", "none", "char", "intl"])
def test_the_same_text_is_100(tokenize: Tokenize) -> None:
    assert bleu(["the cat sat on the mat ."], ["the cat sat on the mat ."], tokenize) == pytest.approx(100)


def test_case_counts() -> None:
    assert bleu(["The Cat Sat On The Mat"], ["the cat sat on the mat"]) < 10


def test_chinese_is_counted_by_characters() -> None:
    assert bleu(["猫坐在垫子上。"], ["猫坐在垫子上！"], "zh") > 50
    assert bleu(["猫坐在垫子上。"], ["猫坐在垫子上！"], "none") < 1


def test_bad_input() -> None:
    with pytest.raises(RegardError, match="found 1 hypotheses for 2 references"):
        bleu(["a"], ["a", "b"])
    with pytest.raises(RegardError, match="tokenize: found 'moses'"):
        bleu(["a"], ["a"], "moses")  # type: ignore[arg-type]
