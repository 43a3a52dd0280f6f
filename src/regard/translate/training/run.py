"""Training a translator: updates that can stop at any moment and go on as if they had not."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

from regard.errors import RegardError
from regard.stopping import stop_signals
from regard.translate import checkpoint
from regard.translate.models import architecture
from regard.translate.models.encoder_decoder import EncoderDecoder
from regard.translate.text.corpus import Corpus, read_parallel
from regard.translate.text.vocabulary import Vocabulary
from regard.translate.training.claim import check_sizes, claim, same_run
from regard.translate.training.exam import Exam
from regard.translate.training.learner import Learner
from regard.translate.training.lessons import Lessons
from regard.translate.training.loss import loss
from regard.translate.training.position import Outcome, Position
from regard.translate.training.progress import Report, Silent
from regard.translate.training.settings import Settings

__all__ = ["Outcome", "loss", "train"]


def train(
    source: Path,
    target: Path,
    dev_source: Path,
    dev_target: Path,
    out: Path,
    settings: Settings | None = None,
    *,
    start: Path | None = None,
    minutes: float | None = None,
    threads: int | None = None,
    save_every: float = 120.0,
    report: Report | None = None,
) -> Outcome:
    """Trains on ``source`` and ``target``, keeps in ``out`` the weights with the best BLEU on the dev text (greedy).

    Where ``out`` holds a run of the same text and settings, that run goes on from its last save; with one thread and
    float32 it ends with the very weights it would have had. A first SIGINT or SIGTERM saves and stops; so does the
    limit of ``minutes``. ``save_every`` is in seconds. ``start`` is the directory of a model whose weights and
    vocabularies the run begins with; its sizes must be those of ``settings``.

    Raises:
        RegardError: bad text or settings, ``out`` holds another run (says what differs), is in use, or cannot be
            written.
    """
    settings = settings or Settings()
    report = report or Silent()
    if threads is not None:
        if threads < 1:
            raise RegardError(f"threads: found {threads}, wanted a whole number of at least 1")
        torch.set_num_threads(threads)
    corpus = read_parallel(source, target)
    dev = read_parallel(dev_source, dev_target)
    with claim(out):
        run = Run(corpus, dev, out, settings, start, report)
        deadline = None if minutes is None else time.monotonic() + 60.0 * minutes
        with stop_signals() as stop:
            return run.go(deadline, stop, save_every)


class Run:
    """One run in its directory: where it is, what it learns from, what learns, what it is tested on."""

    def __init__(
        self, corpus: Corpus, dev: Corpus, out: Path, settings: Settings, start: Path | None, report: Report
    ) -> None:
        self.settings, self.out, self.report = settings, out, report
        begun = None if start is None else checkpoint.digest(start)
        identity = {"settings": settings.to_dict(), "corpus": corpus.digest, "dev": dev.digest, "from": begun}
        same_run(out, identity, settings)
        state = checkpoint.load_state(out)
        first: EncoderDecoder[Any, Any] | None = None
        if state is None and start is not None:
            first, source, target = checkpoint.load_model(start)
            check_sizes(first, settings)
        elif state is None:
            source = Vocabulary.train(corpus.source, settings.source_pieces, "source_pieces")
            target = Vocabulary.train(corpus.target, settings.target_pieces, "target_pieces")
        else:
            source, target = Vocabulary.load(out / "source.model"), Vocabulary.load(out / "target.model")
        self.lessons = Lessons(corpus, source, target, settings)
        report.say(self.lessons.said)
        config = settings.config(len(source), len(target))
        if state is None:  # everything given has proved fit: from here on the directory is this run's
            checkpoint.write_json(out / "run.json", identity)
            checkpoint.save_vocabularies(out, source, target)
            checkpoint.save_config(out, config)
        torch.manual_seed(settings.seed)
        model = architecture(settings.model).model(config)
        if first is not None:
            model.load_state_dict(first.state_dict())
        self.learner = Learner(model, settings)
        self.exam = Exam(dev, source, target, settings)
        self.at = Position()
        if state is not None:
            self.learner.restore(state)
            self.at = Position(**state["position"])

    def go(self, deadline: float | None, stop: list[int], save_every: float) -> Outcome:
        """From where it is to its end, or to a pause."""
        at = self.at
        if at.finished:
            self.report.say(f"finished already: {at.updates:,} updates, best dev BLEU {at.best or 0:.2f}")
            return self._outcome()
        if at.updates:
            self.report.say(f"goes on at update {at.updates:,} (epoch {at.epoch + 1}, batch {at.batch})")
        else:
            self.report.say(f"{self.learner.model.config.parameters:,} parameters")
            self._save()
        last = time.monotonic()
        while not at.finished:
            epoch = self.lessons.epoch(at.epoch)
            self.learner.model.train()
            said, began = 0, time.monotonic()
            while at.batch < len(epoch):
                step = self.learner.update(epoch.batches(at.batch, 1), at.updates + 1, at.epoch + at.batch / len(epoch))
                at.updates += 1
                at.batch += 1
                at.summed += step.summed
                at.pieces += step.pieces
                said += step.pieces
                now = time.monotonic()
                self.report.step(at.epoch + 1, at.batch, len(epoch), at.loss, said / max(now - began, 1e-9))
                if stop or (deadline is not None and now >= deadline):
                    at.seconds += now - last
                    return self._pause("interrupted" if stop else "time is up")
                if now - last >= save_every:
                    at.seconds += now - last
                    last = now
                    self._save()
            at.seconds += time.monotonic() - last
            last = time.monotonic()
            self._close_epoch()
            at.seconds += time.monotonic() - last
            last = time.monotonic()
            self._save()
        return self._outcome()

    def _close_epoch(self) -> None:
        at, settings = self.at, self.settings
        score, mean = self.exam.bleu(self.learner.average), at.loss
        at.turn()
        at.history.append(
            {
                "epoch": at.epoch,
                "updates": at.updates,
                "loss": mean,
                "bleu": score,
                "seconds": round(at.seconds, 1),
            }
        )
        better = at.best is None or score > at.best
        if better:
            at.best, at.stale = score, 0
            checkpoint.save_model(self.out, self.learner.average.state_dict())  # before the state that claims it
        else:
            at.stale += 1
        self.report.say(
            f"epoch {at.epoch}/{settings.epochs}  updates {at.updates:,}  loss {mean:.3f}  dev BLEU {score:.2f}"
            f"{' (best)' if better else ''}  {at.seconds / 60:.1f} min"
        )
        at.finished = at.epoch >= settings.epochs or (0 < settings.patience <= at.stale)

    def _pause(self, why: str) -> Outcome:
        if self.at.best is None:  # no epoch is done: keep what there is, so that the directory can translate
            checkpoint.save_model(self.out, self.learner.average.state_dict())
        self._save()
        self.report.say(f"{why}: saved at update {self.at.updates:,}; the same command goes on from here")
        return self._outcome()

    def _save(self) -> None:
        checkpoint.save_state(self.out, {**self.learner.state(), "position": dict(vars(self.at))})

    def _outcome(self) -> Outcome:
        return Outcome(self.at.finished, self.at.updates, self.at.best, list(self.at.history))
