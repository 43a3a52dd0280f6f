"""Word classes: words that stand between the same neighbours, found by exchange, or read from a file.

A class bigram model p(w|v) = p(w | c_w) p(c_w | c_v) has the log likelihood, up to what no clustering changes,

    F = Σ_{c,d} h(N(c,d)) − Σ_c h(N(c,·)) − Σ_d h(N(·,d)),   h(n) = n ln n,

N(c,d) being how often a word of class d follows one of class c (Kneser & Ney 1993; Och 1999). Word by word, the most
frequent first, each goes to the class where F is largest: F never falls, and when a whole pass moves nothing it stops.
The ends of sentences are a class of their own, which no word joins.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from regard.align.corpus import Side, lines
from regard.errors import RegardError
from regard.kernels.compile import inline, kernel
from regard.kernels.workers import share

__all__ = ["clustered", "likelihood", "of_both", "read"]

Array = np.ndarray[Any, Any]

#: h is looked up below this.
_TABLE = 1 << 15


def clustered(side: Side, classes: int = 50, passes: int = 8) -> Array:
    """int32 [V]: the class, 0 … ``classes`` − 1, of each word of ``side``, after at most ``passes`` passes over them.

    The same text gives the same classes. Fewer words than classes have one each.

    Raises:
        RegardError: fewer than one class, or fewer than no pass.

    >>> text = [0, 1, 2, 3, 0, 3, 2, 1] * 20  # cats sleep, dogs eat, cats eat, dogs sleep
    >>> side = Side(np.array(text, np.int32), np.arange(0, 161, 2), [b"cats", b"sleep", b"dogs", b"eat"])
    >>> clustered(side, 2).tolist()
    [0, 1, 0, 1]
    """
    work = _Work(side, classes, passes)
    _exchange_all([work], 1)
    return work.of


def of_both(
    source: Side, target: Side, classes: int = 50, passes: int = 8, threads: int | None = None
) -> tuple[Array, Array]:
    """``clustered`` of the source and of the target, side by side."""
    work = [_Work(side, classes, passes) for side in (source, target)]
    _exchange_all(work, threads)
    return work[0].of, work[1].of


def likelihood(side: Side, of: Array) -> float:
    """F of the classes ``of`` (int32 [V]) on ``side``, natural logarithms."""
    words, classes = len(side.words), int(of.max(initial=-1)) + 1
    v, w, n = _bigrams(side)
    kinds = np.append(of, classes)
    table = np.zeros((classes + 1, classes + 1))
    np.add.at(table, (kinds[np.minimum(v, words)], kinds[np.minimum(w, words)]), n)
    parts = (table.ravel(), table.sum(0), table.sum(1))
    first, second, third = (float(np.sum(each * np.log(np.maximum(each, 1)))) for each in parts)
    return first - second - third


def read(path: Path, side: Side) -> Array:
    """int32 [V]: the classes of a file with a word and its class on each line, white space between them.

    Classes may have any names. Words of ``side`` that are not in the file share one more class.

    Raises:
        RegardError: a line without a word and a class, a word with two classes.

    >>> from tempfile import TemporaryDirectory
    >>> side = Side(np.zeros(0, np.int32), np.zeros(1, np.int64), [b"cats", b"dogs", b"eat"])
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "classes").write_text("dogs\\tnoun\\ncats\\tnoun\\nunseen\\tverb\\n")
    ...     read(Path(folder, "classes"), side).tolist()
    [0, 0, 2]
    """
    names: dict[bytes, int] = {}
    found: dict[bytes, int] = {}
    for number, line in enumerate(lines(path), 1):
        parts = line.split()
        if not parts:
            continue
        if len(parts) != 2:
            raise RegardError(
                f"classes: line {number:,} of {path} has {len(parts)} fields, wanted a word and its class"
            )
        word, name = parts
        kind = names.setdefault(name, len(names))
        if found.setdefault(word, kind) != kind:
            shown = word.decode("utf-8", "replace")
            raise RegardError(
                f"classes: line {number:,} of {path} gives {shown!r} a second class; leave one of them out"
            )
    return np.array([found.get(word, len(names)) for word in side.words], np.int32)


class _Work:
    """What exchanging the words of a side takes."""

    def __init__(self, side: Side, classes: int, passes: int) -> None:
        if classes < 1:
            raise RegardError(f"classes: found {classes}, wanted at least 1")
        if passes < 0:
            raise RegardError(f"passes: found {passes}, wanted at least 0")
        words = len(side.words)
        v, w, n = _bigrams(side)
        self.right = _rows(v, w, n, words)
        order = np.argsort(w, kind="stable")
        self.left = _rows(w[order], v[order], n[order], words)
        often = np.bincount(side.tokens, minlength=words)
        self.order = np.argsort(-often, kind="stable").astype(np.int64)
        self.of = np.empty(words, np.int32)
        self.of[self.order] = np.arange(words) % classes  # frequent words begin apart
        self.classes, self.passes = classes, passes


def _exchange_all(work: list[_Work], threads: int | None) -> None:
    def one(first: int, last: int) -> None:
        for each in work[first:last]:
            _exchange(*each.left, *each.right, each.order, each.classes, each.passes, each.of)

    share(one, [(k, k + 1) for k in range(len(work))], threads=threads)


def _bigrams(side: Side) -> tuple[Array, Array, Array]:
    """(v, w, how often w follows v), sorted; the word behind the last number stands for the ends of sentences."""
    end = len(side.words)
    lengths = side.lengths()
    full = lengths > 0
    tokens = side.tokens.astype(np.int64)
    last = np.zeros(len(tokens), bool)
    last[side.offsets[1:][full] - 1] = True
    after = np.where(last, end, np.append(tokens[1:], end))
    starts = tokens[side.offsets[:-1][full]]
    keys = np.concatenate((tokens * (end + 1) + after, end * (end + 1) + starts))
    keys, n = np.unique(keys, return_counts=True)
    return keys // (end + 1), keys % (end + 1), n.astype(np.int64)


def _rows(v: Array, w: Array, n: Array, words: int) -> tuple[Array, Array, Array]:
    """Where the row of each v begins, and its entries."""
    return np.searchsorted(v, np.arange(words + 1)).astype(np.int64), w.astype(np.int64), n


@inline
def _h(n, table):
    return table[n] if n < _TABLE else n * math.log(float(n))


@kernel
def _exchange(lefts, before, left_n, rights, after, right_n, order, classes, passes, of):
    """Passes until none moves a word; classes are in ``of``. ``before`` and ``after`` are neighbours of each word."""
    words, size = len(of), classes + 1
    table = np.zeros(_TABLE)
    for n in range(1, _TABLE):
        table[n] = n * math.log(float(n))
    count, heads, tails = np.zeros((size, size), np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64)
    for v in range(words):
        for o in range(rights[v], rights[v + 1]):
            d = of[after[o]] if after[o] < words else classes
            count[of[v], d] += right_n[o]
            heads[of[v]] += right_n[o]
            tails[d] += right_n[o]
        for o in range(lefts[v], lefts[v + 1]):
            if before[o] == words:
                count[classes, of[v]] += left_n[o]
                heads[classes] += left_n[o]
                tails[of[v]] += left_n[o]
    left, right = np.zeros(size, np.int64), np.zeros(size, np.int64)  # of a word, by class
    some_left, some_right = np.empty(size, np.int64), np.empty(size, np.int64)
    for _ in range(passes):
        moved = 0
        for v in order:
            here = of[v]
            lefts_of, rights_of, self_n, total = 0, 0, 0, 0
            for o in range(lefts[v], lefts[v + 1]):
                if before[o] == v:
                    continue
                c = of[before[o]] if before[o] < words else classes
                if left[c] == 0:
                    some_left[lefts_of] = c
                    lefts_of += 1
                left[c] += left_n[o]
                total += left_n[o]
            for o in range(rights[v], rights[v + 1]):
                if after[o] == v:
                    self_n += right_n[o]
                    continue
                d = of[after[o]] if after[o] < words else classes
                if right[d] == 0:
                    some_right[rights_of] = d
                    rights_of += 1
                right[d] += right_n[o]
            total += self_n  # a word is followed as often as it follows
            _put(here, -1, left, right, some_left, some_right, lefts_of, rights_of, self_n, total, count, heads, tails)
            best, at = -np.inf, here
            for offset in range(classes):
                b = (here + offset) % classes  # where it was comes first: it must be worth it to leave
                x = _h(heads[b], table) - _h(heads[b] + total, table)
                x += _h(tails[b], table) - _h(tails[b] + total, table)
                x += _h(count[b, b] + left[b] + right[b] + self_n, table) - _h(count[b, b], table)
                for k in range(lefts_of):
                    c = some_left[k]
                    if c != b:
                        x += _h(count[c, b] + left[c], table) - _h(count[c, b], table)
                for k in range(rights_of):
                    d = some_right[k]
                    if d != b:
                        x += _h(count[b, d] + right[d], table) - _h(count[b, d], table)
                if x > best + 1e-9 * abs(best) or offset == 0:
                    best, at = x, b
            _put(at, 1, left, right, some_left, some_right, lefts_of, rights_of, self_n, total, count, heads, tails)
            moved += at != here
            of[v] = at
            for k in range(lefts_of):
                left[some_left[k]] = 0
            for k in range(rights_of):
                right[some_right[k]] = 0
        if moved == 0:
            break


@inline
def _put(b, sign, left, right, some_left, some_right, lefts_of, rights_of, self_n, total, count, heads, tails):
    """A word joins (or with −1 leaves) class b."""
    for k in range(lefts_of):
        count[some_left[k], b] += sign * left[some_left[k]]
    for k in range(rights_of):
        count[b, some_right[k]] += sign * right[some_right[k]]
    count[b, b] += sign * self_n
    heads[b] += sign * total
    tails[b] += sign * total
