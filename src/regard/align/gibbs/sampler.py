"""The sampling aligner: several chains in both directions, sweep by sweep, and what they believe in the end.

Two schemes, chosen by the size of the text alone, so that the same seed gives the same links on any machine:

- A text of up to ``LIVE`` cells is sampled exactly: every chain in every direction is one task, its counts follow each
  sentence.
- In a larger one, counts stand still for a block of sentences (a 32nd of the text), apart from what each sentence
  changes within itself, and are brought up to date after it: the sentences of a block may then be drawn by any number
  of threads. This is the approximation of Newman et al. (2009, "AD-LDA"). Chains follow one another, so that memory
  holds one chain's counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.align.corpus import Corpus
from regard.align.decode import Believed, hard
from regard.align.gibbs.beliefs import Beliefs, masses
from regard.align.gibbs.beliefs import sweeps as usual
from regard.align.gibbs.draw import scatter, sweep
from regard.align.gibbs.marginals import marginals
from regard.align.gibbs.tally import Tally, rings
from regard.align.pairs import Pairs, runs
from regard.align.places import Found
from regard.align.places.likeliest import likeliest
from regard.align.view import Block, View
from regard.errors import RegardError
from regard.kernels.workers import share

__all__ = ["LIVE", "Sampler", "Sweep"]

Array = np.ndarray[Any, Any]

#: Cells up to which every chain is sampled exactly.
LIVE = 1 << 22
#: Blocks of a larger text, and tasks of each direction in a block; tasks change no link.
_BLOCKS, _TASKS = 32, 8


@dataclass(frozen=True)
class Sweep:
    """One sweep, done: which of how many, of which stage (1 Model 1, 2 HMM, 3 HMM with fertilities)."""

    done: int
    of: int
    stage: int


class Sampler:
    """Collapsed Gibbs sampling of the links of ``corpus``: IBM 1, then the HMM, then the HMM with fertilities.

    ``known`` are pseudo-counts of pairs, by their number. ``links``, forward and reverse, are where all chains begin
    (int16, for each generated token its place or −1); without, they begin at random. ``live`` tells the scheme, if not
    the size of the text.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from regard.align.corpus import read
    >>> with TemporaryDirectory() as folder:
    ...     text = Path(folder, "text")
    ...     _ = text.write_text("das Haus ||| the house\\ndas Buch ||| the book\\nein Buch ||| a book\\n" * 3)
    ...     corpus = read(text)
    >>> sampler = Sampler(corpus, Pairs.of(corpus), sweeps=(9, 9, 9))
    >>> sampler.run()
    >>> [believed.links[0][0] for believed in sampler.believe()]
    [[(0, 0), (1, 1)]]
    """

    def __init__(
        self,
        corpus: Corpus,
        pairs: Pairs,
        *,
        seed: int = 0,
        chains: int = 3,
        sweeps: tuple[int, int, int] | None = None,
        beliefs: Beliefs | None = None,
        known: Array | None = None,
        links: tuple[Array, Array] | None = None,
        live: bool | None = None,
        dtype: Any = np.float32,
    ) -> None:
        if chains < 1:
            raise RegardError(f"chains: found {chains}, wanted at least 1")
        self.seed, self.chains, self.dtype = seed, chains, dtype
        self.sweeps = usual(len(corpus)) if sweeps is None else sweeps
        if min(self.sweeps) < 0 or sum(self.sweeps) < 1:
            raise RegardError(f"sweeps: found {self.sweeps}, wanted three numbers of at least 0, not all 0")
        self.beliefs = beliefs or Beliefs()
        self.pairs = pairs
        cells = int(pairs.starts[pairs.last] - pairs.starts[pairs.first])
        self.live = cells <= LIVE if live is None else live
        self.done = 0
        self.sides = tuple(_Side(view, self.beliefs, known, dtype) for view in View.both(corpus, pairs))
        self._tallies: dict[tuple[int, int], Tally] = {}  # of the chains under way
        self._pooled: tuple[int, list[tuple[Tally, tuple[Array, Array]]]] | None = None  # of all, after so many sweeps
        for k, side in enumerate(self.sides):
            side.links = np.full((chains, len(side.view.generated.tokens)), -1, np.int16)
            for c in range(chains):
                if links is not None:
                    side.links[c] = links[k]
                else:
                    key = self._seeds(c, k, -1).generate_state(1, np.uint64)[0]
                    gives, gets = side.view.generating.offsets, side.view.generated.offsets
                    scatter(gives, gets, side.links[c], self.beliefs.empty, key, pairs.first, pairs.last)

    @property
    def total(self) -> int:
        """Steps in all: sweeps, times the chains where these follow one another."""
        return sum(self.sweeps) * (1 if self.live else self.chains)

    @property
    def stage(self) -> int:
        """The last stage that is sampled."""
        return max(k + 1 for k in range(3) if self.sweeps[k])

    def run(
        self, *, threads: int | None = None, each: Callable[[Sweep, Sampler], None] = lambda sweep, sampler: None
    ) -> None:
        """All sweeps that are still to do; ``each`` is called after every one."""
        self._pooled = None
        while self.done < self.total:
            number = self.done % sum(self.sweeps)
            stage = int(np.searchsorted(np.cumsum(self.sweeps), number, side="right")) + 1
            if self.live:
                self._exact(stage, number, threads)
            else:
                self._blocked(self.done // sum(self.sweeps), stage, number, threads)
            self.done += 1
            each(Sweep(self.done, self.total, stage), self)
        self._tallies.clear()

    def _exact(self, stage: int, number: int, threads: int | None) -> None:
        tasks = [(c, k) for c in range(self.chains) for k in range(2)]
        for c, k in tasks:
            self._tally(c, k)

        def work(first: int, last: int) -> None:
            for c, k in tasks[first:last]:
                side = self.sides[k]
                side.draw(side.links[c], side.links[c].copy(), self._tally(c, k), stage, self._turn(c, k, number), True)

        share(work, [(t, t + 1) for t in range(len(tasks))], threads=threads)

    def _blocked(self, c: int, stage: int, number: int, threads: int | None) -> None:
        if (c, 0) not in self._tallies:
            self._tallies.clear()
        tallies = [self._tally(c, k) for k in range(2)]
        turns = [self._turn(c, k, number) for k in range(2)]
        fresh = [side.links[c].copy() for side in self.sides]
        for block, tasks in self._blocks():

            def work(first: int, last: int, tasks: list[tuple[int, int]] = tasks) -> None:
                for t in range(first, last):
                    k, task = divmod(t, len(tasks))
                    side = self.sides[k]
                    side.draw(side.links[c], fresh[k], tallies[k], stage, turns[k], False, *tasks[task])

            def follow(first: int, last: int, block: tuple[int, int] = block) -> None:
                for k in range(first, last):
                    side = self.sides[k]
                    tallies[k].move(side.view, side.links[c], fresh[k], *block)

            share(work, [(t, t + 1) for t in range(2 * len(tasks))], threads=threads)
            share(follow, [(0, 1), (1, 2)], threads=threads)

    def _blocks(self) -> Iterator[tuple[tuple[int, int], list[tuple[int, int]]]]:
        start = self.pairs.first
        work = np.diff(self.pairs.starts[start : self.pairs.last + 1]) + 1
        for a, b in runs(work, _BLOCKS):
            yield (start + a, start + b), [(start + a + x, start + a + y) for x, y in runs(work[a:b], _TASKS)]

    def _tally(self, c: int, k: int) -> Tally:
        if (c, k) not in self._tallies:
            self._tallies[c, k] = Tally.of(self.sides[k].view, self.sides[k].links[c])
        return self._tallies[c, k]

    def _seeds(self, c: int, k: int, number: int) -> np.random.SeedSequence:
        return np.random.SeedSequence([self.seed, c, k, number + 1])

    def _turn(self, c: int, k: int, number: int) -> _Turn:
        """The random part of a sweep: its key, and the distribution of jumps, drawn from its posterior."""
        seeds = self._seeds(c, k, number)
        jumps = self._tally(c, k).jumps
        drawn = np.random.Generator(np.random.PCG64(seeds)).standard_gamma(jumps + self.beliefs.jump)
        return _Turn(seeds.generate_state(1, np.uint64)[0], *_chance(drawn, self.dtype))

    def believe(self, *, threads: int | None = None) -> Iterator[Believed]:
        """Both directions' posteriors of every block: the mean over the chains of the distributions that a link would
        be drawn from next; and the likeliest place of each word."""
        for block in self.sides[0].view.blocks():
            both = [self.found(block, k, threads) for k in range(2)]
            links = [
                hard(side.view, block, likeliest(side.view, block, each, threads))
                for side, each in zip(self.sides, both, strict=True)
            ]
            yield Believed(block, both[0].post, both[1].post, (links[0], links[1]))

    def found(self, block: Block, k: int, threads: int | None = None) -> Found:
        """The posteriors of the cells of one block, and of NULL, forward (0) or reverse (1)."""
        side = self.sides[k]
        tally, chance = self._together(k)
        found = Found(side.view, self.dtype)
        found.begin(block, 1)
        share(
            marginals, block.runs, *side.view.layout(), *side.rings, side.links, *tally.arrays()[:4], self.stage,
            side.believed, side.mass, side.prior, *chance, block.base, found.post, found.null, threads=threads,
        )  # fmt: skip
        return found

    def _together(self, k: int) -> tuple[Tally, tuple[Array, Array]]:
        """The counts of all chains as they stand, and the mean distribution of jumps."""
        if self._pooled is None or self._pooled[0] != self.done:
            self._tallies.clear()
            made = [Tally.of(side.view, *side.links) for side in self.sides]
            self._pooled = (
                self.done,
                [(each, _chance(each.jumps / self.chains + self.beliefs.jump, self.dtype)) for each in made],
            )
        return self._pooled[1][k]

    def state(self) -> dict[str, Array]:
        """What ``resume`` needs: the links of all chains and how many sweeps are done."""
        settings = np.array([self.seed, self.chains, self.live, *self.sweeps], np.int64)
        links = {f"links.{k}": side.links.copy() for k, side in enumerate(self.sides)}
        return {"settings": settings, "done": np.array(self.done, np.int64), **links}

    def resume(self, state: Mapping[str, Array]) -> None:
        """Goes on where ``state`` was taken, as if nothing had happened: the links come out the same."""
        mine = self.state()
        for name in ("settings", "links.0", "links.1"):
            found, wanted = (each[name].tolist() if name == "settings" else each[name].shape for each in (state, mine))
            if found != wanted:
                raise RegardError(
                    f"state: its {name} are {found}, wanted {wanted}; "
                    "resume with the text, seed, chains and sweeps it was made with"
                )
        self._tallies.clear()
        self._pooled = None
        self.done = int(state["done"])
        for k, side in enumerate(self.sides):
            side.links = np.array(state[f"links.{k}"], np.int16)


@dataclass(frozen=True)
class _Turn:
    key: np.uint64
    chance: Array
    mirror: Array


class _Side:
    """One direction: what the kernels read and never change, and the links of all chains."""

    def __init__(self, view: View, beliefs: Beliefs, known: Array | None, dtype: Any) -> None:
        self.view = view
        self.rings = rings(view)
        self.believed = beliefs.packed(dtype)
        self.prior = np.zeros(0, dtype) if known is None else np.asarray(known, dtype)
        self.mass = np.zeros(len(view.generating.words), dtype) if known is None else masses(view, known).astype(dtype)
        self.links: Array = np.zeros((0, 0), np.int16)

    def draw(self, links: Array, fresh: Array, tally: Tally, stage: int, turn: _Turn, live: bool, *part: int) -> None:
        first, last = part or (self.view.pairs.first, self.view.pairs.last)
        sweep(
            *self.view.layout(), *self.rings, links, fresh, *tally.arrays(), stage, self.believed, self.mass,
            self.prior, turn.chance, turn.mirror, turn.key, live, first, last,
        )  # fmt: skip


def _chance(weights: Array, dtype: Any) -> tuple[Array, Array]:
    chance = (weights / weights.sum()).astype(dtype)
    return chance, chance[::-1].copy()
