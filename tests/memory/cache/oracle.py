"""What caches are held against: every row's pairs in a Python list, read by loops over those that may be seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

#: From a row's number of pairs to those that its newest sees, each with the place it counts as, and the query's place.
Sees = Callable[[int], tuple[list[tuple[int, int]], int]]


def all_of(n: int) -> tuple[list[tuple[int, int]], int]:
    return [(j, j) for j in range(n)], n - 1


def last_of(window: int) -> Sees:
    return lambda n: ([(j, j) for j in range(max(0, n - window), n)], n - 1)


def sinks_and_last(sinks: int, window: int) -> Sees:
    """StreamingLLM: the first and the last, counted inside the cache."""

    def sees(n: int) -> tuple[list[tuple[int, int]], int]:
        kept = [j for j in range(n) if j < sinks or j >= n - window]
        return [(j, at) for at, j in enumerate(kept)], len(kept) - 1

    return sees


def turned(x: Tensor, place: int, base: float = 10_000.0) -> Tensor:
    """Su et al. 2021, eq. 14, as complex numbers: pair (c, c + D/2) is multiplied by e^{i p θ_c}."""
    half = x.shape[-1] // 2
    theta = torch.tensor([base ** (-2 * c / x.shape[-1]) for c in range(half)], dtype=torch.float64)
    z = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones(half, dtype=torch.float64), place * theta)
    return torch.cat([z.real, z.imag], -1)


@dataclass
class Oracle:
    """Rows of pairs (G, D), (G, E) in float64."""

    sees: Sees
    rotary: bool
    rows: list[list[tuple[Tensor, Tensor]]] = field(default_factory=list)

    def fork(self) -> Oracle:
        return Oracle(self.sees, self.rotary, [list(row) for row in self.rows])

    def write(self, k: Tensor, v: Tensor, valid: Tensor | None) -> None:
        for t in range(k.shape[2]):
            for b, row in enumerate(self.rows):
                if valid is None or valid[b, t]:
                    row.append((k[b, :, t].double(), v[b, :, t].double()))

    def read(self, q: Tensor, b: int) -> tuple[Tensor, Tensor, int]:
        """Row b read by q (H, D): (H, E), its log-sum-exp (H,), and how many it saw."""
        seen, here = self.sees(len(self.rows[b]))
        H, D = q.shape
        outputs, levels = [], []
        for h in range(H):
            total, scores = 0.0, []
            for j, place in seen:
                key = self.rows[b][j][0]
                key = key[h // (H // key.shape[0])]
                x = q[h].double()
                if self.rotary:
                    key, x = turned(key, place), turned(x, here)
                scores.append(float(x @ key) / math.sqrt(D))
            top = max(scores, default=0.0)
            total = sum(math.exp(s - top) for s in scores)
            values = [self.rows[b][j][1] for j, _ in seen]
            read = [math.exp(s - top) / total * x[h // (H // x.shape[0])] for s, x in zip(scores, values, strict=True)]
            outputs.append(torch.stack(read).sum(0) if read else None)
            levels.append(top + math.log(total) if scores else -math.inf)
        if outputs[0] is None:
            return torch.zeros(H, 0), torch.tensor(levels), 0
        return torch.stack([x for x in outputs if x is not None]), torch.tensor(levels, dtype=torch.float64), len(seen)

    def step(self, q: Tensor, k: Tensor, v: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Pair t is written and then query t reads: (B, H, L, E), (B, H, L), (B, H, L)."""
        B, H, L, _ = q.shape
        out = torch.zeros(B, H, L, v.shape[-1], dtype=torch.float64)
        lse = torch.full((B, H, L), -math.inf, dtype=torch.float64)
        seen = torch.zeros(B, H, L, dtype=torch.long)
        for t in range(L):
            here = slice(t, t + 1)
            self.write(k[:, :, here], v[:, :, here], None if valid is None else valid[:, here])
            for b in range(B):
                if valid is None or valid[b, t]:
                    out[b, :, t], lse[b, :, t], seen[b, :, t] = self.read(q[b, :, t], b)
        return out, lse, seen
