"""The corpora: training text and the test pairs after it, lower-cased, with the gold links of the last lines."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from benchmarks.harness.peers import Missing

__all__ = ["TEXTS", "Corpus", "Text", "data", "lay", "write"]

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Corpus:
    """Two files of as many lines, the file that has both with `` ||| `` between, and the gold of the last lines."""

    name: str
    source: Path
    target: Path
    joined: Path
    gold: Path
    pairs: int


@dataclass(frozen=True)
class Text:
    """What a corpus is made of: files of both languages in `folder/part.language`, and which of them have gold."""

    name: str
    source: str
    target: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    head: int | None = None

    def lines(self, language: str) -> Iterator[str]:
        for part in self.train:
            yield from islice(_lines(part, language), self.head)
        for part in self.test:
            yield from _lines(part, language)

    def gold(self) -> Iterator[str]:
        for part in self.test:
            yield from _lines(part, f"{self.source}-{self.target}.gold")


#: Text is that of the measured peers: other than the Hansards', it is of another domain than the gold.
TEXTS = (
    Text("Hansards 1,000", "en", "fr", ("hansards-en-fr/train",), ("hansards-en-fr/test",), 1_000),
    Text("Hansards 10,000", "en", "fr", ("hansards-en-fr/train",), ("hansards-en-fr/test",), 10_000),
    Text("Hansards 100,000", "en", "fr", ("hansards-en-fr/train",), ("hansards-en-fr/test",), 100_000),
    Text("zh–en", "zh", "en", ("tatoeba-en-zh/train",), ("tsinghua-zh-en/test",)),
    Text("ja–en", "ja", "en", ("tanaka-en-ja/train",), ("kftt-ja-en/test",)),
    Text("en–cs", "en", "cs", ("multi30k/train",), ("czenali-en-cs/train", "czenali-en-cs/valid")),
    Text("de–en", "de", "en", ("onmt-wmt-en-de/train", "multi30k/train"), ("bicici-de-en/test",)),
)


def data() -> Path:
    """The folder of corpora: `REGARD_DATA`, or `../shared/data` beside the checkout."""
    named = os.environ.get("REGARD_DATA")
    return Path(named) if named else ROOT.parent / "shared" / "data"


def lay(text: Text, folder: Path) -> Corpus:
    """Writes the corpus into `folder`; raises `Missing` where a file of it is not there."""
    gold = folder / "gold"
    gold.write_text("".join(text.gold()), encoding="utf-8")
    return write(text.name, folder, zip(text.lines(text.source), text.lines(text.target), strict=True), gold)


def write(name: str, folder: Path, pairs: Iterable[tuple[str, str]], gold: Path) -> Corpus:
    """The files of `pairs`, lines that end in a newline, beside the gold of the last ones."""
    corpus = Corpus(name, folder / "source", folder / "target", folder / "joined", gold, 0)
    count = 0
    with (
        corpus.source.open("w", encoding="utf-8", newline="\n") as source,
        corpus.target.open("w", encoding="utf-8", newline="\n") as target,
        corpus.joined.open("w", encoding="utf-8", newline="\n") as joined,
    ):
        for left, right in pairs:
            source.write(left)
            target.write(right)
            joined.write(f"{left.rstrip()} ||| {right}")
            count += 1
    return Corpus(name, corpus.source, corpus.target, corpus.joined, gold, count)


def _lines(part: str, ending: str) -> Iterator[str]:
    """The lines of `part.ending`, lower-cased, split at newlines alone."""
    path = data() / f"{part}.{ending}"
    if not path.exists():
        raise Missing(f"corpus {part!r} is not in {data()}; REGARD_DATA names the folder of corpora")
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line.lower()
