"""Runs a peer that is a Python package, over both directions, on all lines. Alone in its file: its Python may be
another, which has the peer and not this project.

    python in_python.py PACKAGE MODEL SOURCE TARGET JOINED ITERATIONS

writes the files `forward` and `reverse`, or `own` where the peer makes both directions into one itself.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Links = Iterable[tuple[int, int]]


def thot(model: str, source: str, target: str, joined: str, iterations: int) -> None:
    """Each model starts from the one before it: 1, then 2, or HMM, 3, 4. No word classes are given."""
    package = importlib.import_module("thot.alignment")
    chain = {
        "ibm1": ["Ibm1"],
        "ibm2": ["Ibm1", "Ibm2"],
        "hmm": ["Ibm1", "Hmm"],
        "ibm3": ["Ibm1", "Hmm", "Ibm3"],
        "ibm4": ["Ibm1", "Hmm", "Ibm3", "Ibm4"],
    }[model]

    def trained(left: str, right: str) -> Any:
        found = None
        for name in chain:
            kind = getattr(package, f"{name}AlignmentModel")
            found = kind() if found is None else kind(found)
            if name == "Ibm1":
                found.read_sentence_pairs(left, right)
            found.start_training()
            for _ in range(iterations):
                found.train()
            found.end_training()
        return found

    def links(left: str, right: str, flip: bool) -> Iterable[Links]:
        model = trained(left, right)
        for a, b in zip(_sentences(left), _sentences(right), strict=True):
            matrix = model.get_best_alignment(a, b)[1].to_numpy()
            yield [(j, i) if flip else (i, j) for i, j in zip(*map(list, matrix.nonzero()), strict=True)]

    _write("forward", links(source, target, False))
    _write("reverse", links(target, source, True))


def nltk(model: str, source: str, target: str, joined: str, iterations: int) -> None:
    package = importlib.import_module("nltk.translate")
    kind = getattr(importlib.import_module(f"nltk.translate.{model}"), f"IBMModel{model[-1]}")

    def links(left: str, right: str, flip: bool) -> Iterable[Links]:
        corpus = [package.AlignedSent(b, a) for a, b in zip(_sentences(left), _sentences(right), strict=True)]
        kind(corpus, iterations)
        for each in corpus:
            yield [(j, i) if flip else (i, j) for j, i in each.alignment if i is not None]

    _write("forward", links(source, target, False))
    _write("reverse", links(target, source, True))


def systran(model: str, source: str, target: str, joined: str, iterations: int) -> None:
    package = importlib.import_module("systran_align")
    package.generate_alignment_probabilities(
        joined,
        "forward.table",
        "reverse.table",
        iterations=iterations,
        favor_diagonal=True,
        optimize_tension=True,
        variational_bayes=True,
    )
    aligner = package.Aligner("forward.table", "reverse.table")
    _write("own", (each["alignments"] for each in aligner.align_batch(_sentences(source), _sentences(target))))


def _sentences(path: str) -> list[list[str]]:
    with open(path, "rb") as file:  # bytes are split at ASCII white space alone, as the other aligners do
        return [[word.decode() for word in line.split()] for line in file]


def _write(path: str, sentences: Iterable[Links]) -> None:
    with Path(path).open("w") as file:
        file.writelines(" ".join(f"{i}-{j}" for i, j in sorted(links)) + "\n" for links in sentences)


PEERS: dict[str, Callable[[str, str, str, str, int], None]] = {"thot": thot, "nltk": nltk, "systran": systran}

if __name__ == "__main__":
    name, model, source, target, joined, iterations = sys.argv[1:]
    PEERS[name](model, source, target, joined, int(iterations))
