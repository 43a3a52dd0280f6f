"""Law 4, empty row: who may see nothing reads nothing, and says so."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import regard
from regard import mask
from regard.mask import Mask
from regard.reading import TELEMETRY
from tests.laws.every import engines_of, every_normaliser, every_score
from tests.laws.masks import GROUPS, MASKS
from tests.laws.shapes import B, E, H, L
from tests.laws.truth import close, inputs, normaliser_part, score_part, visible


def check_empty_row(scored: str, normalised: str, engine: str, m: Mask, empty: Tensor) -> None:
    part, normaliser = score_part(scored), normaliser_part(normalised)
    leaves = [x.clone().requires_grad_() for x in inputs(scored)]
    r = regard.read(
        *leaves,
        score=part,
        normalize=normaliser,
        mask=m,
        engine=engine,
        telemetry=TELEMETRY - {"mass"},
        groups=GROUPS,
    )
    assert (r.output[empty] == 0).all()
    assert (r.lse[empty] == -math.inf).all()
    assert (r.lse[~empty] > -math.inf).all()
    assert r.peak_at is not None
    assert (r.peak_at[empty] == -1).all()
    assert (r.seen[empty] == 0).all()
    for name in ("entropy", "peak", "bound", "distance"):
        measured = getattr(r, name)
        assert (measured[empty] == 0).all(), name
        assert measured.isfinite().all(), name
    for name, mass in r.mass.items():
        assert (mass[empty] == 0).all(), name
    assert r.entropy is not None
    assert r.distance is not None
    parameters = [*part.parameters(), *normaliser.parameters()]
    loss = r.output.sum() + r.entropy.sum() + r.distance.sum() + r.lse[~empty].sum()
    gradients = torch.autograd.grad(loss, [*leaves, *parameters], allow_unused=True)
    for gradient in gradients:
        assert gradient is None or gradient.isfinite().all()
    assert gradients[0] is not None
    assert (gradients[0][empty] == 0).all(), "an empty row sent a gradient to its query"


@every_score
@every_normaliser
def test_law_4_a_query_that_may_see_nothing_reads_nothing(scored: str, normalised: str) -> None:
    for masked in ("padding", "segments", "dense", "causal & padding", "where over queries"):
        m, empty = MASKS[masked].build(), ~visible(masked).any(-1)
        assert m is not None
        if masked != "dense":
            assert empty.any(), masked
        for engine in engines_of(scored, normalised):
            check_empty_row(scored, normalised, engine, m, empty)


@pytest.mark.parametrize("engine", ["reference", "sdpa", "tiled"])
def test_law_4_more_queries_than_keys_leave_the_first_queries_with_nothing(engine: str) -> None:
    q, k, v = torch.randn(1, 2, 5, 4), torch.randn(1, 2, 2, 4), torch.randn(1, 2, 2, 3)
    r = regard.read(q, k, v, mask=mask.causal("end"), engine=engine)
    assert (r.output[:, :, :3] == 0).all()
    assert r.seen[0, 0].tolist() == [0, 0, 0, 1, 2]
    close(r.output[:, :, 3], v[:, :, 0], "the first query that sees a key reads it", 1e-6)
    started = regard.read(q, k, v, mask=mask.causal("start"), engine=engine)
    assert started.seen[0, 0].tolist() == [1, 2, 2, 2, 2]


@every_score
@every_normaliser
def test_law_4_an_empty_memory_reads_nothing(scored: str, normalised: str) -> None:
    q, k, v = (x.clone().requires_grad_() for x in inputs(scored))
    for engine in ("auto", "reference", "tiled"):
        r = regard.read(
            q,
            k[:, :, :0],
            v[:, :, :0],
            score=score_part(scored),
            normalize=normaliser_part(normalised),
            engine=engine,
            telemetry=TELEMETRY - {"mass"},
            groups={"none": torch.zeros(0, dtype=torch.bool)},
        )
        assert r.output.shape == (B, H, L, E)
        assert (r.output == 0).all()
        assert (r.lse == -math.inf).all()
        assert r.peak_at is not None
        assert (r.peak_at == -1).all()
        for name in ("entropy", "peak", "bound", "distance", "spread"):
            assert (getattr(r, name) == 0).all(), name
        assert (r.mass["none"] == 0).all()
        (gradient,) = torch.autograd.grad(r.output.sum() + r.lse.nan_to_num(neginf=0).sum(), q, allow_unused=True)
        assert gradient is None or (gradient == 0).all()


def test_law_4_no_queries_read_nothing() -> None:
    q, k, v = inputs("dot")
    assert regard.attend(q[:, :, :0], k, v).shape == (B, H, 0, E)
    assert regard.read(q[:, :, :0], k, v, mask=mask.causal("end")).output.shape == (B, H, 0, E)
