"""Translators compared, from one fixed vector to attention: with --corpus, they are trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.harness.asked import at_least_one, names, seeds_of
from benchmarks.harness.row import Line, Row, Spot
from benchmarks.harness.setting import Setting

__all__ = ["learn", "rows", "tasks"]

TITLE = "translators: BLEU and chrF overall and by sentence length, speed of training; with --corpus, they are trained"


def learn(
    corpus: str,
    model: str | None = None,
    seeds: str = "1",
    epochs: int = 20,
    logs: Path = Path("runs/translate"),
) -> Callable[[Setting, Callable[[str], None]], Iterator[Row | Line | Spot]]:
    """Trains ``model`` on ``corpus`` (names with commas between; all models when None), once for every seed.

    Raises:
        RegardError: a name that is not known, a corpus that is not there, or numbers that cannot be.
    """
    from benchmarks.translation.comparison import compare
    from benchmarks.translation.entrants import ENTRANTS

    at_least_one("--epochs", epochs)
    models = names("--model", model, ENTRANTS)
    return compare(corpus.split(","), models, seeds_of(seeds), epochs, logs)


def tasks() -> dict[str, str]:
    """The texts to train on, by name, and the models."""
    from benchmarks.translation.corpora import CORPORA
    from benchmarks.translation.entrants import ENTRANTS

    return dict.fromkeys(CORPORA, ", ".join(ENTRANTS))


def rows(setting: Setting) -> Iterator[Row]:
    """Nothing is trained where no corpus is named: that takes hours."""
    yield Row("translators", "", "BLEU", problem="--corpus names what to train on, as multi30k-en-fr")
