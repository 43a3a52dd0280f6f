"""The training of `regard align`: begun, or gone on with where it was killed, and told as it goes."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.align.aligner import after_training
from regard.align.corpus import Corpus
from regard.align.decode import Believed
from regard.align.pairs import Pairs
from regard.align.prior import read, spelt
from regard.align.recipe import Recipe, Sampling
from regard.align.saved import FILE, Saved, save
from regard.align.train import Iteration, State, begin, train

if TYPE_CHECKING:
    from regard.align.expect import Channel
    from regard.align.gibbs.sampler import Sampler, Sweep
    from regard.align.ranks import Alone, Ranks

__all__ = ["Run", "Training"]

Array = np.ndarray[Any, Any]

#: Seconds between two savings of a sampler.
_BETWEEN = 1.0
_STAGES = ("ibm1", "hmm", "fertility")


@dataclass(frozen=True)
class Training:
    """What is trained, from what, and where it is kept."""

    recipe: Recipe | Sampling
    save: Path | None
    prior: Path | None
    seed: int
    spool: Path | None
    quiet: bool
    classes: tuple[Path, Path] | None = None


@dataclass(frozen=True)
class Run:
    """A training on a corpus, or on one process's part of it."""

    corpus: Corpus
    pairs: Pairs
    training: Training
    group: Alone | Ranks
    threads: int | None

    def believed(self) -> Iterator[Believed]:
        """What is believed of each block when it is done."""
        training, corpus, pairs = self.training, self.corpus, self.pairs
        known, classes = spelt(corpus, pairs, training.recipe, self.threads), self._classes()
        prior = self._prior()
        if prior is not None:
            known = prior if known is None else known + prior
        digest = "" if training.save is None else _digest(corpus, prior, *(classes or ()))
        saved = None
        if training.save is not None and (training.save / FILE).exists():
            saved = Saved.of(training.save, "--save")
            saved.match(training.recipe, digest)
        recipe = training.recipe
        with _progress(training.quiet or self.group.rank > 0) as tell:
            if isinstance(recipe, Sampling):
                return self._sampled(recipe, known, digest, saved, tell)

            def each(done: Iteration, state: State) -> None:
                if training.save is not None:
                    channels = self._gathered(state.channels)
                    if self.group.rank == 0:
                        save(training.save, corpus, channels, state.done, recipe, digest)
                tell(done.done, done.of, done.model, f"log p a word: {done.forward:.4f}, {done.reverse:.4f}")

            state = begin(corpus, pairs, recipe) if saved is None else saved.resumed(corpus, pairs)
            together = self.group.together
            state = train(
                state, recipe, known=known, classes=classes, threads=self.threads, together=together, each=each
            )  # fmt: skip
            if self.group.size > 1 and recipe.drawn is not None:
                if self.group.rank == 0:
                    print("regard: under torchrun nothing is drawn; links are those of the training", file=sys.stderr)
                recipe = replace(recipe, drawn=None)
            return after_training(
                corpus, state.channels, recipe, known=known, seed=training.seed, threads=self.threads,
                each=lambda sweep: tell(sweep.done, sweep.of, "drawing", None),
            )  # fmt: skip

    def _sampled(
        self, recipe: Sampling, known: Array | None, digest: str, saved: Saved | None, tell: Callable[..., None]
    ) -> Iterator[Believed]:
        from regard.align.gibbs.channels import channels
        from regard.align.gibbs.sampler import Sampler

        training, corpus = self.training, self.corpus
        drawn = Sampler(
            corpus, self.pairs, seed=training.seed, chains=recipe.chains, beliefs=recipe.beliefs, known=known
        )
        if saved is not None:
            drawn.resume(saved.drawn())

        last = time.monotonic()

        def each(sweep: Sweep, sampler: Sampler) -> None:
            nonlocal last
            # A sweep over little text takes less time than the disk, and there are thousands.
            if training.save is not None and sweep.done < sweep.of and time.monotonic() - last > _BETWEEN:
                last = time.monotonic()
                save(training.save, corpus, (), sweep.done, recipe, digest, sampler.state())
            tell(sweep.done, sweep.of, _STAGES[sweep.stage - 1], None)

        drawn.run(threads=self.threads, each=each)
        if training.save is not None:
            found = channels(drawn, threads=self.threads)
            save(training.save, corpus, found, drawn.done, recipe, digest, drawn.state())
        return drawn.believe(threads=self.threads)

    def _gathered(self, channels: tuple[Channel, Channel]) -> tuple[Channel, Channel]:
        """The channels with what each process keeps of its own sentences: where it has climbed to."""
        if self.group.size == 1:
            return channels
        from regard.align.fertility.places import Fertile

        part, made = self.group.part(self.corpus), []
        for channel in channels:
            places = channel.places
            if isinstance(places, Fertile):
                places = replace(places, tops=places.tops.gathered(part, self.group.together))
            made.append(replace(channel, places=places))
        return made[0], made[1]

    def _classes(self) -> tuple[Array, Array] | None:
        """The word classes of the files of ``--classes``."""
        files = self.training.classes
        if files is None:
            return None
        from regard.align import classes

        return classes.read(files[0], self.corpus.source), classes.read(files[1], self.corpus.target)

    def _prior(self) -> Array | None:
        """The pseudo-counts of the file of ``--prior``."""
        training = self.training
        if training.prior is None:
            return None
        counts, apart = read(training.prior, self.corpus, self.pairs)
        if apart and not training.quiet and self.group.rank == 0:
            print(f"--prior: {apart:,} of its pairs of words never meet in the text", file=sys.stderr)
        return counts


def _digest(corpus: Corpus, *told: Array | None) -> str:
    """The same for the same text where the same was told of it."""
    parts = (
        hashlib.blake2b(np.ascontiguousarray(each).data, digest_size=8).hexdigest() for each in told if each is not None
    )
    return "-".join((corpus.digest(), *parts))


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[int, int, str, str | None], None]]:
    """A bar where somebody looks; a line for each iteration that has something to say, anyway."""
    if quiet:
        yield lambda done, of, name, told: None
        return
    from regard.cli.bar import progress

    with progress() as step:
        step(0, 1, "training")

        def tell(done: int, of: int, name: str, told: str | None) -> None:
            step(done, of, name)
            if told is not None:
                print(f"{done:>3}/{of} {name:<8} {told}", file=sys.stderr)

        yield tell
