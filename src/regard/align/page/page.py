"""The page of an alignment: pairs of sentences as JSON, and a script that draws those in view. No network."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from regard.align.corpus import Corpus
from regard.align.gold import Gold, score
from regard.align.links import Links
from regard.errors import RegardError
from regard.page import asset, encoded
from regard.page import document as shell

__all__ = ["MOST", "document"]

#: Pairs of sentences a page has if nobody says which: some megabytes.
MOST = 2_000

_SHADES = 1_000  # weights are kept as so many parts of 1
_TURNING = {chr(c) for c in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}  # they would turn what stands beside


def document(
    corpus: Corpus,
    hard: Mapping[str, Links],
    *,
    soft: Mapping[str, Links] | None = None,
    gold: Gold | None = None,
    first: int | None = None,
    pairs: Sequence[int] | None = None,
    title: str = "regard align",
) -> str:
    """The page, one HTML file. ``hard`` and ``soft`` name the links and the weights of each model over ``corpus``.

    Weights are links with probabilities: posteriors, or attention by :meth:`regard.align.links.Links.above`; under
    half of 1/1000 they are nothing. ``pairs`` says which sentences are shown and in which order; else those of the
    gold, which stand at the end of the corpus or from ``first`` on, else the first ``MOST``.

    Raises:
        RegardError: links of another corpus, weights without probabilities, a pair that is not there.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from regard.align.corpus import read
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "text").write_text("das Haus ||| the house\\n")
    ...     page = document(read(Path(folder, "text")), {"mine": Links.of([[(0, 0), (1, 1)]])})
    >>> '"pairs":[[0,["das","Haus"],["the","house"],[[0,0,1,1]],[]]]' in page
    True
    """
    soft = soft or {}
    for kind, each in (("hard", hard), ("soft", soft)):
        for name, links in each.items():
            _check(corpus, links, f"{kind} {name!r}")
            if kind == "soft" and links.probability is None:
                raise RegardError(
                    f"soft {name!r}: these links have no probabilities; give weights, or show them as hard"
                )
    at = 0 if gold is None else gold.place(len(corpus), first)
    if gold is not None:
        gold.check(corpus.source.lengths(), corpus.target.lengths(), at)
    if pairs is None:
        pairs = range(at, at + len(gold)) if gold is not None else range(min(MOST, len(corpus)))
    beyond = [s for s in pairs if not 0 <= s < len(corpus)]
    if beyond:
        raise RegardError(f"pairs: found {beyond[0]}, wanted from 0 to {len(corpus) - 1}, the pairs of the corpus")
    shown = [_pair(corpus, s, hard, soft, gold, at) for s in pairs]
    data = {"models": list(hard), "weights": list(soft), "gold": gold is not None, "pairs": shown}
    many = f"{len(shown):,} of {len(corpus):,} pairs of sentences"
    body = (
        f'<h1>{escape(title)}</h1><p class="soft">{many}</p>\n{_scores(hard, gold, at)}'
        f'<script type="application/json" id="data">{encoded(data)}</script>\n{_asset("page.html")}'
    )
    return shell(title, body, style=_asset("page.css"), script=_asset("page.js"))


def _check(corpus: Corpus, links: Links, name: str) -> None:
    if len(links) != len(corpus):
        raise RegardError(f"{name}: found links of {len(links):,} pairs of sentences, the corpus has {len(corpus):,}")
    s = links.sentence
    outside = (links.source >= corpus.source.lengths()[s]) | (links.target >= corpus.target.lengths()[s])
    if outside.any():
        k = int(np.flatnonzero(outside)[0])
        raise RegardError(
            f"{name}: pair {int(s[k]) + 1:,} has a link {links.source[k]}-{links.target[k]} to a word that is not "
            "there; are these links of this corpus?"
        )


def _pair(
    corpus: Corpus, s: int, hard: Mapping[str, Links], soft: Mapping[str, Links], gold: Gold | None, at: int
) -> list[Any]:
    """What the script reads of one pair: number, words, links of each model, weights of each, gold: sure, possible."""
    sides = [[_word(word) for word in side.sentence(s)] for side in (corpus.source, corpus.target)]
    found = [s, *sides, [_flat(links, s) for links in hard.values()], [_weights(links, s) for links in soft.values()]]
    if gold is not None and at <= s < at + len(gold):
        sure = set(gold.sure[s - at])
        rest = [link for link in gold.possible[s - at] if link not in sure]
        found.append([_flat(gold.sure, s - at), [number for link in rest for number in link]])
    return found


def _flat(links: Links, s: int) -> list[int]:
    """i, j, i, j, …"""
    return [number for link in links[s] for number in link]


def _weights(links: Links, s: int) -> list[int]:
    """i, j, w, i, j, w, … with w in parts of 1/1000, without what rounds to none."""
    assert links.probability is not None
    a, b = int(links.offsets[s]), int(links.offsets[s + 1])
    shades = np.rint(np.clip(links.probability[a:b], 0, 1) * _SHADES).astype(np.int64)
    columns = np.stack((links.source[a:b], links.target[a:b], shades), 1)[shades > 0]
    return [int(x) for x in columns.ravel()]


def _word(word: bytes) -> str:
    """A word to show: control characters and what would turn the text around it are made visible."""
    text = word.decode("utf-8", "replace")
    return "".join("\ufffd" if c in _TURNING or unicodedata.category(c) in ("Cc", "Cs") else c for c in text)


def _scores(hard: Mapping[str, Links], gold: Gold | None, at: int) -> str:
    """A table of the models' scores on the gold."""
    if gold is None or not hard:
        return ""
    heads = ("model", "AER", "precision", "recall", "F", "links")
    rows = []
    for name, links in hard.items():
        found = score(links, gold, first=at)
        shares = (found.aer, found.precision, found.recall, found.f)
        cells = "".join(f"<td>{100 * share:.1f}</td>" for share in shares)
        rows.append(f'<tr><th scope="row">{escape(name)}</th>{cells}<td>{found.links:,}</td></tr>')
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    counts = (
        f"{len(gold.sure.source):,} sure links, {len(gold.possible.source) - len(gold.sure.source):,} possible ones"
    )
    inside = (
        f"<caption>Per cent, on {len(gold):,} pairs with gold: {counts}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    )
    return f'<div class="wide" tabindex="0" role="region" aria-label="Scores"><table>{inside}</table></div>\n'


def _asset(name: str) -> str:
    return asset("regard.align.page", name)
