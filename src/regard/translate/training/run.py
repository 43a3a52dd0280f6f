"""Training a translator: updates that can stop at any moment and go on as if they had not."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import torch

from regard.errors import RegardError
from regard.stopping import stop_signals
from regard.translate import checkpoint
from regard.translate.models import architecture
from regard.translate.text.corpus import Corpus, read_parallel
from regard.translate.training.begun import begun
from regard.translate.training.broken import NotFinite
from regard.translate.training.claim import claim
from regard.translate.training.closing import close
from regard.translate.training.curves import check_plot, draw
from regard.translate.training.device import device_of
from regard.translate.training.events import Events, Nowhere, TensorBoard, check_events
from regard.translate.training.exam import Exam, best_of
from regard.translate.training.learner import Learner
from regard.translate.training.lessons import Lessons
from regard.translate.training.loss import loss
from regard.translate.training.position import Outcome, Position
from regard.translate.training.progress import Pace, Report, Silent, Standing
from regard.translate.training.ranks import Alone, Elsewhere, Ranks, ranks, share
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
    device: str = "cpu",
    save_every: float = 120.0,
    events: Path | None = None,
    plot: Path | None = None,
    report: Report | None = None,
) -> Outcome:
    """Trains on ``source`` and ``target``, keeps in ``out`` the weights that do best on the dev text, by
    ``settings.stop_on``: BLEU of greedy translations, or the loss.

    Where ``out`` holds a run of the same text and settings, that run goes on from its last save; with one thread and
    float32 it ends with the very weights it would have had. A first SIGINT or SIGTERM saves and stops; so does the
    limit of ``minutes``. ``save_every`` is in seconds. ``start`` is the directory of a model whose weights and
    vocabularies the run begins with; its sizes must be those of ``settings``. ``device`` is cpu, cuda, or auto: a GPU
    where there is one. ``events`` is a directory for TensorBoard, ``plot`` a picture (svg, png, pdf) of the entropy of
    every look at the source, drawn anew at the end of each epoch.

    In several processes that ``torchrun`` started, each learns from a share of every update's pairs; without dropout
    the run is that of one process, to rounding. The first one tests, saves and reports.

    Raises:
        RegardError: bad text or settings, ``out`` holds another run (says what differs), is in use, or cannot be
            written; a number was not finite (says which tensor has it, in which update and on which lines).
    """
    given = settings or Settings()

    def read() -> tuple[torch.device, Corpus, Corpus]:
        if threads is not None:
            if threads < 1:
                raise RegardError(f"threads: found {threads}, wanted a whole number of at least 1")
            torch.set_num_threads(threads)
        if events is not None:
            check_events()
        if plot is not None:
            check_plot(plot)
        return device_of(device, given.precision), read_parallel(source, target), read_parallel(dev_source, dev_target)

    with ranks() as group:
        where, corpus, dev = group.agreed(read)
        group.alike((corpus.digest, dev.digest), "src/tgt/dev-src/dev-tgt")
        first = group.rank == 0
        with claim(out) if first else nullcontext():
            told = (report or Silent(), events, plot) if first else (Silent(), None, None)
            run = Run(corpus, dev, out, given, start, group.device(where), (source, target), *told, group)
            deadline = None if minutes is None else time.monotonic() + 60.0 * minutes
            with stop_signals() as stop:
                return run.go(deadline, stop, save_every)


class Run:
    """One run in its directory: where it is, what it learns from, what learns, what it is tested on."""

    def __init__(
        self,
        corpus: Corpus,
        dev: Corpus,
        out: Path,
        settings: Settings,
        start: Path | None,
        device: torch.device,
        files: tuple[Path, Path],
        report: Report,
        events: Path | None,
        plot: Path | None,
        group: Alone | Ranks,
    ) -> None:
        self.settings, self.out, self.report, self.ranks = settings, out, report, group
        identity = {
            "format": checkpoint.FORMAT,
            "settings": settings.to_dict(),
            "corpus": corpus.digest,
            "dev": dev.digest,
            "from": group.agreed(lambda: None if start is None else checkpoint.digest(start)),
        }
        found = group.given(lambda: begun(out, identity, corpus, settings, start))
        source, target = found.vocabularies
        self.lessons = group.agreed(lambda: Lessons(corpus, source, target, settings, files))
        report.say(self.lessons.said)
        config = settings.config(len(source), len(target))
        if found.state is None and group.rank == 0:  # all that is given has proved fit: the directory is this run's
            checkpoint.write_json(out / "run.json", identity)
            checkpoint.save_vocabularies(out, source, target)
            checkpoint.save_config(out, config)
        torch.manual_seed(settings.seed)
        model = architecture(settings.model).model(config)
        if found.weights is not None:
            model.load_state_dict(found.weights)
        self.learner = Learner(model, settings, device, group)
        self.exam = Exam(dev, source, target, settings)
        self.at = Position()
        self.told: Path | None = events
        self.events: Events = Nowhere()
        self.plot, self._last, self._safe, self._met = plot, time.monotonic(), 0, list[list[int]]()
        if found.state is not None:
            self.learner.restore(found.state)
            self.at = Position(**found.state["position"])
            self._safe = self.at.updates

    def go(self, deadline: float | None, stop: list[int], save_every: float) -> Outcome:
        """From where it is to its end, or to a pause.

        Raises:
            RegardError: a number was not finite; says which, and what the directory holds.
        """
        at = self.at
        if at.finished:
            self.report.say(f"finished already: {at.updates:,} updates, best {best_of(self.settings, at.best)}")
            return self._outcome()
        if at.updates:
            self.report.say(f"goes on at update {at.updates:,} (epoch {at.epoch + 1}, batch {at.batch})")
        else:
            self.report.say(f"{self.learner.model.config.parameters:,} parameters")
            self.ranks.given(self._save)
        if self.told is not None:
            self.events = TensorBoard(self.told, at.updates)
        try:
            return self._until(deadline, stop, save_every)
        except NotFinite as found:
            raise self._broken(found) from None
        finally:
            self.events.close()

    def _until(self, deadline: float | None, stop: list[int], save_every: float) -> Outcome:
        at, settings = self.at, self.settings
        self._last = saved = time.monotonic()
        pace: Pace | None = None
        while not at.finished:
            epoch = self.lessons.epoch(at.epoch)
            self.learner.model.train()
            said, began = 0, time.monotonic()
            while at.batch < len(epoch):
                self._met = epoch.order[at.batch : at.batch + settings.accumulate]
                batches = epoch.batches(share(self._met, self.ranks.rank, self.ranks.size))
                start = time.monotonic()
                step = self.learner.update(batches, at.updates + 1, at.epoch + at.batch / len(epoch))
                at.updates += 1
                at.batch += len(self._met)
                at.summed += step.summed
                at.pieces += step.pieces
                said += step.pieces
                now = time.monotonic()
                at.learning += now - start
                speed = said / max(now - began, 1e-9)
                standing = Standing(at.epoch + 1, settings.epochs, at.batch, len(epoch), at.loss, speed)
                pace = pace or Pace(standing.share, now)
                self.report.step(replace(standing, left=pace.left(standing.share, now)))
                self.events.update(at.updates, step, speed)
                late = deadline is not None and now >= deadline and self.ranks.rank == 0  # one clock for all
                if self.ranks.total(bool(stop) or late):
                    return self._pause("time is up" if late and not stop else "interrupted")
                if now - saved >= save_every:
                    saved = now
                    if self.ranks.rank == 0:
                        self._save()
            at = self.at = self.ranks.given(self._close)
        return self._outcome()

    def _close(self) -> Position:
        """The end of an epoch."""
        self._tick()
        close(self.at, self.learner, self.exam, self.settings, self.out, self.report.say)
        self._save()
        checkpoint.write_json(self.out / "history.json", {"epochs": self.at.history})
        self.events.epoch(self.at.history[-1])
        self._draw()
        return self.at

    def _tick(self) -> None:
        """Counts the seconds since it was last called."""
        now = time.monotonic()
        self.at.seconds += now - self._last
        self._last = now

    def _pause(self, why: str) -> Outcome:
        self.ranks.given(lambda: self._put_down(why))
        return self._outcome()

    def _put_down(self, why: str) -> None:
        if self.at.best is None:  # no epoch is done: keep what there is, so that the directory can translate
            self._keep()
        self._save()
        self.report.say(f"{why}: saved at update {self.at.updates:,}; the same command goes on from here")

    def _keep(self) -> None:
        self.learner.check()
        checkpoint.save_model(self.out, self.learner.average.state_dict())

    def _save(self) -> None:
        """What was learnt and told so far is on the disk; never a weight that is not finite."""
        self.learner.check()
        self._tick()
        self.events.flush()  # first: of a step that is told and not saved, the next run says that it never was
        checkpoint.save_state(self.out, {**self.learner.state(), "position": dict(vars(self.at))})
        self._safe = self.at.updates

    def _draw(self) -> None:
        history = [line["entropy"] for line in self.at.history]
        if self.plot is not None and history[-1]:
            draw(self.plot, history)

    def _broken(self, found: NotFinite) -> RegardError:
        """The error for it; what was learnt before is saved, where that itself is sound."""
        if self.ranks.rank:
            return Elsewhere("the first process tells it")
        try:
            if self.at.best is None:
                self._keep()
            self._save()
        except NotFinite:  # the weights themselves: what was saved last stands
            pass
        met = share(self._met, found.rank, self.ranks.size)
        start = f"--from {self.out} and " if (self.out / "model.safetensors").exists() else ""
        return RegardError(
            f"rate: update {self.at.updates + 1} met a number that is not finite, first in {found.what}"
            f"{self.lessons.where(self._met if found.batch is None else met[found.batch : found.batch + 1])}; "
            f"that update was not made, {self.out} holds update {self._safe}: lower --rate (found "
            f"{self.settings.peak:g}) or --clip (found {self.settings.clip:g}), or look at those lines, and begin "
            f"with {start}another --out"
        )

    def _outcome(self) -> Outcome:
        return Outcome(self.at.finished, self.at.updates, self.at.best, list(self.at.history))
