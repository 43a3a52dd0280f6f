"""What is kept of a module's heads over any number of batches: sums, O(H²) numbers, that merge by addition."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.doctor.watch.measure import Measured
from regard.errors import RegardError

#: A row is saturated below this share of log n.
SATURATED = 0.1

#: How each state of two ranks becomes one. Masses are sums, one a group.
REDUCTIONS = {
    "queries": "sum", "rows": "sum", "choices": "sum", "empty": "sum", "saturated": "sum", "evenness": "sum",
    "peak": "sum", "distance": "sum", "variance": "sum", "pairs": "sum", "alike": "sum", "compared": "sum",
    "top": "max", "value": "max", "calls": "sum",
}  # fmt: skip


def _zero(heads: int) -> dict[str, Tensor]:
    state = {name: torch.zeros(heads, dtype=torch.float64) for name in REDUCTIONS}
    state["alike"] = torch.zeros(heads, heads, dtype=torch.float64)
    state["top"] = torch.full((heads,), -torch.inf, dtype=torch.float64)
    return state


@dataclass
class Stream:
    """The sums of one module (and one number of heads). ``state`` is by name, on the CPU, in float64.

    ``mass[name]`` is (sum, rows it was counted over), because not every batch has padding.
    """

    module: str
    heads: int
    source: str = ""
    kind: str = ""
    state: dict[str, Tensor] = field(default_factory=dict)
    mass: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.state = self.state or _zero(self.heads)

    def update(self, m: Measured, counts: Tensor | None, value: Tensor | None) -> None:
        """Adds a call. ``counts`` (B|1, L) are the real queries; ``value`` (H,) the largest |v| of each head."""
        B, H, L = m.seen.shape
        real = torch.ones(1, 1, 1, dtype=torch.bool, device=m.seen.device) if counts is None else counts[:, None, :]
        real = real.expand(B, H, L)
        number = ~m.lse.isnan()  # a row of NaN is told of, not averaged
        looks, chooses = real & number & (m.seen > 0), real & number & (m.seen > 1)
        pairs = m.seen.sum(-1, dtype=torch.float64)  # (B, H)
        # Stacked, because many small operations cost more than a few large ones.
        flags = {
            "queries": real,
            "rows": looks,
            "choices": chooses,
            "empty": real & (m.seen == 0),
            "saturated": chooses & (m.evenness < SATURATED),
        }
        sums = {"evenness": m.evenness, "peak": m.peak, "distance": m.distance, **m.mass}
        counted = torch.stack(list(flags.values())).sum((1, 3)).double().cpu()
        over = torch.stack([chooses if name == "evenness" else looks for name in sums])
        summed = torch.where(over, torch.stack(list(sums.values())), 0.0).sum((1, 3), dtype=torch.float64).cpu()
        for name, x in zip(flags, counted, strict=True):
            self.state[name] += x
        rows = counted[list(flags).index("rows")]
        for name, x in zip(sums, summed, strict=True):
            if name in m.mass:
                both = torch.stack([x, rows])
                self.mass[name] = self.mass[name] + both if name in self.mass else both
            else:
                self.state[name] += x
        self.state["calls"] += 1
        self.state["pairs"] += pairs.sum(0).cpu()
        self.state["variance"] += (pairs * m.spread.double().square().nan_to_num(0.0)).sum(0).cpu()
        self.state["alike"] += m.alike
        self.state["compared"] += m.compared
        top = torch.where(looks, m.lse - m.seen.clamp(min=1).to(m.lse.dtype).log(), -torch.inf)
        top = top.amax((0, 2)) if top.numel() else torch.full((H,), -torch.inf)
        self.state["top"] = torch.maximum(self.state["top"], top.double().cpu())
        if value is not None:
            self.state["value"] = torch.maximum(self.state["value"], value.double().cpu())

    def merge(self, other: Stream) -> None:
        if other.heads != self.heads:
            raise RegardError(
                f"merge: {self.module or 'the model'} has {self.heads} heads here and {other.heads} there, wanted "
                "recordings of the same model"
            )
        for name, reduction in REDUCTIONS.items():
            mine, theirs = self.state[name], other.state[name]
            self.state[name] = mine + theirs if reduction == "sum" else torch.maximum(mine, theirs)
        for name, sums in other.mass.items():
            self.mass[name] = self.mass[name] + sums if name in self.mass else sums.clone()

    def mean(self, name: str) -> Tensor:
        """The mean of a statistic over the rows it is about, (H,); NaN where there was none."""
        over = {"evenness": "choices", "saturated": "choices", "empty": "queries"}.get(name, "rows")
        if name in self.mass:
            return self.mass[name][0] / self.mass[name][1]
        return self.state[name] / self.state[over]

    def spread(self) -> Tensor:
        return (self.state["variance"] / self.state["pairs"]).sqrt()

    def similarity(self) -> Tensor:
        """The mean Bhattacharyya coefficient of two heads' rows, (H, H): 1 looks alike, 0 looks elsewhere."""
        return self.state["alike"] / self.state["compared"].clamp(min=1)[:, None]
