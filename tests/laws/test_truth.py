"""Law 1, truth: every engine reads and measures what the definition says."""

from __future__ import annotations

import copy
import itertools
import math
from typing import Any

import hypothesis
import pytest
import torch
from hypothesis import strategies as st

import regard
from regard import mask
from regard.reading import TELEMETRY
from tests.laws.every import engines_of, every_mask, every_normaliser, every_score
from tests.laws.masks import GROUPS, MASKS
from tests.laws.normalisers import PLAIN
from tests.laws.scores import FUSED
from tests.laws.shapes import S
from tests.laws.truth import check_truth, close, inputs, normaliser_part, read, score_part, true_scores, truth, visible


@every_score
@every_normaliser
def test_law_1_the_reference_reads_what_the_definition_says(scored: str, normalised: str) -> None:
    for masked in MASKS:
        r = read(scored, normalised, masked, groups=GROUPS)
        check_truth(r, truth(scored, normalised, masked), masked)
        close(r.bound, truth(scored, normalised, masked).peak, f"{masked}: bound")


@every_score
@every_normaliser
def test_law_1_scores_and_weights_are_those_of_the_definition(scored: str, normalised: str) -> None:
    q, k, _ = inputs(scored)
    for masked in ("none", "dense", "causal & padding"):
        m = MASKS[masked].build()
        s = regard.scores(q, k, score=score_part(scored), mask=m)
        close(s, true_scores(scored).masked_fill(~visible(masked), -math.inf), masked)
        w = regard.weights(q, k, score=score_part(scored), normalize=normaliser_part(normalised), mask=m)
        close(w, truth(scored, normalised, masked).weights, masked)


@every_score
@every_normaliser
def test_law_1_tiled_reads_what_the_definition_says(scored: str, normalised: str) -> None:
    for masked in MASKS:
        t = truth(scored, normalised, masked)
        r = read(scored, normalised, masked, "tiled", groups=GROUPS)  # all of its telemetry is of the same pass
        check_truth(r, t, masked)
        close(r.bound, t.peak, f"{masked}: bound")
        close(read(scored, normalised, masked, "tiled", telemetry=False).output, t.output, f"{masked}: output alone")


@pytest.mark.parametrize("scored", FUSED)
@pytest.mark.parametrize("normalised", PLAIN)
@every_mask
def test_law_1_sdpa_measures_what_the_definition_says(scored: str, normalised: str, masked: str) -> None:
    t = truth(scored, normalised, masked)
    check_truth(read(scored, normalised, masked, "sdpa", telemetry=TELEMETRY - {"mass"}, groups=GROUPS), t, masked)
    cheap = read(scored, normalised, masked, "sdpa", groups=GROUPS)
    close(cheap.entropy, t.entropy, "entropy without a second look")
    close(cheap.distance, t.distance, "distance without a second look")
    assert cheap.bound is not None
    assert (cheap.bound >= t.peak - 1e-12).all()
    assert (cheap.bound <= t.peak * S ** (1 / 32) + 1e-12).all()
    assert cheap.peak is None
    assert cheap.spread is None


@every_score
@every_normaliser
def test_law_1_telemetry_in_single_precision_is_true_to_a_ten_thousandth(scored: str, normalised: str) -> None:
    q, k, v = (x.float() for x in inputs(scored))
    for masked, engine in itertools.product(MASKS, engines_of(scored, normalised)):
        r = regard.read(
            q,
            k,
            v,
            score=copy.deepcopy(score_part(scored)).float(),
            normalize=copy.deepcopy(normaliser_part(normalised)).float(),
            mask=MASKS[masked].build(),
            engine=engine,
            telemetry=TELEMETRY - {"mass"},
            groups=GROUPS,
        )
        assert r.output.dtype == torch.float32
        check_truth(r, truth(scored, normalised, masked), f"{engine}, {masked}", 1e-4)


@hypothesis.settings(deadline=None, derandomize=True, max_examples=40)
@hypothesis.given(
    sizes=st.tuples(*(st.integers(1, 4) for _ in range(4)), *(st.integers(1, 9) for _ in range(4))),
    seed=st.integers(0, 2**16),
    size=st.sampled_from([1e-3, 1.0, 30.0, 1e4]),
    causal=st.sampled_from([None, "start", "end"]),
)
def test_law_1_all_engines_agree_with_a_loop_on_any_shape(
    sizes: tuple[int, ...], seed: int, size: float, causal: Any
) -> None:
    b, g, repeat, _, length, keys, width, value = sizes
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(b, g * repeat, length, width, generator=generator, dtype=torch.float64) * size
    k = torch.randn(b, g, keys, width, generator=generator, dtype=torch.float64)
    v = torch.randn(b, g, keys, value, generator=generator, dtype=torch.float64)
    m = None if causal is None else mask.causal(causal)
    found = {engine: regard.attend(q, k, v, mask=m, engine=engine) for engine in ("reference", "sdpa", "tiled")}
    for at in itertools.product(range(b), range(g * repeat), range(length)):
        last = keys - 1 if causal is None else at[2] + (keys - length if causal == "end" else 0)
        picked = [j for j in range(keys) if j <= last]
        head = at[1] // repeat
        s = [float(q[at] @ k[at[0], head, j]) / math.sqrt(width) for j in picked]
        e = [math.exp(x - max(s)) for x in s]
        expected = torch.zeros(value, dtype=torch.float64)
        for weight, j in zip(e, picked, strict=True):
            expected += weight / sum(e) * v[at[0], head, j]
        for engine, out in found.items():
            close(out[at], expected, engine, 1e-8)
