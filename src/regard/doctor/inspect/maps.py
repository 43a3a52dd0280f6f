"""A head's weights drawn at any length: read in bands of queries, and only what the cells of a map say is kept."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.engines import Reference
from regard.normalize import Softmax
from regard.numerics import wide
from regard.plan import Composition

__all__ = ["Map", "Source", "draw"]

_CELLS = 1 << 21  # weights that are held together


@dataclass(frozen=True)
class Source:
    """What one head's weights come from: the composition of its call, a batch row and a head."""

    composition: Composition
    row: int = 0
    head: int = 0

    @property
    def size(self) -> tuple[int, int]:
        """(L, S)."""
        return self.composition.grid.L, self.composition.grid.S

    @property
    def together(self) -> int:
        """How many heads are computed at once: one, but where score or normaliser know their heads by number."""
        c = self.composition
        return c.q.shape[1] if c.score.no_dot_form or type(c.normalize) is not Softmax else 1

    def scores(self, start: int, stop: int, first: int, last: int) -> Tensor:
        """s (heads together, rows, keys) before any mask, of queries start ≤ i < stop and keys first ≤ j < last."""
        c, b, h = self.composition, self.row, self.head
        g = h // (c.q.shape[1] // c.k.shape[1])
        grid = replace(c.grid.rows(start, stop), b=c.grid.b[b : b + 1])
        if self.together > 1:
            band = replace(c, q=c.q[b : b + 1, :, start:stop], k=c.k[b : b + 1], grid=grid, mask=None)
            return Reference().scores(band)[0, :, :, first:last]
        q, k = wide(c.q[b : b + 1, h : h + 1, start:stop]), wide(c.k[b : b + 1, g : g + 1])
        form = c.score.as_dot(c.score.queries(q, grid), c.score.keys(k, c.grid))
        s = (form.q[0] * form.scale) @ form.k[0, :, first:last].transpose(-2, -1)
        return s if form.row is None else s + form.row[0]

    def allowed(self, start: int, stop: int, first: int, last: int) -> Tensor:
        """Which of the pairs may be seen, (rows, keys)."""
        c = self.composition
        assert c.mask is not None
        seen = c.mask.allows(replace(c.grid.rows(start, stop), j=c.grid.j[..., first:last]))
        return self._own(seen).expand(stop - start, last - first)

    def reach(self, start: int, stop: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """The keys outside of which no query of the band may look, and those at which every query of it may."""
        c = self.composition
        S = c.grid.S
        if c.mask is None:
            return (0, S), (0, S)
        grid = c.grid.rows(start, stop)
        lo, hi = (self._own(edge) for edge in c.mask.hull(grid))
        some = hi > lo
        if not bool(some.any()):
            return (0, 0), (0, 0)
        first, last = int(torch.where(some, lo, S).min()), min(S, int(hi.max()))
        if c.mask.spans(grid) is None:
            return (first, last), (last, last)
        sure = max(first, int(lo.max())), min(last, int(hi.min()))
        return (first, last), sure if sure[0] < sure[1] else (last, last)

    def normalised(self, s: Tensor, full: bool) -> Tensor:
        """The weights (rows, keys) of masked scores; ``full`` where no row of them is empty."""
        c = self.composition
        if type(c.normalize) is Softmax:
            sink = c.normalize.sink
            if sink is None and c.normalize.temperature == 1.0:
                plain = torch.softmax(s, -1)[self.head if len(s) > 1 else 0]
                return plain if full else plain.nan_to_num_(nan=0.0)
            if sink is not None and sink.dim() and len(s) == 1:
                s = Softmax(c.normalize.temperature, sink.detach().flatten()[self.head])(s)
                return s[0]
        w: Tensor = c.normalize(s[None])[0]
        return w[self.head if len(w) > 1 else 0]

    def _own(self, x: Tensor) -> Tensor:
        """The part of (B|1, H|1, …) that is this row's and head's."""
        return x[self.row if x.shape[0] > 1 else 0, self.head if x.shape[1] > 1 else 0]


@dataclass(frozen=True)
class Map:
    """Cells of ``height`` queries by ``width`` keys, from query ``top`` and key ``left``; a plane is (rows, columns).

    The last row and column may be cut short by the end of the region. ``…_without_first`` is the same with the first
    key taken away and the rest of each row scaled up to what the row summed to: a sink hides all else.
    """

    top: int
    left: int
    bottom: int
    right: int
    height: int
    width: int
    share: Tensor
    """Σ w over the cell's keys, its mean over the cell's queries: the share of their weight that the cell has."""
    largest: Tensor
    """The largest weight in the cell."""
    share_without_first: Tensor
    largest_without_first: Tensor

    @property
    def planes(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.share, self.largest, self.share_without_first, self.largest_without_first


@torch.no_grad()
def draw(
    source: Source, rows: tuple[int, int] | None = None, columns: tuple[int, int] | None = None, cells: int = 256
) -> Map:
    """The region of the weights, in at most ``cells`` × ``cells`` equal cells; the whole where it is not given.

    O(S) memory: weights are computed a band of queries at a time, each row whole, because a row is normalised over all
    its keys.

    >>> import regard
    >>> from regard.grid import Grid
    >>> q = torch.randn(1, 1, 7, 4)
    >>> c = Composition(q, q, q, regard.score.ScaledDot(), regard.normalize.Softmax(), None, Grid.of(1, 1, 7, 7))
    >>> m = draw(Source(c), cells=3)
    >>> m.share.shape, m.height, bool((m.share.sum(-1) - 1).abs().max() < 1e-6)
    (torch.Size([3, 3]), 3, True)
    """
    L, S = source.size
    top, bottom = rows or (0, L)
    left, right = columns or (0, S)
    height, width = (-(-max(1, b - a) // cells) for a, b in ((top, bottom), (left, right)))
    step = max(1, _CELLS // max(1, S * source.together) // height) * height
    parts = []
    for start in range(top, bottom, step):
        stop = min(bottom, start + step)
        w, first = _weights(source, start, stop)
        parts.append(_pooled(w, first, (left, right), height, width))
    empty = torch.zeros(0, 0)
    planes = [torch.cat(plane) for plane in zip(*parts, strict=True)] if parts else [empty] * 4
    return Map(top, left, bottom, right, height, width, *planes)


def _weights(source: Source, start: int, stop: int) -> tuple[Tensor, int]:
    """w (rows, ·) of queries start ≤ i < stop, and the key at which it begins: what nobody may see is not computed."""
    (first, last), sure = source.reach(start, stop)
    if last <= first:
        return torch.zeros(stop - start, 0), 0
    s = source.scores(start, stop, first, last)
    for a, b in ((first, sure[0]), (sure[1], last)):
        if b > a:
            s[..., a - first : b - first].masked_fill_(~source.allowed(start, stop, a, b), -torch.inf)
    return source.normalised(s, full=sure[1] > sure[0]), first


def _pooled(w: Tensor, first: int, columns: tuple[int, int], height: int, width: int) -> list[Tensor]:
    """The four planes of a band: share and largest weight of its cells, with the first key and without.

    Keys are put together first, for every row; without the first key a row is the same up to a factor, but for the cell
    that the key lies in.
    """
    left, right = columns
    across = -(-(right - left) // width)
    begin = max(0, (first - left) // width) * width + left  # the cells before it hold nothing
    end = min(right, first + w.shape[1])
    cells = -(-max(0, end - begin) // width)
    cut = w.new_zeros(len(w), cells * width)
    a, b = max(begin, first), end
    if b > a:
        cut[:, a - begin : b - begin] = w[:, a - first : b - first]
    tiles = cut.view(len(w), cells, width)
    share, largest = tiles.sum(-1), tiles.amax(-1)
    seen_first = first == 0 and w.shape[1] > 0
    total, one = w.sum(-1), w[:, 0] if seen_first else w.new_zeros(len(w))
    rest = w[:, 1:].sum(-1) if seen_first else total
    factor = torch.where(rest > 0, total / torch.where(rest > 0, rest, 1.0), 0.0)[:, None]
    share_rest, largest_rest = share, largest
    if bool((one > 0).any()) and begin == 0 and cells:
        tiles[:, 0, 0] = 0.0
        share_rest = torch.cat([tiles[:, :1].sum(-1), share[:, 1:]], 1)
        largest_rest = torch.cat([tiles[:, :1].amax(-1), largest[:, 1:]], 1)
    place = ((begin - left) // width, across - (begin - left) // width - cells)
    made = []
    for plane, mean in ((share, True), (largest, False), (share_rest * factor, True), (largest_rest * factor, False)):
        down = _down(plane, height, mean)
        made.append(torch.nn.functional.pad(down, place))
    return made


def _down(plane: Tensor, height: int, mean: bool) -> Tensor:
    """Rows put together: their mean, or the largest of them."""
    parts = plane.split(height)
    return torch.stack([part.mean(0) if mean else part.amax(0) for part in parts])
