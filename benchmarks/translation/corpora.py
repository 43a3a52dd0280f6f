"""The parallel texts, each parted into what is learnt from, what chooses the weights, and what is asked at the end."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from regard.errors import RegardError, unknown_name
from regard.translate.text.corpus import read_parallel
from regard.translate.training.evaluate import Tokenize

__all__ = ["CORPORA", "Pairs", "Text", "text"]

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Text:
    """A corpus: pairs to train on, to choose by (``dev``) and to be asked (``test``), and how BLEU cuts the target.

    ``pieces`` is the size of either vocabulary, ``longest`` the most pieces a side that is trained on may have.
    """

    train: Pairs
    dev: Pairs
    test: Pairs
    tokenize: Tokenize
    pieces: int
    longest: int

    def quick(self) -> Text:
        """A little of it, to see that it runs."""
        return Text(self.train[:400], self.dev[:20], self.test[:40], self.tokenize, 200, 60)

    def write(self, folder: Path) -> dict[str, Path]:
        """The six files that training and testing read, by name: ``train.src``, ``train.tgt`` and so on."""
        folder.mkdir(parents=True, exist_ok=True)
        found = {}
        for part, pairs in (("train", self.train), ("dev", self.dev), ("test", self.test)):
            for side, name in enumerate(("src", "tgt")):
                path = folder / f"{part}.{name}"
                lines = "".join(f"{pair[side]}\n" for pair in pairs)
                if not path.exists() or path.read_text() != lines:
                    path.write_text(lines)
                found[f"{part}.{name}"] = path
        return found


def parted(pairs: Pairs, held: int) -> tuple[Pairs, Pairs, Pairs]:
    """Training, dev and test pairs: a source text is in one part alone, chosen by its SHA-256, two shares in ``held``
    held back for dev and test.

    >>> train, dev, test = parted([(f"line {n}", "") for n in range(1000)], 20)
    >>> len(train), len(dev), len(test)
    (889, 50, 61)
    """
    parts: tuple[Pairs, Pairs, Pairs] = ([], [], [])
    for pair in pairs:
        drawn = int.from_bytes(sha256(pair[0].encode()).digest()[:8], "big") % held
        parts[{0: 1, 1: 2}.get(drawn, 0)].append(pair)
    return parts


def _read(source: str, target: str) -> Pairs:
    folder = Path(os.environ.get("REGARD_DATA") or "../shared/data")
    if not folder.is_dir():
        raise RegardError(f"--corpus: there is no folder {str(folder)!r}; REGARD_DATA names the folder of corpora")
    corpus = read_parallel(folder / source, folder / target)
    return list(zip(corpus.source, corpus.target, strict=True))


def _split(folder: str, names: tuple[str, str, str], a: str, b: str) -> tuple[Pairs, Pairs, Pairs]:
    train, dev, test = (_read(f"{folder}/{name}.{a}", f"{folder}/{name}.{b}") for name in names)
    return train, dev, test


def _multi30k(target: str) -> Text:
    """Captions, lower-cased and tokenised; about 13 words (Elliott et al. 2016, 2017)."""
    parts = _split("multi30k", ("train", "val", "test_2016_flickr"), "en", target)
    return Text(*parts, tokenize="none", pieces=3500, longest=80)


def _tatoeba(target: str, raw: str, tokenize: Tokenize) -> Text:
    """Everyday sentences of few words."""
    names = ("train", "valid", "test")
    parts = _split(f"tatoeba-en-{target}", names, f"{raw}en", f"{raw}{target}")
    return Text(*parts, tokenize=tokenize, pieces=3500, longest=80)


def _debian() -> Text:
    """Descriptions of software packages, from a name to a paragraph of a hundred words; the split is ours."""
    train, dev, test = parted(_read("debian-ddtp/en-fr.en", "debian-ddtp/en-fr.fr"), 14)
    return Text(train, dev[:1000], test, tokenize="13a", pieces=6000, longest=160)


CORPORA: dict[str, Callable[[], Text]] = {
    "multi30k-en-fr": lambda: _multi30k("fr"),
    "multi30k-en-de": lambda: _multi30k("de"),
    "tatoeba-en-fr": lambda: _tatoeba("fr", "", "13a"),
    "tatoeba-en-zh": lambda: _tatoeba("zh", "raw.", "zh"),
    "debian-en-fr": _debian,
}


def text(name: str) -> Text:
    """The corpus of that name.

    Raises:
        RegardError: there is none (lists those that are), or its files are not there.
    """
    if name not in CORPORA:
        raise unknown_name("--corpus", name, CORPORA)
    return CORPORA[name]()
