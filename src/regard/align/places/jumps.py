"""The HMM: a word looks near the last place looked at (Vogel, Ney & Tillmann 1996)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from regard.align.lexicon import Lexicon
from regard.align.places import Found
from regard.align.places.forward_backward import both, emissions, scales, viterbi
from regard.align.view import Block, View
from regard.errors import RegardError
from regard.kernels.compile import kernel
from regard.kernels.vector import like
from regard.kernels.workers import share

__all__ = ["NEAR", "Jumps"]

Array = np.ndarray[Any, Any]

#: Jumps up to this far have a weight each; all that go farther forward share one, and all that go farther back.
NEAR = 20

#: No jump is impossible.
_LEAST = 1e-12


@dataclass(frozen=True)
class Jumps:
    """p(i | i', l) = (1 − null) c(i − i') / Σ_i'' c(i'' − i'), with p(NULL) = ``null`` and the last place kept.

    ``weights[k]`` are the c of class k of the word at i' (its class in ``classes``; all alike without), the last row
    those of the first jump, from i' = −1. Weights are for jumps of −NEAR − 1 … NEAR + 1, the outermost for all beyond.
    ``prior`` is added to every count of a jump. With ``flat`` below 1 the c are raised to that power where they are
    used: what is learnt of jumps on one text then says less about another, and words say more."""

    weights: Array  # float64 [C + 1, 2 NEAR + 3]
    classes: Array  # int32, of each generating word
    null: float
    reach: int  # the longest generating sentence
    prior: float = 0.0
    flat: float = 1.0
    dtype: Any = np.float32
    wide: Array = field(init=False, repr=False)  # a weight for every jump

    def __post_init__(self) -> None:
        if not 0 <= self.null < 1:
            raise RegardError(f"null: found {self.null}, wanted a probability below 1")
        if not 0 <= self.flat <= 1:
            raise RegardError(f"flat: found {self.flat}, wanted a power from 0 (all jumps alike) to 1")
        object.__setattr__(self, "wide", (self.weights**self.flat)[:, self._bucket()].astype(self.dtype))

    @staticmethod
    def starting(
        view: View,
        classes: Array | None = None,
        *,
        null: float = 0.1,
        prior: float = 0.0,
        flat: float = 1.0,
        dtype: Any = np.float32,
    ) -> Jumps:
        """Before training: the next place is the likeliest, and others fall off by e every 4 places."""
        words = view.generating
        if classes is None:
            classes = np.zeros(len(words.words), np.int32)
        weights = np.exp(-np.abs(np.arange(-NEAR - 1, NEAR + 2) - 1) / 4.0)
        kinds = int(classes.max(initial=0)) + 2
        longest = int(words.lengths().max(initial=0))
        return Jumps(np.tile(weights, (kinds, 1)), classes.astype(np.int32), null, longest, prior, flat, dtype)

    def _bucket(self) -> Array:
        """The weight of each jump from −reach to reach."""
        return np.clip(np.arange(-self.reach, self.reach + 1), -NEAR - 1, NEAR + 1) + NEAR + 1

    def over(self, classes: Array, longest: int) -> Jumps:
        """The same jumps for other words, of these ``classes``, in sentences of up to ``longest``."""
        return replace(self, classes=classes, reach=max(longest, 1))

    def expect(self, view: View, block: Block, lexicon: Lexicon, found: Found, threads: int | None) -> None:
        """Forward and backward over each sentence, and the expected jumps."""
        scores, rows = found.begin(block, self.weights.size)
        if len(found.held) == len(view.generating.tokens):  # and the start of every sentence
            found.held = np.concatenate((found.held, np.zeros(len(view.source.offsets) - 1, found.held.dtype)))
        edges = np.array(block.runs, np.int64)
        share(
            _look, [(k, k + 1) for k in range(len(edges))], *view.layout(), lexicon.table, lexicon.null, self.wide,
            self.classes, self.dtype(self.null), self._bucket(), edges, block.base, found.post, found.null,
            found.held, scores, rows, threads=threads,
        )  # fmt: skip
        found.rows[-1] = rows.sum(axis=0, keepdims=True)

    def best(self, view: View, block: Block, lexicon: Lexicon, found: Found, threads: int | None) -> Array:
        """By Viterbi's recursion."""
        _, _, _, gets, *_ = view.layout()
        places = np.empty(int(gets[block.last] - gets[block.first]), np.int32)
        share(
            _path, block.runs, *view.layout(), lexicon.table, lexicon.null, self.wide, self.classes,
            self.dtype(self.null), gets[block.first], places, threads=threads,
        )  # fmt: skip
        return places

    def sums(self, view: View, found: Found) -> Array:
        """Jumps of each class and weight, then how often a jump began at each place of each length."""
        key, size = self._origins(view)
        held = found.held if len(found.held) == len(key) else np.zeros(len(key))
        jumps = found.sums if found.rows else np.zeros(self.weights.size)
        return np.concatenate((jumps, np.bincount(key, weights=held, minlength=size)))

    def _origins(self, view: View) -> tuple[Array, int]:
        """Of each generating token, then of each sentence's start: class, length and place as one number."""
        side = view.generating
        lengths = side.lengths()
        place = np.arange(len(side.tokens)) - np.repeat(side.offsets[:-1], lengths) + 1
        wide = self.reach + 1
        inner = (self.classes[side.tokens].astype(np.int64) * wide + np.repeat(lengths, lengths)) * wide + place
        outer = ((len(self.weights) - 1) * wide + lengths) * wide
        return np.concatenate((inner, outer)), len(self.weights) * wide * wide

    def fitted(self, view: View, sums: Array) -> Jumps:
        """The weights under which these jumps are likelier.

        Σ_d n(d) log c(d) − Σ_o N(o) log Σ_{d ∈ D(o)} c(d), D(o) being the jumps that stay in the sentence from o, has
        no maximum in closed form. Each step c(d) ← n(d) / Σ_{o: d ∈ D(o)} N(o) / Z(o) raises it (Hunter 2004), so the
        likelihood never falls.
        """
        jumps, origins = sums[: self.weights.size].reshape(self.weights.shape), sums[self.weights.size :]
        wide = self.reach + 1
        at = np.nonzero(origins)[0]
        kind, length, place = at // (wide * wide), at // wide % wide, at % wide
        low, high = self.reach - place + 1, self.reach - place + 1 + length  # jumps low … high − 1 stay in
        bucket, weights = self._bucket(), self.weights
        edge = 2 * self.reach + 2
        for _ in range(8):
            total = np.zeros((len(weights), edge))
            np.cumsum(weights[:, bucket], axis=1, out=total[:, 1:])
            part = origins[at] / (total[kind, high] - total[kind, low])
            ends = np.bincount(kind * edge + low, weights=part, minlength=len(weights) * edge)
            ends -= np.bincount(kind * edge + high, weights=part, minlength=len(weights) * edge)
            share = np.cumsum(ends.reshape(len(weights), edge), axis=1)[:, :-1]
            shares = np.stack([np.bincount(bucket, weights=row, minlength=weights.shape[1]) for row in share])
            possible = shares > 1e-12 * shares.max(axis=1, keepdims=True)  # less is what rounding left of nothing
            fitted = np.where(possible, (jumps + self.prior) / np.where(possible, shares, 1.0), np.inf)
            least = np.min(fitted, axis=1, keepdims=True)  # no sentence is long enough for the others
            weights = np.where(possible, fitted, np.where(np.isfinite(least), least, 1.0))
            weights = np.maximum(weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300), _LEAST)
        return replace(self, weights=weights)


