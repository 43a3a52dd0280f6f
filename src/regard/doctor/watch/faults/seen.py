"""A call with what was measured of it and what the caller declared: what a rule is asked about."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from regard.doctor.finding import Evidence, Finding, Severity
from regard.doctor.watch.call import Call
from regard.doctor.watch.measure import Measured
from regard.engines.visible import counts
from regard.grid import Grid


@dataclass(frozen=True)
class Seen:
    """``padding`` (B|1, S) and ``real`` (B|1, L) are None where nothing says which keys and queries are tokens."""

    call: Call
    m: Measured
    padding: Tensor | None
    real: Tensor | None
    training: bool
    crosses: bool

    @cached_property
    def grid(self) -> Grid:
        return Grid.of(*self.call.shape, device=self.call.q.device)

    @cached_property
    def seen_keys(self) -> Tensor:
        """Which keys any query may see, (B|1, H|1, S)."""
        found = counts(self.call.mask, self.grid)[1]
        return (
            torch.ones(1, 1, self.call.shape[3], dtype=torch.bool, device=self.call.q.device)
            if found is None
            else found
        )

    @cached_property
    def tokens(self) -> Tensor:
        """Which queries count, (B|1, L): those declared real; else those whose own key somebody sees."""
        _, _, L, S = self.call.shape
        if self.real is not None:
            return self.real
        if L <= S and not self.crosses:
            keys = self.seen_keys.any(1)
            filled = bool(keys[:, L:].any())  # if not, the queries stand at the start of a cache that has room left
            return keys[:, S - L :] if filled else keys[:, :L]
        return torch.ones(1, L, dtype=torch.bool, device=self.call.q.device)

    def finding(
        self, code: str, message: str, severity: Severity | None = None, **evidence: float | int | str
    ) -> Finding:
        place = self.call.place
        numbers: Evidence = dict(evidence)
        return Finding(code, message, place.path, place.source, numbers, severity or "")  # type: ignore[arg-type]
