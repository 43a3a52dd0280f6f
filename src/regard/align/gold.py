"""Links that people made, and how near a machine's come to them.

A gold file has a line for each pair of sentences: ``i-j`` a link that is sure, ``i?j`` one that is possible, both word
numbers from 0. The form of HLT-NAACL 2003 is read as well, ``sentence i j S`` a line for each link, where all three
count from 1 and a word 0 is NULL.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.align.links import Links
from regard.align.pharaoh import LARGEST, parse, text_of
from regard.errors import RegardError, RegardWarning

__all__ = ["Gold", "Score", "read", "score"]

Array = np.ndarray[Any, Any]

_NAACL = re.compile(rb"[ \t]*(\d{1,9})[ \t]+(\d{1,9})[ \t]+(\d{1,9})(?:[ \t]+([SP]))?(?:[ \t]+[0-9.eE+-]+)?[ \t\r]*")
_ENOUGH = 5  # sentences with links, none of them to a first word: by then it is no chance


@dataclass(frozen=True, eq=False)
class Gold:
    """The gold links of some sentences. ``possible`` has them all: a link that is sure is possible too."""

    possible: Links
    sure: Links
    name: str = "gold"

    def __len__(self) -> int:
        return len(self.possible)

    @staticmethod
    def of(sure: Links, possible: Links | None = None, name: str = "gold") -> Gold:
        """Gold from its sure links and those that are no more than possible."""
        if possible is None:
            return Gold(sure.hard, sure.hard, name)
        if len(possible) != len(sure):
            raise RegardError(
                f"possible: found links of {len(possible):,} pairs of sentences, wanted {len(sure):,}, as many as sure"
            )
        offsets = sure.offsets + possible.offsets
        order = np.argsort(np.concatenate((sure.sentence, possible.sentence)), kind="stable")
        source, target = (
            np.concatenate(both)[order] for both in ((sure.source, possible.source), (sure.target, possible.target))
        )
        return Gold(Links.sorted(offsets, source, target), sure.hard, name)

    def place(self, pairs: int, first: int | None = None) -> int:
        """The pair of sentences, of ``pairs``, that the first gold line belongs to: ``first``, or so that the last
        line belongs to the last, as where test pairs are put behind the training text.

        >>> Gold.of(Links.of([[(0, 0)], [(1, 1)]])).place(1002)
        1000
        """
        at = pairs - len(self) if first is None else first
        if at < 0 or at + len(self) > pairs:
            where = "at the end" if first is None else f"from pair {at:,} on"
            raise RegardError(
                f"gold: {self.name} has {len(self):,} lines, and {where} of {pairs:,} pairs of sentences there is no "
                "room for them; wanted the gold of these sentences, or of the last of them"
            )
        return at

    def check(self, sources: Array, targets: Array, first: int | None = None) -> None:
        """That every link joins words that are there. ``sources`` and ``targets`` are the lengths of all sentences;
        a pair with no words on either side (left out, or empty) is passed over.

        Raises:
            RegardError: a link lies outside its sentences: names the file and line, and says if it counts from 1.

        >>> Gold.of(Links.of([[(1, 1), (2, 2)]]), name="my.gold").check(np.array([2]), np.array([2]))
        Traceback (most recent call last):
            ...
        regard.errors.RegardError: gold: line 1 of my.gold links 2-2, its sentences have 2 and 2 words; no link of the
        file has a 0, so it counts from 1: take 1 from every number
        """
        links, at = self.possible, self.place(len(sources), first)
        s = links.sentence
        l, m = (np.asarray(lengths)[at + s].astype(np.int64) for lengths in (sources, targets))
        there = (l > 0) | (m > 0)
        outside = there & ((links.source >= l) | (links.target >= m))
        lowest = min(int(side.min(initial=LARGEST)) for side in (links.source, links.target))
        if outside.any():
            k = int(np.flatnonzero(outside)[0])
            one = lowest >= 1 and bool((~there | ((links.source <= l) & (links.target <= m))).all())
            what = (
                "no link of the file has a 0, so it counts from 1: take 1 from every number"
                if one
                else f"word numbers count from 0, and line 1 belongs to pair {at + 1:,} of {len(sources):,}: "
                "are these the sentences it was made for?"
            )
            raise RegardError(
                f"gold: line {int(s[k]) + 1:,} of {self.name} links {links.source[k]}-{links.target[k]}, its sentences "
                f"have {l[k]} and {m[k]} words; {what}"
            )
        if lowest >= 1 and np.count_nonzero(np.diff(links.offsets)) >= _ENOUGH:
            warnings.warn(
                f"gold: no link of {self.name} has a 0 on either side; if it counts from 1, take 1 from every number",
                RegardWarning,
                stacklevel=2,
            )


def read(path: Path, argument: str = "gold") -> Gold:
    """The gold of a file, plain or gzip, in either form; the NAACL form has as many sentences as its last number says.

    Raises:
        RegardError: no such file, or a line that is neither: names the file, the line and what was found.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "gold").write_text("0-0 1?2\\n")
    ...     _ = Path(folder, "naacl").write_text("0001 1 1 S\\n0001 2 3 P\\n")
    ...     one, other = read(Path(folder, "gold")), read(Path(folder, "naacl"))
    >>> one.sure, one.possible, one.possible == other.possible, one.sure == other.sure
    (Links.of([[(0, 0)]]), Links.of([[(0, 0), (1, 2)]]), True, True)
    """
    text = text_of(path, argument)
    head = text.lstrip(b" \t\r\n").split(b"\n", 1)[0]
    if _NAACL.fullmatch(head):
        return _naacl(text, str(path), argument)
    found = parse(text, str(path), argument)
    return Gold(found.links.hard, found.links.hard.where(~found.possible), str(path))


def _naacl(text: bytes, name: str, argument: str) -> Gold:
    found: dict[bool, list[tuple[int, int, int]]] = {False: [], True: []}
    for number, line in enumerate(text.split(b"\n"), 1):
        if not line.strip():
            continue
        match = _NAACL.fullmatch(line)
        s, i, j = (int(each) for each in match.groups()[:3]) if match else (0, 0, 0)
        if match is None or s == 0 or max(s, i, j) > LARGEST:
            shown = line.decode("utf-8", "replace").strip()[:60]
            raise RegardError(
                f"{argument}: line {number:,} of {name} is {shown!r}, wanted sentence, source word, target word, and S "
                f"or P, all from 1 to {LARGEST:,}, like the lines before"
            )
        if i and j:
            found[match[4] != b"P"].append((s - 1, i - 1, j - 1))
        else:
            found[False].append((s - 1, -1, -1))  # the sentence is there, its link to NULL is none
    count = max((s for each in found.values() for s, _, _ in each), default=-1) + 1
    sides: dict[bool, list[list[tuple[int, int]]]] = {kind: [[] for _ in range(count)] for kind in found}
    for kind, each in found.items():
        for s, i, j in each:
            if i >= 0:
                sides[kind][s].append((i, j))
    return Gold.of(Links.of(sides[True]), Links.of(sides[False]), name)


@dataclass(frozen=True)
class Score:
    """How links A compare with sure gold S and possible gold P ⊇ S, counts summed over all sentences.

    Och & Ney (2003): precision |A ∩ P| / |A|, recall |A ∩ S| / |S|, AER 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|). ``f`` is
    1 / (α / precision + (1 − α) / recall) of Fraser & Marcu (2007), α = ½ unless said otherwise. Shares from 0 to 1; a
    share of nothing is 0, but nothing found where nothing is wanted has AER 0.
    """

    aer: float
    precision: float
    recall: float
    f: float
    links: int
    sure: int
    possible: int
    sentences: int

    def __str__(self) -> str:
        shares = (("AER", self.aer), ("precision", self.precision), ("recall", self.recall), ("F", self.f))
        said = ", ".join(f"{name} {100 * share:.1f} %" for name, share in shares)
        counts = f"{self.links:,} links against {self.sure:,} sure and {self.possible - self.sure:,} possible"
        return f"{said} ({counts}, {self.sentences:,} pairs of sentences)"

    def to_dict(self) -> dict[str, float | int]:
        """The fields by their names."""
        return asdict(self)


def score(links: Links, gold: Gold, *, first: int | None = None, alpha: float = 0.5) -> Score:
    """How ``links`` compare with ``gold``, whose lines are the last of the corpus or those from ``first`` on.

    Raises:
        RegardError: more gold lines than pairs of sentences, or ``alpha`` outside of [0, 1].

    >>> gold = Gold.of(Links.of([[(0, 0), (1, 1)]]), Links.of([[(1, 2)]]))
    >>> print(score(Links.of([[], [(0, 0), (1, 2), (3, 0)]]), gold))
    AER 40.0 %, precision 66.7 %, recall 50.0 %, F 57.1 % (3 links against 2 sure and 1 possible, 1 pairs of sentences)
    """
    if not 0 <= alpha <= 1:
        raise RegardError(f"alpha: found {alpha}, wanted from 0 (recall alone) to 1 (precision alone)")
    at = gold.place(len(links), first)
    found = links[at : at + len(gold)]
    both_sure, both_possible = (int(found.within(each).sum()) for each in (gold.sure, gold.possible))
    a, s = len(found.source), len(gold.sure.source)
    precision, recall = both_possible / a if a else 0.0, both_sure / s if s else 0.0
    aer = 1 - (both_sure + both_possible) / (a + s) if a + s else 0.0
    parts = [(share, weight) for share, weight in ((precision, alpha), (recall, 1 - alpha)) if weight]
    f = 1 / sum(weight / share for share, weight in parts) if all(share for share, _ in parts) else 0.0
    return Score(aer, precision, recall, f, a, s, len(gold.possible.source), len(gold))
