"""Which pass reads a composition, and how its findings become a reading."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from regard.engines.memory import is_finite, report_non_finite, without_hidden
from regard.engines.reference import Reference
from regard.engines.tiled import passes, readings, recipe
from regard.engines.tiled.by_reference import HELD, by_reference
from regard.engines.tiled.chunks import HELD as CHUNK
from regard.engines.tiled.seen import CELL
from regard.engines.visible import block, counts, live_cells, tiles
from regard.plan import Composition, Cost, Wanted, products
from regard.reading import TELEMETRY, Reading


class Tiled:
    """Score tiles in cache, normalised as they come: what may not be seen is never computed, nothing (L, S) is kept."""

    name = "tiled"
    reports = True
    #: The tile: what two cores keep in cache beside its queries, keys and values.
    rows, columns = 256, 512

    def refuses(self, c: Composition) -> str:
        if c.q.device.type != "cpu":
            return f"its kernels are for the CPU, q is on {c.q.device}"
        if any(torch._C._functorch.is_batchedtensor(x) for x in (c.q, c.k, c.v)):
            return "inside torch.func.vmap its kernels see no numbers; make what is mapped over a batch axis"
        if torch.compiler.is_compiling() and not _known(c):
            return f"while compiling: {recipe.lowers(c.score) or _unknown(c)}"
        return ""

    def cost(self, c: Composition, telemetry: bool = False, exact: bool = False) -> Cost:
        live = live_cells(c.mask, c.grid, min(CELL, self.rows, self.columns), exact)
        if live is not None:
            rows = live.block(self.rows)
        else:
            rows = self.rows if c.mask is None else block(*c.mask.hull(c.grid), self.rows)
        (run, of), n = tiles(c.mask, c.grid, rows, self.columns, live)
        threads, item = torch.get_num_threads(), max(4, c.q.element_size())
        half, plain = c.q.element_size() < 4, recipe.plain(c.score)
        widened = 0 if not half else 4 * (CHUNK if plain else c.q.numel() + c.k.numel())
        held = threads * self.rows * (self.columns + c.v.shape[-1]) * item + widened
        if not _known(c):  # the reference, a band at a time: slower than at once, but for the memory
            dense = Reference().cost(c, telemetry)
            return Cost(dense.flops, min(dense.held, HELD * item), 1.5 * dense.seconds - dense.held * 2.5e-10)
        hidden = 1.5e-10 * max(c.q.shape[-1], c.k.shape[-1]) if c.score.no_dot_form else 0.0
        seconds = 1.5e-4 + products(c, n) / 1.6e11 + n * (2e-10 + hidden)
        return Cost(products(c, n), held, seconds, (run, of))

    def attend(self, c: Composition) -> Tensor:
        return self._read(c, Wanted(), lse=False).output

    def read(self, c: Composition, wanted: Wanted) -> Reading:
        return self._read(c, replace(wanted, names=TELEMETRY - {"mass"}) if wanted.cheap else wanted, lse=True)

    def _read(self, c: Composition, wanted: Wanted, lse: bool) -> Reading:
        if not _known(c):
            return replace(by_reference(c, wanted), engine=self.name)
        c = _readable(c)
        made = passes.prepared(c, wanted, (self.rows, self.columns))
        r = replace(readings.reading(made, c, wanted, lse), engine=self.name)
        # NaN in q or k is NaN in Λ: a look at that is cheaper than one at q and k.
        if not torch.compiler.is_compiling() and bool(r.lse.detach().isnan().any()):
            report_non_finite(c, stacklevel=5)
        return r


def _readable(c: Composition) -> Composition:
    """Without what nobody may see, where that is not a number: 0 · NaN would be NaN."""
    if c.mask is None or _finite(c.k, c.v):
        return c
    seen = counts(c.mask, c.grid)[1]
    k, v = without_hidden(c.k, c.v, None if seen is None else seen.unsqueeze(2))
    return replace(c, k=k, v=v)


def _known(c: Composition) -> bool:
    return not recipe.lowers(c.score) and not _unknown(c)


def _unknown(c: Composition) -> str:
    if type(c.normalize) in readings.KNOWN:
        return ""
    return f"the normaliser {type(c.normalize).__name__} is only known as a function of a row"


def _finite(*given: Tensor) -> bool:
    if torch.compiler.is_compiling() or any(x.dtype not in (torch.float32, torch.float64) for x in given):
        return all(is_finite(x) is True for x in given)
    from regard.kernels.finite import all_finite

    return all(all_finite(x) for x in given)
