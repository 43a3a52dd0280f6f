"""What is looked at in a trained model beside what it gets right: what it writes by itself, where it looked."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from benchmarks.learning.experiment import Exam
from benchmarks.rewriting.models import Translating
from benchmarks.rewriting.task import Rewriting, parts
from benchmarks.translation.scores import Counts
from regard.translate.decoding.beam import beam_search
from regard.translate.text.vocabulary import EOS

__all__ = ["aligned", "exact", "opening", "spoken"]

SEED = 1_000_037  # of questions that no training drew


def spoken(task: Rewriting, lengths: Sequence[int], rows: int, model: nn.Module) -> dict[str, float]:
    """BLEU of what the model writes by itself, greedily and by beam search: nothing true is shown to it."""
    assert isinstance(model, Translating)
    found = {}
    for n in lengths:
        (example,) = Exam(task.at(n), 1, rows, SEED).questions()
        source, _ = parts(example.inputs)
        wanted = [_text(row) for row in task.target(source[:, :-1]).tolist()]
        for name, width in (("greedy", 1), ("beam", 5)):
            said = beam_search(model.model, source, torch.full((rows,), n + 1), width=width)
            found[f"BLEU {n}, {name}"] = Counts.of([_text(each.ids) for each in said], wanted, "none").bleu()
    return found


def aligned(task: Rewriting, lengths: Sequence[int], rows: int, model: nn.Module) -> dict[str, float]:
    """The share of words for which the largest weight lies on the very word they come from, at the worst length."""
    assert isinstance(model, Translating)
    shares = []
    for n in lengths:
        (example,) = Exam(task.at(n), 1, rows, SEED).questions()
        source, previous = parts(example.inputs)
        looked = model.model.align(source, torch.full((rows,), n + 1), previous)[:, 0, 0, :n]  # (B, T, S)
        right = looked.argmax(-1) == task.places(source[:, :-1])
        shares.append(float(right.float().mean()))
    return {"aligned": min(shares)}


def opening(task: Rewriting, length: int, rows: int, model: nn.Module) -> dict[str, float]:
    """The share right among the first three words of targets of that length."""
    (example,) = Exam(task.at(length), 1, rows, SEED).questions()
    first = slice(length + 1, length + 4)
    right = model(example.inputs)[:, first].argmax(-1) == example.targets[:, first]
    return {f"first three of {length}": float(right.float().mean())}


def exact(task: Rewriting, rows: int, model: nn.Module) -> dict[str, float]:
    """The share of targets, as many of each length, that the model says from the first word to the end mark.

    Each piece is asked after the true ones before it. To be right at every one of them is what to say the whole target
    greedily by itself is: as long as it is right, what it has said is what is true.
    """
    right = []
    for n in range(task.lengths[0], task.lengths[1] + 1):
        (example,) = Exam(Rewriting(task.rule, (n, n), task.words), 1, rows, SEED).questions()
        right.append(task.wrong(task.decide(model(example.inputs)), example) == 0)
    return {"exact": float(torch.cat(right).float().mean())}


def _text(ids: Sequence[int]) -> str:
    """Numbers as the words of a text, without the end mark."""
    return " ".join(str(n) for n in ids if n != EOS)
