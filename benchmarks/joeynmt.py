"""The translator beside JoeyNMT, on one machine: how fast both train and translate; with --corpus both are trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.harness.asked import at_least_one, names, seeds_of
from benchmarks.harness.peers import Missing
from benchmarks.harness.row import Line, Row
from benchmarks.harness.setting import Setting
from regard.errors import RegardError

__all__ = ["learn", "rows", "tasks"]

TITLE = "the translator beside JoeyNMT, one architecture and vocabulary: speed; with --corpus, both are trained"
CORPUS = "multi30k-en-fr"


def learn(
    corpus: str,
    model: str | None = None,
    seeds: str = "1",
    epochs: int = 20,
    logs: Path = Path("runs/translate"),
) -> Callable[[Setting, Callable[[str], None]], Iterator[Row | Line]]:
    """Trains both on ``corpus`` (names with commas between), or the one that ``model`` names, once for every seed.

    Raises:
        RegardError: JoeyNMT or a corpus is not there, a name is not known, or numbers that cannot be.
    """
    from benchmarks.joey.peer import python
    from benchmarks.joey.quality import SIDES, THEIRS, ours, school
    from benchmarks.joey.speed import speeds
    from benchmarks.translation.corpora import text

    at_least_one("--epochs", epochs)
    sides, numbers = names("--model", model, SIDES), seeds_of(seeds)
    texts = {name: text(name) for name in corpus.split(",")}
    try:
        if THEIRS in sides:
            python()
    except Missing as missing:
        raise RegardError(str(missing)) from missing

    def rows(setting: Setting, say: Callable[[str], None]) -> Iterator[Row | Line]:
        for name, whole in texts.items():
            asked = replace(whole.quick(), test=whole.test[:5]) if setting.quick else whole  # it says much, untrained
            folder = logs / name / ("quick" if setting.quick else f"{epochs}-epochs")
            for seed in numbers:
                yield from school(name, sides, asked, seed, epochs, folder, say, setting.quick).found(setting)
            if set(sides) == set(SIDES):
                yield from speeds(setting, asked, folder / ours(numbers[0]))

    return rows


def tasks() -> dict[str, str]:
    """The texts to train on, by name, and what is trained."""
    from benchmarks.joey.quality import SIDES
    from benchmarks.translation.corpora import CORPORA

    return dict.fromkeys(CORPORA, ", ".join(SIDES))


def rows(setting: Setting) -> Iterator[Row]:
    """Speed alone: a training's first updates, and translating by a model that lies in runs/translate."""
    from benchmarks.joey.quality import SHARED
    from benchmarks.joey.speed import speeds
    from benchmarks.translation.corpora import Text, text

    known = sorted(Path("runs/translate", CORPUS).glob(f"*-epochs/{SHARED}*-1/model.safetensors"))
    if setting.quick:  # made up: it is there wherever this is
        words = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
        pairs = [(" ".join(words[n % 8 : n % 8 + 1 + n % 5]), " ".join(words[n % 5 : n % 5 + 2])) for n in range(120)]
        yield from speeds(setting, Text(pairs, pairs[:5], pairs[7:12], "none", 24, 50), None)
        return
    yield from speeds(setting, text(CORPUS), known[0].parent if known else None)
