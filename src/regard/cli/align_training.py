"""The training of `regard align`: begun, or gone on with where it was killed, and told as it goes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.align.corpus import Corpus
from regard.align.decode import Believed, believe
from regard.align.pairs import Pairs
from regard.align.prior import read, spelt
from regard.align.recipe import Recipe, Sampling
from regard.align.saved import FILE, Saved, save
from regard.align.train import Iteration, State, begin, train

if TYPE_CHECKING:
    from regard.align.gibbs.sampler import Sampler, Sweep
    from regard.align.ranks import Alone, Ranks

__all__ = ["Run", "Training"]

Array = np.ndarray[Any, Any]

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
        known = self._known()
        digest = corpus.digest() if training.save is not None else ""
        saved = None
        if training.save is not None and (training.save / FILE).exists():
            saved = Saved.of(training.save, "--save")
            saved.match(training.recipe, digest)
        recipe = training.recipe
        with _progress(training.quiet or self.group.rank > 0) as tell:
            if isinstance(recipe, Sampling):
                return self._sampled(recipe, known, digest, saved, tell)

            def each(done: Iteration, state: State) -> None:
                if training.save is not None and self.group.rank == 0:
                    save(training.save, corpus, state.channels, state.done, recipe, digest)
                tell(done.done, done.of, done.model, f"log p a word: {done.forward:.4f}, {done.reverse:.4f}")

            state = begin(corpus, pairs, recipe) if saved is None else saved.resumed(corpus, pairs)
            together = self.group.together
            state = train(
                state, recipe, known=known, classes=self._classes(), threads=self.threads, together=together, each=each
            )  # fmt: skip
        return believe(state.channels, viterbi=recipe.viterbi, threads=self.threads)

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

        def each(sweep: Sweep, sampler: Sampler) -> None:
            if training.save is not None and sweep.done < sweep.of:
                save(training.save, corpus, (), sweep.done, recipe, digest, sampler.state())
            tell(sweep.done, sweep.of, _STAGES[sweep.stage - 1], None)

        drawn.run(threads=self.threads, each=each)
        if training.save is not None:
            found = channels(drawn, threads=self.threads)
            save(training.save, corpus, found, drawn.done, recipe, digest, drawn.state())
        return drawn.believe(threads=self.threads)

    def _classes(self) -> tuple[Array, Array] | None:
        """The word classes of the files of ``--classes``."""
        files = self.training.classes
        if files is None:
            return None
        from regard.align import classes

        return classes.read(files[0], self.corpus.source), classes.read(files[1], self.corpus.target)

    def _known(self) -> Array | None:
        """The pseudo-counts of spelling and of the file of ``--prior`` together."""
        training = self.training
        known = spelt(self.corpus, self.pairs, training.recipe, self.threads)
        if training.prior is None:
            return known
        counts, apart = read(training.prior, self.corpus, self.pairs)
        if apart and not training.quiet:
            print(f"--prior: {apart:,} of its pairs of words never meet in the text", file=sys.stderr)
        return counts if known is None else known + counts


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
