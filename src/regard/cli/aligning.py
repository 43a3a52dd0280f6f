"""What `regard align` does: text in, a model trained or loaded, links out."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.align.aligner import Alignment, decoded
from regard.align.corpus import Corpus, gathered, parted, sides
from regard.align.decode import Believed, believe
from regard.align.links import Links
from regard.align.pairs import Pairs
from regard.align.pharaoh import lines
from regard.align.recipe import Recipe, Sampling
from regard.align.view import View
from regard.cli.align_training import Run, Training
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.align.tokenize import Tokenizer

__all__ = ["ONE_WAY", "Job", "Outputs", "Text"]

#: Pairs of sentences of new text that are aligned together.
_BATCH = 10_000

#: What the page shows of a cell begins here.
_SHADE = 0.005

#: Of ``--symmetrize``: one direction, as it is.
ONE_WAY = ("forward", "reverse")

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
class Outputs:
    """What is made of the links."""

    symmetrize: str | None
    threshold: float
    probabilities: bool
    both: Path | None
    gold: Path | None
    dictionary: Path | None
    html: Path | None
    attention: Path | None
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
            sys.stdout.flush()
            return
        for part in lines(links, probabilities=self.probabilities):
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()

    def check(self, corpus: Corpus) -> None:
        """That the gold is of this text and every file has a folder: before an hour of training, not after it."""
        for name, path in (("--both", self.both), ("--dictionary", self.dictionary), ("--html", self.html)):
            if path is not None and not path.parent.is_dir():
                raise RegardError(f"{name}: there is no folder {path.parent}; make it, or name another place")
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
        others = {str(path): _others(path, corpus) for path in self.beside}
        hard = {**others, "links": links, "forward": found.forward, "reverse": found.reverse}
        gold = None
        if self.gold is not None:
            from regard.align.gold import read, score

            gold = read(self.gold)
            width = max(map(len, hard))
            for name, each in hard.items():
                print(f"{name:<{width}}  {score(each, gold)}", file=sys.stderr)
        if self.html is not None:
            from regard.cli.align_page import page

            replace(self.html, page(corpus, hard, found.shade, gold, self.attention).encode(), "--html")


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
            if group.size > 1 and isinstance(training.recipe, Sampling):
                raise RegardError("--model sample: chains are drawn in one process; run it without torchrun")
            spool = training.spool
            if spool is not None:
                spool = spool / str(group.rank) if group.size > 1 else spool  # none writes into another's files
                spool.mkdir(parents=True, exist_ok=True)
            corpus = self.text.corpus(sides(self.text.source, self.text.target), spool)
            self.outputs.check(corpus)
            if group.rank == 0:
                _say_refused(corpus, self.text.longest)
            pairs = Pairs.of(corpus, part=group.part(corpus), threads=self.threads, spool=spool)
            run = Run(corpus, pairs, training, group, self.threads)
            found = self._decoded(View.both(corpus, pairs)[0], run.believed(), training.recipe)
            found = found.mapped(group.gathered)
            if group.rank == 0:
                self.outputs.print(self.outputs.chosen(found), sides(self.text.source, self.text.target), self.text)
                self.outputs.write(found, corpus)
        finally:
            group.close()

    def apply(self, folder: Path) -> None:
        """Aligns the text with the model in ``folder``, batch by batch."""
        from regard.align.applied import Applied
        from regard.align.ranks import under_torchrun
        from regard.align.saved import Saved

        if under_torchrun():
            raise RegardError("--load: torchrun divides training alone; align new text without it")
        saved = Saved.of(folder)
        applied, recipe = Applied(saved), saved.recipe

        def aligned(batch: list[Raw], before: int) -> Alignment:
            corpus = self.text.corpus(iter(batch))
            _say_refused(corpus, self.text.longest, before)
            pairs = Pairs.of(corpus, threads=self.threads)
            believed = believe(applied.channels(corpus, pairs), viterbi=recipe.viterbi, threads=self.threads)
            return self._decoded(View.both(corpus, pairs)[0], believed, recipe)

        kept: list[Alignment] = []
        whole: list[Raw] = []
        count = 0
        needed = any((self.outputs.both, self.outputs.gold, self.outputs.dictionary, self.outputs.html))
        for batch in self.text.batches():
            found = aligned(batch, count)
            count += len(batch)
            self.outputs.print(self.outputs.chosen(found), iter(batch), self.text)
            if needed:
                kept.append(found)
                whole += batch
        if needed:
            kept = kept or [aligned([], 0)]
            names = ("links", "forward", "reverse", *(["shade"] if self.outputs.html is not None else []))
            found = Alignment(*(Links.join(getattr(each, name) for each in kept) for name in names))
            corpus = self.text.corpus(iter(whole))
            self.outputs.check(corpus)
            self.outputs.write(found, corpus)

    def _decoded(self, view: View, believed: Iterator[Believed], recipe: Recipe | Sampling) -> Alignment:
        asked = self.outputs.symmetrize
        method = recipe.symmetrize if asked is None or asked in ONE_WAY else asked
        shade = None if self.outputs.html is None else _SHADE
        return decoded(view, believed, method, self.outputs.threshold, shade=shade)


def _say_refused(corpus: Corpus, longest: int, before: int = 0) -> None:
    """How many pairs were too long, and the line of the first, ``before`` lines having been read in earlier batches."""
    if count := len(corpus.refused):
        print(
            f"regard: {count:,} {'pair has' if count == 1 else 'pairs have'} a sentence of more than {longest:,} words "
            f"and an empty line, the first is line {before + int(corpus.refused[0]) + 1:,}; --longest sets the limit",
            file=sys.stderr,
        )
