"""The translators that come with the package: they are whole, small, and say something fair."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from regard.errors import RegardError
from regard.translate import shipped
from regard.translate.training.evaluate import Tokenize, bleu
from regard.translate.translator import Translator


@pytest.fixture(scope="module")
def french() -> Translator:
    return shipped.load("fr")


@pytest.mark.parametrize("to", shipped.LANGUAGES)
def test_a_model_is_whole_and_below_12_megabytes(to: str) -> None:
    directory = shipped.directory(to)
    names = {path.name for path in directory.iterdir()}
    assert names == {"config.json", "model.safetensors", "source.model", "target.model", "CARD.md"}
    assert sum(path.stat().st_size for path in directory.iterdir()) < 12_000_000
    card = (directory / "CARD.md").read_text(encoding="utf-8")
    for wanted in ("CC BY 2.0 FR", "Debian", "scripts/train_shipped.sh", "BLEU", "seed"):
        assert wanted in card


def test_the_cat_sits_where_a_human_would_look(french: Translator) -> None:
    found = french.translate(["The cat sat on the mat."])[0]
    source, target = list(found.source), list(found.target)
    assert "▁chat" in target
    looked = found.weights[target.index("▁chat")]
    assert source[int(looked.argmax())] == "▁cat"
    assert found.on_padding == 0.0


def test_the_cat_stands_in_the_training_text_four_times(corpus: Callable[[str], Path]) -> None:
    lines = (corpus("tatoeba-en-fr") / "train.en").read_text(encoding="utf-8").split("\n")
    assert lines.count("The cat sat on the mat.") == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("to", "folder", "source", "target", "tokenize", "least"),
    [
        ("fr", "tatoeba-en-fr", "test.en", "test.fr", "13a", 36.0),
    ],
)
def test_bleu_on_the_test_text(
    to: str,
    folder: str,
    source: str,
    target: str,
    tokenize: Tokenize,
    least: float,
    corpus: Callable[[str], Path],
) -> None:
    texts = [(corpus(folder) / name).read_text(encoding="utf-8").splitlines() for name in (source, target)]
    assert bleu(list(shipped.load(to).texts(texts[0])), texts[1], tokenize) >= least


def test_a_language_that_is_not_shipped() -> None:
    with pytest.raises(RegardError, match="to: unknown name 'de'"):
        shipped.load("de")
