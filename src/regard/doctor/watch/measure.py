"""What a call's looks were like, by regard's own engines, in O(L) memory: no weight for every pair is ever held."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from regard import operator
from regard.doctor.watch.call import Call
from regard.doctor.watch.parts import Back, Held
from regard.engines import Reference
from regard.grid import Grid
from regard.normalize import Softmax, named
from regard.numerics import wide
from regard.plan import Composition
from regard.reading import Reading

NAMES = ("entropy", "peak", "distance", "spread")
#: Rows of weights that heads are compared by, at most, and the weights held for it at once.
ROWS, CELLS = 64, 1 << 20
#: Weights that are looked at all at once on a CPU: kernels for more would first have to be compiled.
SMALL = 1 << 22


class Measured(NamedTuple):
    """Per query, (B, H, L) each; ``spread`` (B, H); ``alike`` (H, H) sums over ``compared`` rows."""

    seen: Tensor
    lse: Tensor
    evenness: Tensor
    peak: Tensor
    distance: Tensor
    mass: dict[str, Tensor]
    spread: Tensor
    alike: Tensor
    compared: int


def engine_for(call: Call) -> str:
    if call.q.device.type != "cpu":
        return "auto"
    return "reference" if math.prod(call.shape) <= SMALL else "tiled"


def measured(call: Call, groups: dict[str, Tensor], counts: Tensor | None, reading: Reading | None = None) -> Measured:
    """The statistics of a call; ``reading`` is what a read in the same pass already found, for the same groups.

    ``counts`` (B|1, L) says which queries are real tokens: heads are compared by their rows alone.
    """
    c = composition(call)
    tags, points = asked(c, groups)
    r = reading
    if r is None:
        on_cpu = call.q.device.type == "cpu"
        values = c.v[..., :0] if on_cpu else c.v  # the statistics need no values
        r = operator.read(
            c.q, c.k, values, score=c.score, normalize=c.normalize, mask=c.mask, engine=engine_for(call),
            telemetry=NAMES, groups=tags,
        )  # fmt: skip
    assert r.entropy is not None
    assert r.peak is not None
    assert r.distance is not None
    assert r.spread is not None
    mass = {name: r.mass[name] for name in tags} | {name: _at(c, r, back) for name, back in points.items()}
    alike, compared = _alike(c, r.seen, counts)
    return Measured(r.seen, r.lse, r.evenness, r.peak, r.distance, mass, r.spread, alike, compared)


def composition(call: Call) -> Composition:
    with torch.no_grad():
        q, k, v = (x.detach() for x in (call.q, call.k, call.v))
        grid = Grid.of(*call.shape, device=q.device)
        return Composition(q, k, v, call.score, named(call.normalize), call.mask, grid)


def asked(c: Composition, groups: dict[str, Tensor]) -> tuple[dict[str, Tensor | Back], dict[str, int | None]]:
    """Groups for the read, and single keys whose weight Λ tells: w = exp(s − Λ), a query's own place and its like.

    A number says how many places back the key lies; None is the first key.
    """
    tags: dict[str, Tensor | Back] = dict(groups)
    first = torch.arange(c.grid.S, device=c.q.device) < 1
    plain = type(c.normalize) is Softmax and c.normalize.sink is None
    if plain and (isinstance(c.score, Held) or not c.score.no_dot_form):
        return tags, {"first": None, "self": 0, "previous": 1}
    return {**tags, "first": first, "self": Back(0), "previous": Back(1)}, {}


def _at(c: Composition, r: Reading, back: int | None) -> Tensor:
    """The weight of one key for each query, (B, H, L): 0 where there is none or it may not be seen."""
    grid = c.grid
    B, H, L, S = grid.shape
    place = torch.zeros_like(grid.i) if back is None else grid.query_places("end", "watch") - back  # (1, 1, L, 1)
    there = (place >= 0) & (place < S)
    at = place.clamp(0, max(0, S - 1))
    if not S:
        return torch.zeros_like(r.lse)
    if isinstance(c.score, Held):
        s = wide(c.score.scores.expand(B, H, L, S).gather(3, at.expand(B, H, L, 1)))
    else:
        form = c.score.as_dot(c.score.queries(wide(c.q), grid), c.score.keys(wide(c.k), grid))
        grouped = form.q.unflatten(1, (form.k.shape[1], -1))  # (B, G, H/G, L, D)
        if back is None:
            product = (grouped @ form.k[:, :, None, :1].mT)[..., 0]
        else:
            product = (grouped * form.k[:, :, at.flatten()].unsqueeze(2)).sum(-1)
        s = form.scale * product.flatten(1, 2).unsqueeze(-1)
        s = s if form.row is None else s + form.row
    assert isinstance(c.normalize, Softmax)
    allowed = there
    if c.mask is not None:
        allowed = there & c.mask.allows(Grid(grid.b, grid.h, grid.i, at, L, S))
    weight = torch.exp(s[..., 0] / c.normalize.temperature - torch.where(r.seen > 0, r.lse, math.inf))
    return torch.where(allowed.expand(B, H, L, 1)[..., 0], weight, 0.0).clamp(max=1.0)


def _alike(c: Composition, seen: Tensor, counts: Tensor | None) -> tuple[Tensor, int]:
    """Σ over sampled queries of Σ_j √(w_hj w_gj), how alike two heads look: (H, H), and the number of queries.

    A query that sees one key looks there in every head, and says nothing.
    """
    B, H, L, S = c.grid.shape
    alike = torch.zeros(H, H, dtype=torch.float64)
    rows = min(L, max(1, ROWS // max(1, B)), max(1, CELLS // max(1, B * H * S)))
    if H < 2 or not S or not L:
        return alike, 0
    if B * H * S > CELLS:  # one batch row stands for the others
        c = replace(c, q=c.q[:1], k=c.k[:1], v=c.v[:1], grid=replace(c.grid, b=c.grid.b[:1]))
        seen, counts = seen[:1], None if counts is None else counts[:1]
    at = ((torch.arange(rows, device=c.q.device) * 2 + 1) * L) // (2 * rows)
    sampled = replace(c, q=c.q[:, :, at], grid=replace(c.grid, i=c.grid.i[:, :, at]))
    w = Reference().weights(sampled)  # (B, H, rows, S)
    useful = (seen[:, :, at] > 1).all(1)  # (B, rows)
    if counts is not None:
        useful = useful & counts.expand(-1, L)[:, at]
    root = torch.where(useful[:, None, :, None], w, 0.0).nan_to_num(0.0).sqrt()
    alike = torch.einsum("bhrs,bgrs->hg", root, root).double().cpu()
    return alike, int(useful.expand(w.shape[0], -1).sum())