@kernel
def _look(
    giving, gives, given, gets, cells, starts, turned, table, null, jumps, classes, none, bucket, edges, base, post,
    nulls, held, scores, rows, first, last
):  # fmt: skip
    least = like(none, 1e-9 if table.itemsize == 4 else 0.0)
    weights = rows.shape[1] // jumps.shape[0]
    for part in range(first, last):
        most_l = most_m = 1
        for s in range(edges[part, 0], edges[part, 1]):
            most_l = max(most_l, gives[s + 1] - gives[s])
            most_m = max(most_m, gets[s + 1] - gets[s])
        few = np.zeros(most_m * most_l, table.dtype)
        match_, real_, looks_ = few, few.copy(), few.copy()
        state_ = np.zeros((most_m + 1) * (most_l + 1), table.dtype)
        nothing, apart = np.zeros(most_m, table.dtype), np.zeros(most_m, table.dtype)
        later, now, scale = (
            np.zeros(most_l + 1, table.dtype),
            np.zeros(most_l + 1, table.dtype),
            np.zeros(most_l + 1, table.dtype),
        )
        out, ahead = np.zeros(most_l + 1, table.dtype), np.zeros(most_l, table.dtype)
        kinds = np.zeros(most_l + 1, np.int32)
        made = np.zeros(jumps.shape, table.dtype)
        score = 0.0
        for s in range(edges[part, 0], edges[part, 1]):
            l, m = gives[s + 1] - gives[s], gets[s + 1] - gets[s]
            if l == 0:
                continue
            match = match_[: m * l].reshape(m, l)
            real = real_[: m * l].reshape(m, l)
            looks = looks_[: m * l].reshape(m, l)
            state = state_[: (m + 1) * (l + 1)].reshape(m + 1, l + 1)
            emissions(table, null, cells, starts[s], given, gets[s], l, m, turned, match, nothing)
            kinds[0] = jumps.shape[0] - 1
            for i in range(l):
                kinds[i + 1] = classes[giving[gives[s] + i]]
            scales(jumps, kinds, l, none, scale)
            score += both(
                match, nothing, jumps, kinds, none, scale, l, m, least, state, real, later, now, ahead, looks,
                apart, out, made,
            )  # fmt: skip
            for j in range(m):
                nulls[gets[s] + j] = apart[j]
                if turned:
                    for i in range(l):
                        post[starts[s] - base + j * l + i] = looks[j, i]
                else:
                    for i in range(l):
                        post[starts[s] - base + i * m + j] = looks[j, i]
            held[len(giving) + s] = out[0]
            for i in range(l):
                held[gives[s] + i] = out[i + 1]
        scores[part] = score
        for kind in range(jumps.shape[0]):
            for d in range(jumps.shape[1]):
                rows[part, kind * weights + bucket[d]] += made[kind, d]


@kernel
def _path(
    giving, gives, given, gets, cells, starts, turned, table, null, jumps, classes, none, origin, places, first, last
):
    for s in range(first, last):
        l, m = gives[s + 1] - gives[s], gets[s + 1] - gets[s]
        if l == 0:
            continue
        match, nothing = np.empty((m, l), table.dtype), np.empty(m, table.dtype)
        emissions(table, null, cells, starts[s], given, gets[s], l, m, turned, match, nothing)
        kinds = np.full(l + 1, jumps.shape[0] - 1, np.int32)
        for i in range(l):
            kinds[i + 1] = classes[giving[gives[s] + i]]
        found = viterbi(match, nothing, jumps, kinds, none)
        for j in range(m):
            places[gets[s] + j - origin] = found[j]
