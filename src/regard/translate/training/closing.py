"""The end of an epoch: the exam, its line in the history, and whether to keep the weights and to stop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from regard.translate import checkpoint
from regard.translate.training.entropy import pointed_out, said
from regard.translate.training.exam import Exam
from regard.translate.training.learner import Learner
from regard.translate.training.position import Position
from regard.translate.training.settings import Settings

__all__ = ["close"]


def close(
    at: Position, learner: Learner, exam: Exam, settings: Settings, out: Path, say: Callable[[str], None]
) -> None:
    """Tests the averaged weights, keeps them in ``out`` where they are the best so far, and moves ``at`` on.

    Raises:
        NotFinite: a weight is not; nothing was kept.
    """
    learner.check()
    line = {"loss": at.loss, **exam.measure(learner.average), "pieces": at.pieces, "learning": round(at.learning, 1)}
    at.turn()
    at.history.append({"epoch": at.epoch, "updates": at.updates, **line, "seconds": round(at.seconds, 1)})
    better = exam.better(line, at.best)
    if better:
        at.best, at.stale = line[exam.counts], 0
        checkpoint.save_model(out, learner.average.state_dict())  # before the state that claims it
    else:
        at.stale += 1
    parts = [
        f"epoch {at.epoch}/{settings.epochs}",
        f"updates {at.updates:,}",
        f"loss {line['loss']:.3f}",
        f"dev loss {line['dev_loss']:.3f}",
        f"dev BLEU {line['bleu']:.2f}{' (best)' if better and settings.stop_on == 'bleu' else ''}",
        said(line["entropy"]),
        f"{at.seconds / 60:.1f} min",
    ]
    if better and settings.stop_on == "loss":
        parts[3] += " (best)"
    say("  ".join(part for part in parts if part))
    for each in pointed_out([past["entropy"] for past in at.history]):
        say(each)
    at.finished = at.epoch >= settings.epochs or (0 < settings.patience <= at.stale)
