"""The aligners people use, each as the commands that align both directions of a corpus, and how its links are read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from benchmarks.harness.aligners import in_python
from benchmarks.harness.aligners.corpora import Corpus
from benchmarks.harness.aligners.process import Step
from benchmarks.harness.aligners.programs import package, program
from benchmarks.harness.machine import cores

if TYPE_CHECKING:
    from regard.align.links import Links

__all__ = ["Aligner", "Eflomal", "FastAlign", "Mgiza", "Packaged", "pharaoh"]


class Aligner(Protocol):
    """``links`` has ``forward`` and ``reverse``, in which the generated word has one link at most, or ``own``, the
    aligner's own way of making one of both, or all three; of the last ``number`` sentences."""

    @property
    def name(self) -> str: ...

    def steps(self, corpus: Corpus, seed: int) -> Sequence[Step]: ...

    def links(self, folder: Path, number: int) -> dict[str, Links]: ...


@dataclass(frozen=True)
class FastAlign:
    """Dyer et al. 2013, as its manual calls it."""

    name: str = "fast_align"

    def steps(self, corpus: Corpus, seed: int) -> Sequence[Step]:
        command = (
            program("fast_align", "build github.com/clab/fast_align"),
            "-i",
            str(corpus.joined),
            "-d",
            "-o",
            "-v",
        )
        return [Step(command, "forward"), Step((*command, "-r"), "reverse")]

    def links(self, folder: Path, number: int) -> dict[str, Links]:
        return pharaoh(folder, number, forward="forward", reverse="reverse")


@dataclass(frozen=True)
class Eflomal:
    """Östling & Tiedemann 2016: all its models, its own number of iterations; it takes no seed."""

    name: str = "eflomal"

    def steps(self, corpus: Corpus, seed: int) -> Sequence[Step]:
        command = program("eflomal-align", "pip install cython numpy eflomal")
        sides = ("-s", str(corpus.source), "-t", str(corpus.target))
        return [Step((command, *sides, "-f", "forward", "-r", "reverse", "-m", "3", "--overwrite"))]

    def links(self, folder: Path, number: int) -> dict[str, Links]:
        return pharaoh(folder, number, forward="forward", reverse="reverse")


@dataclass(frozen=True)
class Packaged:
    """A Python package: both directions in one process, `iterations` of each model of the chain."""

    package: str
    model: str = ""
    iterations: int = 5

    @property
    def name(self) -> str:
        shown = {"systran": "systran-align"}.get(self.package, self.package)
        return f"{shown} {self.model}".strip()

    def steps(self, corpus: Corpus, seed: int) -> Sequence[Step]:
        module, wanted = {
            "systran": ("systran_align", "systran-align"),
            "thot": ("thot", "sil-thot"),
            "nltk": ("nltk", "nltk"),
        }[self.package]
        python = package(module, f"pip install {wanted}")
        sides = (str(corpus.source), str(corpus.target), str(corpus.joined))
        return [Step((python, in_python.__file__, self.package, self.model, *sides, str(self.iterations)))]

    def links(self, folder: Path, number: int) -> dict[str, Links]:
        if self.package == "systran":
            return pharaoh(folder, number, own="own")
        return pharaoh(folder, number, forward="forward", reverse="reverse")


@dataclass(frozen=True)
class Mgiza:
    """GIZA++ with threads: Model 1, HMM, 3, 4 and 5, each some times. Models 4 and 5 have 50 word classes a side from
    `mkcls`; the others have none, with which its HMM is better here."""

    model: str
    iterations: tuple[int, int, int, int, int] = (5, 5, 5, 5, 5)

    @property
    def name(self) -> str:
        return f"mgiza {self.model}"

    def steps(self, corpus: Corpus, seed: int) -> Sequence[Step]:
        names = ("plain2snt", "mkcls", "snt2cooc", "mgiza")
        found = {name: program(name, "build github.com/moses-smt/mgiza") for name in names}
        # Its programs name files after their inputs and look for them where they run.
        steps = [Step(("cp", str(path), side)) for path, side in ((corpus.source, "s"), (corpus.target, "t"))]
        steps.append(Step((found["plain2snt"], "s", "t")))
        if self.model in ("ibm4", "ibm5"):
            steps += [Step((found["mkcls"], "-n2", "-c50", f"-p{x}", f"-V{x}.vcb.classes", "opt")) for x in "st"]
        for left, right in (("s", "t"), ("t", "s")):
            both, words = f"{left}_{right}.snt", (f"{left}.vcb", f"{right}.vcb")
            steps.append(Step((found["snt2cooc"], f"{left}{right}.cooc", *words, both)))
            steps.append(Step((found["mgiza"], *self._options(left, right, both, words))))
        return steps

    def _options(self, left: str, right: str, both: str, words: tuple[str, str]) -> Iterator[str]:
        reached = ("hmm", "ibm3", "ibm4", "ibm5").index(self.model) + 2
        times = [count if k < reached else 0 for k, count in enumerate(self.iterations)]
        options = {
            "ncpus": cores(),
            "c": both,
            "o": left + right,
            "s": words[0],
            "t": words[1],
            "CoocurrenceFile": f"{left}{right}.cooc",
            "m1": times[0],
            "m2": 0,
            "mh": times[1],
            "m3": times[2],
            "m4": times[3],
            "m5": times[4],
            "p0": 0.999,
            "onlyaldumps": 1,
            "nsmooth": 4,
            "model1dumpfrequency": 1,
            "model4smoothfactor": 0.4,
            "nodumps": int(self.model != "hmm"),  # the HMM's links come with its tables or not at all
        }
        if self.model == "hmm":
            options["hmmdumpfrequency"] = times[1]
        for option, value in options.items():
            yield from (f"-{option}", str(value))

    def links(self, folder: Path, number: int) -> dict[str, Links]:
        pairs = (folder / "s").read_bytes().count(b"\n")
        ending = f"Ahmm.{self.iterations[1]}" if self.model == "hmm" else "A3.final"
        forward, reverse = (_a3(folder, f"{both}.{ending}.part*", pairs) for both in ("st", "ts"))
        return {"forward": forward[-number:], "reverse": reverse.turned[-number:]}


def pharaoh(folder: Path, number: int, **files: str) -> dict[str, Links]:
    """The links of the last `number` lines of each file, by name."""
    from regard.align import pharaoh

    return {name: pharaoh.read(folder / file)[-number:] for name, file in files.items()}


_PAIR = re.compile(r"# Sentence pair \((\d+)\)")
_LINKS = re.compile(r"\(\{ ((?:\d+ )*)\}\)")


def _a3(folder: Path, pattern: str, pairs: int) -> Links:
    """Links (generating, generated) from the parts of an alignment file; none for a pair that was left out.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "x.part0").write_text(
    ...         "# Sentence pair (2) source length 2\\nle chat\\nNULL ({ }) the ({ 1 }) cat ({ 2 }) \\n")
    ...     _a3(Path(folder), "x.part*", 2)
    Links.of([[], [(0, 0), (1, 1)]])
    """
    from regard.align.links import Links

    links: list[list[tuple[int, int]]] = [[] for _ in range(pairs)]
    for path in sorted(folder.glob(pattern)):
        with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
            for head, _, words in zip(lines, lines, lines, strict=True):
                found = _PAIR.match(head)
                assert found, head
                for i, group in enumerate(_LINKS.findall(words)[1:]):
                    links[int(found[1]) - 1] += [(i, int(j) - 1) for j in group.split()]
    return Links.of(links)
