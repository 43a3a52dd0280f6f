"""Law 3, delete: a masked key is as good as gone, whatever lies in its slot."""

from __future__ import annotations

import math

import pytest
import torch

import regard
from regard import mask
from tests.laws.every import RUN, every_normaliser, every_score
from tests.laws.masks import MASKS
from tests.laws.normalisers import NORMALISERS
from tests.laws.scores import UNPLACED
from tests.laws.shapes import B, H, L, S
from tests.laws.truth import close, inputs, normaliser_part, read, score_part, true_scores, visible

HIDDEN = torch.tensor([False, True, False, False, True, False, True])  # keys that are taken away


@every_score
@every_normaliser
def test_law_3_masking_a_key_equals_deleting_it(scored: str, normalised: str) -> None:
    q, k, v = inputs(scored)
    keep = ~HIDDEN
    for masked in MASKS:
        m = MASKS[masked].build()
        gone = mask.dense(keep) if m is None else m & mask.dense(keep)
        whole = read(scored, normalised, "none", mask=gone)
        left = true_scores(scored).masked_fill(~visible(masked), -math.inf)[..., keep]
        w = NORMALISERS[normalised].rows(left)
        close(whole.output, w @ v[:, :, keep].repeat_interleave(2, dim=1), f"{masked}: the rest, renormalised")
        if scored in UNPLACED:
            rest = regard.read(
                q,
                k[:, :, keep],
                v[:, :, keep],
                score=score_part(scored),
                normalize=normaliser_part(normalised),
                mask=mask.dense(visible(masked)[..., keep]),
                engine="reference",
            )
            close(whole.output, rest.output, masked, 1e-12)
            close(whole.lse, rest.lse, masked, 1e-12)
            close(whole.entropy, rest.entropy if rest.entropy is not None else whole.lse, masked, 1e-12)


@pytest.mark.parametrize("rubbish", [math.nan, math.inf, -math.inf, 1e30])
@pytest.mark.parametrize(("engine", "scored"), RUN)
def test_law_3_rubbish_in_a_masked_slot_reaches_neither_the_read_nor_a_gradient(
    scored: str, engine: str, rubbish: float
) -> None:
    part = score_part(scored)
    for m in (mask.dense(~HIDDEN), mask.dense(~HIDDEN) & mask.causal("end"), mask.dense((~HIDDEN).expand(B, H, L, S))):
        found = []
        for dirty in (False, True):
            q, k, v = (x.clone() for x in inputs(scored))
            if dirty:
                k[:, :, HIDDEN] = rubbish
                v[:, :, HIDDEN] = rubbish
            leaves = [x.requires_grad_() for x in (q, k, v)]
            r = regard.read(q, k, v, score=part, mask=m, engine=engine, telemetry=("entropy", "peak", "spread"))
            assert r.entropy is not None
            assert r.peak is not None
            assert r.spread is not None
            loss = r.output.square().sum() + r.entropy.sum() + r.lse[r.seen > 0].sum()
            gradients = torch.autograd.grad(loss, [*leaves, *part.parameters()], allow_unused=True)
            found.append([r.output, r.lse, r.entropy, r.peak, r.spread, *(g for g in gradients if g is not None)])
        for clean, rubbished in zip(*found, strict=True):
            close(rubbished, clean, f"{rubbish}", 1e-9)
        assert (found[1][6][:, :, HIDDEN] == 0).all(), "a masked key got a gradient"
        assert (found[1][7][:, :, HIDDEN] == 0).all(), "a masked value got a gradient"


@every_normaliser
@pytest.mark.parametrize("engine", ["reference", "tiled"])
def test_law_3_rubbish_in_a_masked_slot_reaches_no_normaliser(normalised: str, engine: str) -> None:
    part = normaliser_part(normalised)
    found = []
    for rubbish in (0.0, math.nan):
        q, k, v = (x.clone() for x in inputs("dot"))
        k[:, :, HIDDEN] = v[:, :, HIDDEN] = rubbish
        leaves = [x.requires_grad_() for x in (q, k, v)]
        out = regard.attend(q, k, v, score="dot", normalize=part, mask=mask.dense(~HIDDEN), engine=engine)
        found.append([out, *torch.autograd.grad(out.square().sum(), [*leaves, *part.parameters()])])
    for clean, rubbished in zip(*found, strict=True):
        close(rubbished, clean, "read and gradients")


@pytest.mark.parametrize("engine", ["reference", "sdpa", "tiled"])
def test_law_3_rubbish_beyond_every_query_of_a_causal_read_is_not_seen(engine: str) -> None:
    q, k, v = (x.clone() for x in inputs("dot"))
    clean = regard.attend(q, k, v, mask=mask.causal("start"), engine=engine)
    k[:, :, L:] = v[:, :, L:] = math.nan
    close(regard.attend(q, k, v, mask=mask.causal("start"), engine=engine), clean, "keys after the last query")


@pytest.mark.parametrize("engine", ["reference", "sdpa", "tiled"])
def test_law_3_rubbish_in_the_padding_of_one_row_stays_there(engine: str) -> None:
    q, k, v = (x.clone() for x in inputs("scaled dot"))
    m = mask.padding([S, 4])
    clean = regard.read(q, k, v, mask=m, engine=engine)
    k[1, :, 4:] = v[1, :, 4:] = math.nan
    dirty = regard.read(q, k, v, mask=m, engine=engine)
    close(dirty.output, clean.output, "output")
    close(dirty.entropy, clean.entropy if clean.entropy is not None else clean.lse, "entropy")
