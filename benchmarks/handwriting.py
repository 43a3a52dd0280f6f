"""Handwriting synthesis (Graves 2013) on letters that are drawn one after the other by a hand that is not steady.

Lines of 3 to 6 letters are learnt. The exam has other lines of that length, and lines of 8 to 12, longer than any that
were seen. The arm that must fall behind is the same network whose window has no text to read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.harness.row import Drawing, Goal, Row, at_least, at_most
from benchmarks.harness.setting import Setting

if TYPE_CHECKING:
    from benchmarks.hand.training import Learner

TITLE = "handwriting synthesis, three seeds: the way of the window, nats a point with and without it, the pen's density"

LONGER, NONE = ", longer lines", (None, None, None)
WORDS = [("regard", 0.0), ("attention", 0.0), ("reading", 0.0), ("attention", 1.0)]


def rows(setting: Setting) -> Iterator[Row | Drawing]:
    """The worst of the seeds counts; the picture is of the first one."""
    import torch

    from benchmarks.hand.drawing import draw_words
    from benchmarks.hand.looks import counted, way, whole
    from benchmarks.hand.training import Recipe, trained
    from regard.memory.tasks.pen import Pen
    from regard.nn import PenMixture

    recipe = Recipe(steps=2, batch=2, hidden=5, mixtures=2) if setting.quick else Recipe()
    pen, count = Pen(), setting.size(256, quick=3)
    lines = pen.draw(count, torch.Generator().manual_seed(1_000_003))
    longer = Pen(lengths=(8, 12)).draw(count, torch.Generator().manual_seed(1_000_004))
    learners: list[Learner] = []
    blind: list[Learner] = []
    for seed in range(setting.size(3, quick=1)):
        learners.append(trained(pen, recipe, seed))
        blind.append(trained(pen, recipe, seed, reads=False))
    judged = partial(_row, setting)
    untrained = way(trained(pen, replace(recipe, steps=0), 0), lines)
    start = f"before training {untrained.spearman:.4f}, since it moves on"
    for name, asked, goals in (("", lines, (at_least(0.95), at_most(0.2), at_most(0.25))), (LONGER, longer, NONE)):
        ways = [way(learner, asked) for learner in learners]
        found, note = [each.spearman for each in ways], f"{ways[0].highest:.4f} at most"
        note = note if name else f"{note}; {start}"
        yield judged(f"place of the window and the letter{name}", "Spearman", min(found), found, goals[0], note)
        found, note = [each.off for each in ways], "" if name else f"before training {untrained.off:.2f}"
        yield judged(f"how far it is from the letter{name}", "letters", max(found), found, goals[1], note)
        found, note = [each.back for each in ways], f"it falls at {max(each.falls for each in ways):.1%} of the steps"
        yield judged(f"furthest back from where it had been{name}", "letters", max(found), found, goals[2], note)
    with torch.no_grad():
        seen, unseen = ([float(each.nats(lines)) for each in group] for group in (learners, blind))
    note = "with it and without: " + ", ".join(f"{a:.2f} and {b:.2f}" for a, b in zip(seen, unseen, strict=True))
    gains = [b - a for a, b in zip(seen, unseen, strict=True)]
    yield judged("nats a point that the window saves", "nats", min(unseen) - max(seen), gains, at_least(0.2), note)
    far = []
    for learner in learners:
        made = learner.followed(lines).pen
        each = [PenMixture(*(part[0, t] for part in made)) for t in range(0, 12, 3)]
        far.append(max(abs(whole(pen_of, setting.size(1201, quick=31)) - 1) for pen_of in each))
    yield judged("the pen's density, its sum over the plane", "from 1", max(far), far, at_most(1e-3))
    for name, asked in (("", lines), (LONGER, longer)):
        shares = [100 * counted(learner, pen, asked, seed) for seed, learner in enumerate(learners)]
        yield judged(f"written with the letters' number of points{name}", "% of texts", min(shares), shares)
    yield Drawing(partial(draw_words, learners[0].network, pen, WORDS))


def _row(
    setting: Setting, work: str, unit: str, value: float, found: list[float], goal: Goal | None = None, note: str = ""
) -> Row:
    """The worst of the seeds, and the range of all."""
    return Row(work, "", unit, value, min(found), max(found), rounds=len(found), goal=goal, judged=setting.judged,
               note=note)  # fmt: skip
