"""What `regard align` does: text in, a model trained or loaded, links out."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.align.aligner import Alignment, decoded
from regard.align.corpus import Corpus, gathered, parted, sides
from regard.align.links import Links
from regard.align.pairs import Pairs
from regard.align.pharaoh import lines
from regard.align.prior import read, spelt
from regard.align.recipe import Recipe
from regard.align.train import Iteration
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.align.corpus import Array
    from regard.align.expect import Channel
    from regard.align.tokenize import Tokenizer

__all__ = ["Job", "Outputs", "Text", "Training"]

#: Pairs of sentences of new text that are aligned together.
_BATCH = 10_000

Raw = tuple[bytes, bytes]


@dataclass(frozen=True)
class Text:
    """Where the text is and how it is cut."""

    source: Path
    target: Path | None
    cuts: tuple[Tokenizer, Tokenizer] | None
    longest: int

    @staticmethod
    def of(source: Path, target: Path | None, tokenize: str | None, longest: int) -> Text:
        """The text of one file or two; ``tokenize`` names how both sides are cut, or each."""
        if tokenize is None:
            return Text(source, target, None, longest)
        names = tokenize.split(",")
        if len(names) > 2:
            raise RegardError(f"--tokenize: found {tokenize!r}, wanted one way for both sides or two, HOW,HOW")
        cuts = [_cut(name) for name in names]
        return Text(source, target, (cuts[0], cuts[-1]), longest)

    def corpus(self, raw: Iterator[Raw], spool: Path | None = None) -> Corpus:
        """The corpus of these raw lines."""
        if self.cuts is None:
            return gathered(((s.split(), t.split()) for s, t in raw), longest=self.longest, spool=spool)
        from regard.align.tokenize import split

        first, second = self.cuts
        return gathered(((split(s, first), split(t, second)) for s, t in raw), longest=self.longest, spool=spool)

    def batches(self) -> Iterator[list[Raw]]:
        """Some thousand pairs of lines of a file at a time; of standard input what has come."""
        if str(self.source) != "-":
            raw = sides(self.source, self.target)
            while batch := list(itertools.islice(raw, _BATCH)):
                yield batch
            return
        number, rest = 0, b""
        while True:
            read = os.read(sys.stdin.fileno(), 1 << 16)
            *whole, rest = (rest + read).split(b"\n")
            if not read and rest:
                whole.append(rest)
            if whole:
                yield [parted(line, number + k, self.source) for k, line in enumerate(whole, 1)]
                number += len(whole)
            if not read:
                return


def _cut(name: str) -> Tokenizer:
    from regard.align.tokenize import Pieces, Words

    if name == "words":
        return Words()
    if Path(name).is_file():
        return Pieces(Path(name))
    raise RegardError(f"--tokenize: found {name!r}, wanted words or the file of a SentencePiece model")


@dataclass(frozen=True)
class Training:
    """What is trained, from what, and where it is kept."""

    recipe: Recipe
    save: Path | None
    prior: Path | None
    seed: int
    spool: Path | None
    quiet: bool


@dataclass(frozen=True)
class Outputs:
    """What is made of the links."""

    symmetrize: str | None
    threshold: float
    probabilities: bool
    both: Path | None
    gold: Path | None
    dictionary: Path | None
    html: Path | None
    beside: tuple[Path, ...]
    spans: bool

    def chosen(self, found: Alignment) -> Links:
        """The links that are asked for."""
        one_way = {"forward": found.forward, "reverse": found.reverse}
        return one_way.get(self.symmetrize or "", found.links)

    def print(self, links: Links, raw: Iterator[Raw], text: Text) -> None:
        """The links on standard output."""
        if self.spans and text.cuts is not None:
            from regard.align.tokenize import spanned

            first, second = itertools.tee(raw)
            for line in spanned(links, (s for s, _ in first), (t for _, t in second), *text.cuts):
                sys.stdout.write(line)
            return
        for part in lines(links, probabilities=self.probabilities):
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()

    def check(self, corpus: Corpus) -> None:
        """That the gold is of this text: before an hour of training, not after it."""
        if self.gold is not None:
            from regard.align.gold import read

            read(self.gold).check(corpus.source.lengths(), corpus.target.lengths())

    def write(self, found: Alignment, corpus: Corpus) -> None:
        """Everything but standard output."""
        from regard.files import replace

        links = self.chosen(found)
        if self.both is not None:
            for name, each in (("forward", found.forward), ("reverse", found.reverse)):
                replace(self.both.with_name(f"{self.both.name}.{name}"), lines(each), "--both")
        if self.dictionary is not None:
            from regard.align.dictionary import Dictionary

            Dictionary.of(corpus, links).save(self.dictionary, "--dictionary")
        others = {path.name: _others(path, corpus) for path in self.beside}
        hard = {"links": links, "forward": found.forward, "reverse": found.reverse, **others}
        gold = None
        if self.gold is not None:
            from regard.align.gold import read, score

            gold = read(self.gold)
            width = max(map(len, hard))
            for name, each in hard.items():
                print(f"{name:<{width}}  {score(each, gold)}", file=sys.stderr)
        if self.html is not None:
            from regard.align.page import document

            soft = {"both directions": found.links} if found.links.probability is not None else {}
            replace(self.html, document(corpus, hard, soft=soft, gold=gold).encode(), "--html")


def _others(path: Path, corpus: Corpus) -> Links:
    from regard.align.pharaoh import read

    links = read(path, "--beside")
    if len(links) != len(corpus):
        raise RegardError(f"--beside: {path} has {len(links):,} lines and the text {len(corpus):,}; it is of another")
    return links


@dataclass(frozen=True)
class Job:
    """One run of the command."""

    text: Text
    outputs: Outputs
    threads: int | None

    def train(self, training: Training) -> None:
        """Trains on the text and aligns it; under torchrun each process its part, and the first one prints."""
        from regard.align.ranks import ranks

        group = ranks()
        try:
            raw = sides(self.text.source, self.text.target)
            if training.spool is not None:
                training.spool.mkdir(parents=True, exist_ok=True)
            corpus = self.text.corpus(raw, training.spool)
            self.outputs.check(corpus)
            _say_refused(corpus, self.text.longest)
            pairs = Pairs.of(corpus, part=group.part(corpus), threads=self.threads, spool=training.spool)
            channels = self._channels(corpus, pairs, training, group.rank, group.together)
            found = self._decoded(channels, training.recipe)
            found = Alignment(*(group.gathered(each) for each in (found.links, found.forward, found.reverse)))
            if group.rank == 0:
                self.outputs.print(self.outputs.chosen(found), sides(self.text.source, self.text.target), self.text)
                self.outputs.write(found, corpus)
        finally:
            group.close()

    def apply(self, folder: Path) -> None:
        """Aligns the text with the model in ``folder``, batch by batch."""
        from regard.align.applied import Applied
        from regard.align.saved import Saved

        saved = Saved.of(folder)
        applied, recipe = Applied(saved), saved.recipe
        kept: list[Alignment] = []
        whole: list[Raw] = []
        needed = any((self.outputs.both, self.outputs.gold, self.outputs.dictionary, self.outputs.html))
        for batch in self.text.batches():
            corpus = self.text.corpus(iter(batch))
            _say_refused(corpus, self.text.longest)
            found = self._decoded(applied.channels(corpus, Pairs.of(corpus, threads=self.threads)), recipe)
            self.outputs.print(self.outputs.chosen(found), iter(batch), self.text)
            if needed:
                kept.append(found)
                whole += batch
        if needed:
            names = ("links", "forward", "reverse")
            found = Alignment(*(Links.join(getattr(each, name) for each in kept) for name in names))
            self.outputs.write(found, self.text.corpus(iter(whole)))

    def _decoded(self, channels: tuple[Channel, Channel], recipe: Recipe) -> Alignment:
        asked = self.outputs.symmetrize
        method = recipe.symmetrize if asked is None or asked in ("forward", "reverse") else asked
        return decoded(channels, method, self.outputs.threshold, viterbi=recipe.viterbi, threads=self.threads)

    def _channels(
        self, corpus: Corpus, pairs: Pairs, training: Training, rank: int, together: Callable[[Array], Array]
    ) -> tuple[Channel, Channel]:
        from regard.align.saved import FILE, Saved, save
        from regard.align.train import State, begin, train

        recipe = training.recipe
        known = spelt(corpus, pairs, recipe, self.threads)
        if training.prior is not None:
            counts, apart = read(training.prior, corpus, pairs)
            known = counts if known is None else known + counts
            if apart and not training.quiet:
                print(f"--prior: {apart:,} pairs of words never meet in the text", file=sys.stderr)
        state = begin(corpus, pairs, recipe)
        digest = corpus.digest() if training.save is not None else ""
        if training.save is not None and (training.save / FILE).exists():
            state = Saved.of(training.save, "--save").resumed(corpus, pairs, recipe, digest)
        with _progress(training.quiet or rank > 0) as say:

            def each(done: Iteration, state: State) -> None:
                if training.save is not None and rank == 0:
                    save(training.save, corpus, state, recipe, digest)
                say(done)

            state = train(state, recipe, known=known, threads=self.threads, together=together, each=each)
        return state.channels


def _say_refused(corpus: Corpus, longest: int) -> None:
    if len(corpus.refused):
        first = int(corpus.refused[0]) + 1
        print(
            f"regard: {len(corpus.refused):,} pairs have a sentence of more than {longest:,} words and get an empty "
            f"line, the first is line {first:,}; --longest sets the limit",
            file=sys.stderr,
        )


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[Iteration], None]]:
    """A bar where somebody looks, a line for each iteration anyway."""
    from regard.cli.bar import progress

    if quiet:
        yield lambda done: None
        return
    with progress() as step:
        step(0, 1, "training")

        def say(done: Iteration) -> None:
            step(done.done, done.of, done.model)
            print(
                f"{done.done:>3}/{done.of} {done.model:<8} log p a word: "
                f"forward {done.forward:.4f}, reverse {done.reverse:.4f}",
                file=sys.stderr,
            )

        yield say
