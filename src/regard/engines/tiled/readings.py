"""A reading for each normaliser, from passes: softmax with or without a sink, hard choices, sparse weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.engines.tiled.by_reference import by_reference
from regard.engines.tiled.given import DISTANCE, ENTROPY, MOMENTS, PEAK
from regard.engines.tiled.passes import Pass, Sums
from regard.grid import Grid
from regard.mask import Mask
from regard.normalize import Annealed, Entmax, GumbelSoftmax, Hardmax, Softmax, Sparsemax, TopK
from regard.plan import Composition, Wanted
from regard.reading import Reading

#: Normalisers that the passes know; they are leaves, a subclass is something else.
KNOWN = (Softmax, Entmax, Sparsemax, TopK, Hardmax, GumbelSoftmax)
_BITS = {"entropy": ENTROPY, "peak": PEAK, "bound": PEAK, "distance": DISTANCE, "spread": MOMENTS}


def reading(p: Pass, c: Composition, wanted: Wanted, lse: bool) -> Reading:
    """The reading of a composition whose parts are all known; ``lse`` False leaves out what only a reading needs."""
    n = c.normalize
    if isinstance(n, Softmax):
        return _soft(p, c, wanted, n)
    if isinstance(n, Entmax | TopK):
        return _sparse(p, c, wanted, n, lse)
    if isinstance(n, GumbelSoftmax) and n.training:
        tau = n.temperature(n.step) if isinstance(n.temperature, Annealed) else n.temperature
        n.step += 1
        drawn = p.noisy(n.generator)
        r = _hard(drawn, c, wanted, tau) if n.hard else _of(drawn, c, drawn.softmax(_bits(wanted), tau), wanted, tau)
        return _with_scores(r, p, wanted, lse)
    return _hard(p, c, wanted)


def _soft(p: Pass, c: Composition, wanted: Wanted, n: Softmax) -> Reading:
    r = _of(p, c, p.softmax(_bits(wanted), n.temperature), wanted, n.temperature)
    logit = n.sink_logit(r.lse)
    if logit is None:
        return r
    # The sink is one more key that holds nothing: what the others got shrinks to the share that is left to them.
    sink = logit.squeeze(-1) if logit.dim() else logit
    nothing = r.lse == -math.inf
    odds = torch.where(nothing, 0.0, r.lse) - sink
    kept = torch.where(nothing, 0.0, torch.sigmoid(odds))

    def shrunk(x: Tensor | None) -> Tensor | None:
        return None if x is None else kept * x

    return replace(
        r,
        output=(kept.unsqueeze(-1) * r.output).to(r.output.dtype),
        entropy=None if r.entropy is None else kept * (r.entropy - F.logsigmoid(odds)),
        peak=shrunk(r.peak),
        bound=shrunk(r.bound),
        distance=shrunk(r.distance),
        mass={name: kept * m for name, m in r.mass.items()},
        sink=sink,
    )


def _of(p: Pass, c: Composition, s: Sums, wanted: Wanted, temperature: float = 1.0) -> Reading:
    """What a softmax pass found, as a reading."""
    assert s.lse is not None
    return Reading(
        output=s.out.to(c.q.dtype),
        lse=s.lse,
        seen=p.counts,
        entropy=s.entropy,
        bound=s.peak,
        peak=s.peak,
        peak_at=None if s.at is None else s.at.long(),
        mass=_ordered(wanted, dict(zip(p.tagged, s.mass, strict=True)) | _shares(p, s.lse, temperature)),
        distance=s.distance,
        spread=s.spread,
        no_merge=c.normalize.no_merge,
    )


def _shares(p: Pass, lse: Tensor, temperature: float) -> dict[str, Tensor]:
    """Of groups that the query decides too: exp(Λ of the group alone − Λ); only tiles with the group are looked at."""
    found = {}
    for name, group in p.placed.items():
        part = p.within(group).softmax(0, temperature).lse
        assert part is not None
        absent = (part == -math.inf) | (lse == -math.inf)
        found[name] = torch.where(absent, 0.0, torch.exp(torch.where(absent, 0.0, part - lse)))
    return found


def _with_scores(r: Reading, p: Pass, wanted: Wanted, lse: bool) -> Reading:
    """With what is said of the scores themselves, Λ and their spread, which the weights do not tell."""
    if not lse:
        return r
    s = p.without_values().softmax(MOMENTS if "spread" in wanted.names else 0)
    assert s.lse is not None
    return replace(r, lse=s.lse, spread=s.spread)


def _hard(p: Pass, c: Composition, wanted: Wanted, temperature: float = 1.0) -> Reading:
    """The value of the best key, w = one-hot + (soft − soft held fixed): every statistic gets the soft one's gradient.

    The soft pass reads values that are held fixed, so that each value's own gradient is that of the hard choice.
    """
    held = replace(p, v=p.v.detach())
    s = held.softmax(_bits(wanted) | PEAK, temperature)
    assert s.at is not None
    assert s.peak is not None
    at, looks = s.at.long(), s.at >= 0
    chosen = _at_keys(p.v, at.clamp(min=0)) * p.kept(at).unsqueeze(-1)
    soft = _of(held, c, s, wanted, temperature)
    far = (p.grid.query_places("end", "distance")[..., 0] - at).abs()

    def through(value: Tensor, gradient: Tensor) -> Tensor:
        return torch.where(looks, value.to(gradient.dtype), 0.0) + (gradient - gradient.detach())

    one = through(torch.ones_like(s.peak), s.peak)
    mass = {
        name: through(_members(group, p.grid, at.clamp(min=0)), soft.mass[name])
        for name, group in wanted.groups.items()
    }
    return replace(
        soft,
        output=(torch.where(looks.unsqueeze(-1), chosen, 0.0) + (s.out - s.out.detach())).to(c.q.dtype),
        entropy=through(torch.zeros_like(s.peak), -s.peak) if "entropy" in wanted.names else None,
        peak=one,
        bound=one,
        distance=None if soft.distance is None else through(far, soft.distance),
        mass=mass,
    )


def _at_keys(v: Tensor, at: Tensor) -> Tensor:
    """v (B, G, S, E) at keys (B, H, L), each head its own: (B, H, L, E)."""
    B, H, L = at.shape
    if not v.shape[2]:
        return v.new_zeros(B, H, L, v.shape[3])
    index = at.reshape(B, v.shape[1], -1, 1).expand(-1, -1, -1, v.shape[3])
    return v.gather(2, index).view(B, H, L, v.shape[3])


def _members(group: Mask, grid: Grid, at: Tensor) -> Tensor:
    """Whether key at[b, h, i] is in the group, for each query."""
    picked = Grid(grid.b, grid.h, grid.i, at.unsqueeze(-1), grid.L, grid.S)
    return group.allows(picked).expand(*at.shape, 1).squeeze(-1) if grid.S else torch.zeros_like(at, dtype=torch.bool)


def _sparse(p: Pass, c: Composition, wanted: Wanted, n: Entmax | TopK, lse: bool) -> Reading:
    want = _bits(wanted) & ~MOMENTS
    s = p.top(n.k, want) if isinstance(n, TopK) else p.threshold(n.alpha, want)
    mass = dict(zip(p.tagged, s.mass, strict=True))
    if p.placed:  # weights of a group that the query decides: only the weights themselves tell
        mass |= by_reference(c, Wanted(groups=p.placed)).mass
    r = Reading(
        output=s.out.to(c.q.dtype),
        lse=s.out.detach().sum(-1),  # a stand-in until the scores are asked: it shows NaN, and that is looked for
        seen=p.counts,
        entropy=s.entropy,
        bound=s.peak,
        peak=s.peak,
        peak_at=None if s.at is None else s.at.long(),
        mass=_ordered(wanted, mass),
        distance=s.distance,
        no_merge=n.no_merge,
    )
    return _with_scores(r, p, wanted, lse)


def _bits(wanted: Wanted) -> int:
    want = 0
    for name in wanted.names:
        want |= _BITS[name]
    return want


def _ordered(wanted: Wanted, mass: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: mass[name] for name in wanted.groups}
