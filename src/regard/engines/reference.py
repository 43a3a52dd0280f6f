"""The reference engine: attention on one screen. Dense, slow, right; the others are tested against it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.engines.memory import without_hidden
from regard.normalize import Softmax
from regard.numerics import wide
from regard.plan import Composition, Cost, Wanted, pairs, products
from regard.reading import TELEMETRY, Reading


class Reference:
    """Scores for every pair, weights for every row, the weighted average of the values. O(L·S) memory."""

    name = "reference"
    reports = False

    def refuses(self, c: Composition) -> str:
        return ""

    def cost(self, c: Composition, telemetry: bool = False, exact: bool = False) -> Cost:
        n, item = pairs(c), max(4, c.q.element_size())
        held = 2 * n * item
        hidden = c.q.shape[-1] + c.k.shape[-1] if c.score.no_dot_form else 0  # a vector a pair, at worst
        # Every pair is written and read a few times; pages that are new cost more than that.
        seconds = 5e-5 + products(c, n) / 1e11 + n * (6e-9 + 2e-9 * hidden) + held * 2.5e-10
        return Cost(products(c, n), held, 2 * seconds if telemetry else seconds)

    def scores(self, c: Composition) -> Tensor:
        """s (B, H, L, S), −inf where the query may not look; half precision is computed in float32."""
        q, k = wide(c.q), wide(c.k)
        q, k = c.score.queries(q, c.grid), c.score.keys(k, c.grid)
        s = c.score.compare(q, _for_each_head(k, q.shape[1]), c.grid)
        return s if c.mask is None else s.masked_fill(~c.mask.allows(c.grid), -math.inf)

    def weights(self, c: Composition) -> Tensor:
        """w (B, H, L, S): ≥ 0, each row sums to 1, or to 0 when it may see nothing."""
        return _normalised(c, self.scores(c))

    def attend(self, c: Composition) -> Tensor:
        c = _readable(c)
        return _average(c, self.weights(c))

    def read(self, c: Composition, wanted: Wanted) -> Reading:
        c = _readable(c)
        s = self.scores(c)
        w = _normalised(c, s)
        lse = c.normalize.lse(s)
        B, H, L, S = c.grid.shape
        visible = torch.ones_like(s, dtype=torch.bool) if c.mask is None else c.mask.allows(c.grid).expand(B, H, L, S)
        seen = visible.sum(-1)
        plain = isinstance(c.normalize, Softmax)
        sink = c.normalize.sink_logit(s) if isinstance(c.normalize, Softmax) else None
        reading = Reading(
            output=_average(c, w),
            lse=lse,
            seen=seen,
            sink=None if sink is None else (sink.squeeze(-1) if sink.dim() else sink),
            no_merge=c.normalize.no_merge or ("" if plain else "only softmax readings merge"),
            engine=self.name,
        )
        return _with_telemetry(reading, c, s, w, visible, wanted)


def _readable(c: Composition) -> Composition:
    k, v = without_hidden(c.k, c.v, None if c.mask is None else c.mask.allows(c.grid))
    return replace(c, k=k, v=v)


def _normalised(c: Composition, s: Tensor) -> Tensor:
    return c.normalize(s) if s.shape[-1] else s


def _average(c: Composition, w: Tensor) -> Tensor:
    w = F.dropout(w, c.dropout) if c.dropout else w
    return (w @ _for_each_head(wide(c.v), w.shape[1]).to(w.dtype)).to(c.q.dtype)


def _for_each_head(x: Tensor, H: int) -> Tensor:
    """(B, G, S, D) → (B, H, S, D): query head h reads key head h // (H // G)."""
    return x if x.shape[1] == H else x.repeat_interleave(H // x.shape[1], dim=1)


def _with_telemetry(r: Reading, c: Composition, s: Tensor, w: Tensor, visible: Tensor, wanted: Wanted) -> Reading:
    names = TELEMETRY if wanted.cheap else wanted.names
    S = w.shape[-1]
    found: dict[str, Any] = {}
    if "entropy" in names:
        found["entropy"] = -torch.where(w > 0, w * torch.where(w > 0, w, 1.0).log(), 0.0).sum(-1)
    if "peak" in names or "bound" in names:
        peak, at = w.max(-1) if S else (r.lse.new_zeros(r.lse.shape), r.seen.clone())
        found |= {"peak": peak, "bound": peak, "peak_at": torch.where(r.seen > 0, at, -1)}
    if "distance" in names:
        found["distance"] = (w * (c.grid.query_places("end", "distance") - c.grid.j).abs()).sum(-1)
    if "spread" in names:
        found["spread"] = _spread(s, visible)
    mass = {name: (w * group.allows(c.grid)).sum(-1) for name, group in wanted.groups.items()}
    return replace(r, mass=mass, **found)


def _spread(s: Tensor, visible: Tensor) -> Tensor:
    """Standard deviation of the scores of each head over its visible pairs, (B, H)."""
    count = visible.sum((-2, -1)).clamp(min=1)
    known = torch.where(visible, s, 0.0)
    mean = known.sum((-2, -1)) / count
    return (torch.where(visible, s - mean[..., None, None], 0.0).square().sum((-2, -1)) / count).clamp(min=0).sqrt()
