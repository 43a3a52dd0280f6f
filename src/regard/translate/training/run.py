"""Training a translator: updates that can stop at any moment and go on as if they had not."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.stopping import stop_signals
from regard.translate import checkpoint
from regard.translate.models import architecture, name_of
from regard.translate.models.architecture import EncoderDecoder
from regard.translate.text.batches import Batch, collate, plan
from regard.translate.text.corpus import Corpus, read_parallel
from regard.translate.text.vocabulary import PAD, Vocabulary
from regard.translate.training.evaluate import bleu
from regard.translate.training.loss import smoothed_cross_entropy
from regard.translate.training.progress import Report, Silent
from regard.translate.training.settings import Settings, changed
from regard.translate.translator import Translator

__all__ = ["Outcome", "loss", "train"]

Ids = list[list[int]]


@dataclass(frozen=True)
class Outcome:
    """How a run stands: ``finished``, or stopped by a signal or its time limit with everything saved."""

    finished: bool
    updates: int
    best: float | None
    history: list[dict[str, float]]


@dataclass
class _Position:
    """Where a run is; all of it numbers, so that it can be saved."""

    epoch: int = 0  # epochs done
    batch: int = 0  # batches done in the epoch under way
    updates: int = 0
    summed: float = 0.0  # loss of the epoch under way, summed over batches
    best: float | None = None
    stale: int = 0  # epochs since the best
    seconds: float = 0.0
    finished: bool = False
    history: list[dict[str, float]] = field(default_factory=list)


def loss(model: EncoderDecoder[Any, Any], batch: Batch, smoothing: float = 0.0) -> Tensor:
    """Mean over the target's pieces, padding left out, of -Σ_y q(y) log p(y | y_<i, x); q is 1 at the true piece,
    or spreads ``smoothing`` of it evenly over the vocabulary."""
    hidden = model.hidden(batch.source, batch.source_lengths, batch.previous)
    valid = batch.target != PAD  # (B, T)
    logits = model.vocabulary(hidden[valid])  # (pieces, V)
    return smoothed_cross_entropy(logits, batch.target[valid], smoothing)


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
    with _claim(out):
        run = _Run(corpus, dev, out, settings, start, report)
        deadline = None if minutes is None else time.monotonic() + 60.0 * minutes
        with stop_signals() as stop:
            return run.go(deadline, stop, save_every)


class _Run:
    def __init__(
        self, corpus: Corpus, dev: Corpus, out: Path, settings: Settings, start: Path | None, report: Report
    ) -> None:
        self.settings, self.out, self.report, self.dev = settings, out, report, dev
        begun = None if start is None else checkpoint.digest(start)
        identity = {"settings": settings.to_dict(), "corpus": corpus.digest, "dev": dev.digest, "from": begun}
        _same_run(out, identity, settings)
        state = checkpoint.load_state(out)
        first: EncoderDecoder[Any, Any] | None = None
        if state is None and start is not None:
            first, self.source, self.target = checkpoint.load_model(start)
            _check_sizes(first, settings)
        elif state is None:
            self.source = Vocabulary.train(corpus.source, settings.source_pieces, "source_pieces")
            self.target = Vocabulary.train(corpus.target, settings.target_pieces, "target_pieces")
        else:
            self.source = Vocabulary.load(out / "source.model")
            self.target = Vocabulary.load(out / "target.model")
        self._keep_short(corpus)
        if state is None:  # everything given has proved fit: from here on the directory is this run's
            checkpoint.write_json(out / "run.json", identity)
            checkpoint.save_vocabularies(out, self.source, self.target)
            checkpoint.save_config(out, settings.config(len(self.source), len(self.target)))
        torch.manual_seed(settings.seed)
        self.model = architecture(settings.model).model(settings.config(len(self.source), len(self.target)))
        if first is not None:
            self.model.load_state_dict(first.state_dict())
        self.average = deepcopy(self.model).eval().requires_grad_(False)
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=settings.rate, fused=True)
        self.at = _Position()
        if state is not None:
            self._restore(state)

    def _keep_short(self, corpus: Corpus) -> None:
        source, target = self.source.encode(corpus.source), self.target.encode(corpus.target)
        longest = self.settings.max_length
        kept = [n for n in range(len(corpus)) if max(len(source[n]), len(target[n])) <= longest]
        if not kept:
            raise RegardError(f"max_length: no pair is within {longest} pieces; raise it, or split the sentences")
        self.lines = [corpus.source[n] for n in kept], [corpus.target[n] for n in kept]
        self.ids = [source[n] for n in kept], [target[n] for n in kept]
        dropped = len(corpus) - len(kept)
        self.report.say(
            f"{len(kept):,} pairs; left out {dropped:,} longer than {longest} pieces, "
            f"{corpus.empty:,} with a blank side"
        )

    def go(self, deadline: float | None, stop: list[int], save_every: float) -> Outcome:
        model, at = self.model, self.at
        if at.finished:
            self.report.say(f"finished already: {at.updates:,} updates, best dev BLEU {at.best or 0:.2f}")
            return self._outcome()
        if at.updates:
            self.report.say(f"goes on at update {at.updates:,} (epoch {at.epoch + 1}, batch {at.batch})")
        else:
            self.report.say(f"{model.config.parameters:,} parameters")
            self._save()
        last = time.monotonic()
        while not at.finished:
            source, target = self._pieces(at.epoch)
            lengths = [(len(a), len(b)) for a, b in zip(source, target, strict=True)]
            order = plan(lengths, tokens=self.settings.batch_tokens, seed=self.settings.seed, epoch=at.epoch)
            model.train()
            said, began = 0, time.monotonic()
            while at.batch < len(order):
                members = order[at.batch]
                batch = collate([source[n] for n in members], [target[n] for n in members])
                self._update(batch, at.epoch + at.batch / len(order))
                said += int(batch.target_lengths.sum())
                now = time.monotonic()
                self.report.step(
                    at.epoch + 1, at.batch, len(order), at.summed / at.batch, said / max(now - began, 1e-9)
                )
                if stop or (deadline is not None and now >= deadline):
                    at.seconds += now - last
                    return self._pause("interrupted" if stop else "time is up")
                if now - last >= save_every:
                    at.seconds += now - last
                    last = now
                    self._save()
            at.seconds += time.monotonic() - last
            last = time.monotonic()
            self._close_epoch(len(order))
            at.seconds += time.monotonic() - last
            last = time.monotonic()
            self._save()
        return self._outcome()

    def _pieces(self, epoch: int) -> tuple[Ids, Ids]:
        if self.settings.sample == 0.0 or epoch >= self.settings.epochs - self.settings.plain:
            return self.ids
        drawn = []
        for side, vocabulary in enumerate((self.source, self.target)):
            seed = (self.settings.seed * 10007 + epoch) * 2 + side
            rows = vocabulary.sample(self.lines[side], self.settings.sample, seed)
            longest = self.settings.max_length  # a draw has more pieces than the best reading: fall back to that
            drawn.append([row if len(row) <= longest else best for row, best in zip(rows, self.ids[side], strict=True)])
        return drawn[0], drawn[1]

    def _update(self, batch: Batch, epochs: float) -> None:
        at, settings = self.at, self.settings
        for group in self.optimiser.param_groups:
            group["lr"] = settings.rate * _rate(at.updates, settings.warmup, epochs / settings.epochs)
        bfloat16 = settings.precision == "bfloat16"
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            value = loss(self.model, batch, settings.smoothing)
        self.optimiser.zero_grad(set_to_none=True)
        value.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip)
        if not bool(torch.isfinite(norm)):
            raise RegardError(
                f"rate: the gradient is {float(norm)} at update {at.updates + 1}; "
                f"lower it (found {settings.rate}), and begin again in another --out"
            )
        self.optimiser.step()
        at.updates += 1
        at.batch += 1
        at.summed += float(value.detach())
        keep = min(settings.ema, (1 + at.updates) / (10 + at.updates)) if settings.ema else 0.0
        torch._foreach_lerp_(list(self.average.parameters()), list(self.model.parameters()), 1.0 - keep)

    def _close_epoch(self, batches: int) -> None:
        at, settings = self.at, self.settings
        translator = Translator(self.average, self.source, self.target)
        score = bleu(list(translator.texts(self.dev.source, beam=1, batch=4096)), self.dev.target, settings.tokenize)
        at.epoch += 1
        mean, at.summed, at.batch = at.summed / batches, 0.0, 0
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
            checkpoint.save_model(self.out, self.average.state_dict())  # before the state that claims it
        else:
            at.stale += 1
        self.report.say(
            f"epoch {at.epoch}/{settings.epochs}  updates {at.updates:,}  loss {mean:.3f}  dev BLEU {score:.2f}"
            f"{' (best)' if better else ''}  {at.seconds / 60:.1f} min"
        )
        at.finished = at.epoch >= settings.epochs or (0 < settings.patience <= at.stale)

    def _pause(self, why: str) -> Outcome:
        if self.at.best is None:  # no epoch is done: keep what there is, so that the directory can translate
            checkpoint.save_model(self.out, self.average.state_dict())
        self._save()
        self.report.say(f"{why}: saved at update {self.at.updates:,}; the same command goes on from here")
        return self._outcome()

    def _save(self) -> None:
        checkpoint.save_state(
            self.out,
            {
                "model": self.model.state_dict(),
                "average": self.average.state_dict(),
                "optimiser": self.optimiser.state_dict(),
                "random": torch.get_rng_state(),
                "position": dict(vars(self.at)),
            },
        )

    def _restore(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self.optimiser.load_state_dict(state["optimiser"])
        torch.set_rng_state(state["random"])
        self.at = _Position(**state["position"])

    def _outcome(self) -> Outcome:
        return Outcome(self.at.finished, self.at.updates, self.at.best, list(self.at.history))


def _rate(updates: int, warmup: int, done: float) -> float:
    """The share of the full learning rate: a straight climb, times half a cosine over the share ``done`` of the run."""
    climb = min(1.0, (updates + 1) / warmup) if warmup else 1.0
    return climb * 0.5 * (1.0 + math.cos(math.pi * min(done, 1.0)))


def _same_run(out: Path, identity: dict[str, Any], settings: Settings) -> None:
    """Raises where ``out`` holds something that is not this very run."""
    if not (out / "run.json").exists():
        if any(not path.name.startswith(".") for path in out.iterdir()):
            raise RegardError(f"out: {out} is not empty and holds no run; give a new directory")
        return
    before = checkpoint.read_json(out / "run.json")
    different = changed(before.get("settings", {}), settings)
    if different:
        name, was, now = different
        raise RegardError(
            f"{name}: the run in {out} was begun with {was}, found {now}; give the same, or another --out"
        )
    for name, option in (("corpus", "src/tgt"), ("dev", "dev-src/dev-tgt"), ("from", "from")):
        if before.get(name) != identity[name]:
            raise RegardError(f"{option}: not what the run in {out} was begun with; give that, or another --out")


def _check_sizes(first: EncoderDecoder[Any, Any], settings: Settings) -> None:
    """Raises where a model to begin with has other sizes than those asked for; its dropout is free to change."""
    if name_of(first.config) != settings.model:
        found = name_of(first.config)
        raise RegardError(f"model: found {settings.model}, the one to begin from is a {found}; give --model {found}")
    for name, wanted in settings.sizes.items():
        found = getattr(first.config, name)
        if found != wanted:
            raise RegardError(f"{name}: found {wanted}, the model to begin from has {found}; give --{name} {found}")


@contextmanager
def _claim(out: Path) -> Iterator[None]:
    """Makes ``out`` and holds it for this process alone; a killed process lets go by dying."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = open(out / ".lock", "w")  # noqa: SIM115
    except OSError as error:
        raise RegardError(f"out: cannot make {out}: {error.strerror}; give a directory that can be written") from error
    with lock:
        try:
            import fcntl
        except ImportError:  # not a POSIX system: no such protection
            yield
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RegardError(f"out: another training writes to {out}; wait for it, or give another --out") from error
        yield
