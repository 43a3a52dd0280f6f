"""A read by its definition, cell by cell in float64, and what is compared with it."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import regard
from regard.normalize import Normalizer
from regard.reading import Reading
from regard.score import Score
from tests.laws.masks import GROUPS, IN_GROUP, MASKS
from tests.laws.normalisers import NORMALISERS
from tests.laws.scores import SCORES
from tests.laws.shapes import END, B, E, G, H, L, S


@functools.cache
def score_part(name: str) -> Score:
    """The part in float64, with parameters that are not at their quiet beginning."""
    part = SCORES[name].build().double()
    generator = torch.Generator().manual_seed(3)
    for parameter in part.parameters():
        with torch.no_grad():
            parameter.normal_(0.0, 0.4, generator=generator)
    return part


@functools.cache
def normaliser_part(name: str) -> Normalizer:
    return NORMALISERS[name].build().double()


@functools.cache
def inputs(name: str) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v in float64 for this score; the caller may not write into them."""
    generator = torch.Generator().manual_seed(4)
    q_width, k_width = SCORES[name].widths
    shapes = ((B, H, L, q_width), (B, G, S, k_width), (B, G, S, E))
    q, k, v = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return 0.6 * q, 0.6 * k, v


@functools.cache
def true_scores(name: str) -> Tensor:
    q, k, _ = inputs(name)
    pair, part = SCORES[name].pair, score_part(name)
    s = torch.empty(B, H, L, S, dtype=torch.float64)
    with torch.no_grad():
        for b, h, i, j in itertools.product(range(B), range(H), range(L), range(S)):
            s[b, h, i, j] = pair(part, q[b, h, i], k[b, h // 2, j], h, i + END, j)  # two query heads to a key head
    return s


def cells(rule: Callable[[int, int, int, int], bool]) -> Tensor:
    table = torch.empty(B, H, L, S, dtype=torch.bool)
    for at in itertools.product(range(B), range(H), range(L), range(S)):
        table[at] = rule(*at)
    return table


@functools.cache
def visible(name: str) -> Tensor:
    return cells(MASKS[name].sees)


@functools.cache
def in_group(name: str) -> Tensor:
    return cells(IN_GROUP[name])


@dataclass(frozen=True)
class Truth:
    weights: Tensor
    output: Tensor
    lse: Tensor
    seen: Tensor
    entropy: Tensor
    peak: Tensor
    distance: Tensor
    spread: Tensor
    mass: dict[str, Tensor]


@functools.cache
def truth(scored: str, normalised: str, masked: str) -> Truth:
    """A read by its definition, in float64."""
    case, sees = NORMALISERS[normalised], visible(masked)
    s = true_scores(scored).masked_fill(~sees, -math.inf)
    w = case.rows(s)
    values = inputs(scored)[2].repeat_interleave(2, dim=1)
    places = torch.arange(L)[:, None] + END - torch.arange(S)
    spread = torch.zeros(B, H, dtype=torch.float64)
    for b, h in itertools.product(range(B), range(H)):
        seen_scores = true_scores(scored)[b, h][sees[b, h]]
        spread[b, h] = seen_scores.std(correction=0) if seen_scores.numel() else 0.0
    return Truth(
        weights=w,
        output=torch.einsum("bhls,bhse->bhle", w, values),
        lse=torch.exp(s / case.temperature).sum(-1).log(),
        seen=sees.sum(-1),
        entropy=-torch.xlogy(w, w).sum(-1),
        peak=w.amax(-1),
        distance=(w * places.abs()).sum(-1),
        spread=spread,
        mass={name: (w * in_group(name)).sum(-1) for name in GROUPS},
    )


def close(found: Tensor | None, wanted: Tensor, what: str, tolerance: float = 1e-9) -> None:
    """Equal to ``tolerance``, infinities in the same places, no NaN."""
    assert found is not None, f"{what} was not measured"
    x, y = found.detach().double(), wanted.detach().double()
    assert x.shape == y.shape, f"{what}: shape {tuple(x.shape)}, wanted {tuple(y.shape)}"
    alike = torch.isclose(x, y, rtol=tolerance, atol=tolerance)
    if not alike.all():
        raise AssertionError(f"{what}: {(~alike).sum()} of {x.numel()} differ, by up to {(x - y).abs().max():.3g}")


def read(scored: str, normalised: str, masked: str, engine: str = "reference", **more: Any) -> Reading:
    q, k, v = inputs(scored)
    parts = {"score": score_part(scored), "normalize": normaliser_part(normalised), "mask": MASKS[masked].build()}
    with torch.no_grad():
        return regard.read(q, k, v, engine=engine, **(parts | more))


def check_truth(r: Reading, t: Truth, what: str, tolerance: float = 1e-9) -> None:
    close(r.output, t.output, f"{what}: output", tolerance)
    close(r.lse, t.lse, f"{what}: lse", tolerance)
    assert torch.equal(r.seen, t.seen), f"{what}: seen"
    close(r.entropy, t.entropy, f"{what}: entropy", tolerance)
    close(r.peak, t.peak, f"{what}: peak", tolerance)
    close(r.distance, t.distance, f"{what}: distance", tolerance)
    close(r.spread, t.spread, f"{what}: spread", tolerance)
    assert r.mass.keys() == t.mass.keys()
    for name in t.mass:
        close(r.mass[name], t.mass[name], f"{what}: mass of {name}", tolerance)
    assert r.peak_at is not None
    first = torch.where(t.seen > 0, (t.weights > t.peak.unsqueeze(-1) - 1e-9).int().argmax(-1), -1)
    assert torch.equal(r.peak_at, first), f"{what}: peak_at"
