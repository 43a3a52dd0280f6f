"""Readings of memories: by weights that are at hand, by sums that have no weights, and of rows that ask nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from regard.reading import Reading

ADDRESSED = "its weights come from an address and not from scores alone, so there is no log-sum-exp to merge by"


def by_weights(weights: Tensor, values: Tensor, why: str = ADDRESSED, engine: str = "") -> Reading:
    """o = Σ_j w_j v_j for weights (…, L, S) that were made otherwise than by scores, and values (…, S, E).

    Entropy, peak and its place are those of the weights; lse is NaN (unknown), and ``why`` says so to who would merge.
    Weights may sum to less than 1.

    >>> r = by_weights(torch.tensor([[0.25, 0.75]]), torch.tensor([[4.0], [8.0]]))
    >>> r.output.item(), r.peak_at.item()
    (7.0, 1)
    """
    peak, at = weights.max(-1)
    return Reading(
        output=weights @ values,
        lse=torch.full_like(peak, math.nan).detach(),
        seen=torch.full_like(at, weights.shape[-1]),
        entropy=torch.special.entr(weights).sum(-1),
        bound=peak,
        peak=peak,
        peak_at=at,
        no_merge=why,
        engine=engine,
    )


def unweighted(output: Tensor, seen: Tensor, why: str, engine: str = "") -> Reading:
    """A read (…, L, E) that is no weighted average: lse is NaN (unknown), and there is nothing else to tell."""
    lse = output.new_full(output.shape[:-1], math.nan).detach()
    return Reading(output=output, lse=lse, seen=seen.expand_as(lse), no_merge=why, engine=engine)


def where_valid(reading: Reading, valid: Tensor | None) -> Reading:
    """The reading with empty rows where ``valid`` (B, L) is False: what is not there asks nothing and reads 0."""
    if valid is None or bool(valid.all()):
        return reading
    at = valid.unsqueeze(1)  # heads
    nothing = {"lse": -math.inf, "peak_at": -1}
    found: dict[str, Any] = {
        one.name: torch.where(at if value.dim() == 3 else at.unsqueeze(-1), value, nothing.get(one.name, 0))
        for one in fields(reading)
        if isinstance(value := getattr(reading, one.name), Tensor) and one.name not in ("sink", "spread")
    }
    return replace(reading, spread=None, mass={n: torch.where(at, m, 0.0) for n, m in reading.mass.items()}, **found)


def joined(parts: Sequence[Reading]) -> Reading:
    """Readings of queries that follow one another as one, along L. The spread over a head's pairs is unknown then."""
    if len(parts) == 1:
        return parts[0]
    found: dict[str, Any] = {}
    for one in fields(Reading):
        values = [getattr(part, one.name) for part in parts]
        if one.name not in ("sink", "spread") and all(isinstance(value, Tensor) for value in values):
            found[one.name] = torch.cat(values, dim=-2 if one.name == "output" else -1)
        elif any(isinstance(value, Tensor) for value in values) and one.name != "sink":
            found[one.name] = None
    masses = {name: torch.cat([part.mass[name] for part in parts], -1) for name in parts[0].mass}
    return replace(parts[0], mass=masses, **found)
