"""Scores without parameters: the read written out in four lines, growth with the width, cosine, euclidean."""

from __future__ import annotations

import math

import pytest
import torch

import regard
from regard import score
from regard.normalize import Softmax
from tests.score.given import F64, close, randn, weights

TOY_QUERY = torch.tensor([[1.0, 0.0]], dtype=F64)
TOY_MEMORY = torch.tensor([[1.0, 0.1], [0.5, 0.5], [0.0, 1.0], [-0.8, 0.2]], dtype=F64)
TOY_WEIGHTS = torch.tensor([[0.46735327, 0.28346409, 0.17192966, 0.07725298]], dtype=F64)


def test_the_four_line_read_has_the_weights_that_arithmetic_gives() -> None:
    s = regard.scores(TOY_QUERY, TOY_MEMORY, score="dot")
    close(s, torch.tensor([[1.0, 0.5, 0.0, -0.8]], dtype=F64))
    close(weights(TOY_QUERY, TOY_MEMORY, "dot"), TOY_WEIGHTS, 1e-8)
    for engine in ("reference", "sdpa"):
        r = regard.read(TOY_QUERY, TOY_MEMORY, TOY_MEMORY, score="dot", engine=engine)
        close(r.output, torch.tensor([[0.54728294, 0.37584763]], dtype=F64), 1e-8)
        assert r.entropy is not None
        assert r.entropy.item() == pytest.approx(1.2133869, abs=1e-7)


def test_the_row_that_the_article_prints_is_not_the_softmax_of_its_scores() -> None:
    printed = torch.tensor([[0.451, 0.273, 0.165, 0.111]], dtype=F64)
    with pytest.raises(AssertionError):
        close(weights(TOY_QUERY, TOY_MEMORY, "dot"), printed, 5e-4)
    for other in ("scaled_dot", "cosine", "euclidean"):  # nor of another score of the same vectors
        with pytest.raises(AssertionError):
            close(weights(TOY_QUERY, TOY_MEMORY, other), printed, 5e-4)
    assert (printed[0, 2] / printed[0, 3]).log().item() == pytest.approx(0.396, abs=1e-3)  # its last score was −0.4


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("scaled_dot", [0.404, 0.284, 0.199, 0.113]),
        ("cosine", [0.443, 0.332, 0.164, 0.062]),
        ("euclidean", [0.559, 0.343, 0.076, 0.021]),
    ],
)
def test_the_four_line_read_under_the_other_scores(name: str, row: list[float]) -> None:
    close(weights(TOY_QUERY, TOY_MEMORY, name), torch.tensor([row], dtype=F64), 6e-4)


def test_a_candidate_ten_times_longer_takes_everything_and_moves_the_read_tenfold() -> None:
    longer = TOY_MEMORY.clone()
    longer[0] *= 10
    w = weights(TOY_QUERY, longer, "dot")
    close(w, torch.tensor([[0.999859369, 7.4841e-5, 4.5394e-5, 2.0397e-5]], dtype=F64), 1e-8)
    out = regard.attend(TOY_QUERY, longer, longer, score="dot")
    close(out, torch.tensor([[9.99861, 0.99995]], dtype=F64), 1e-5)


@pytest.mark.parametrize(("width", "peak", "entropy"), [(4, 0.346, 2.26), (64, 0.812, 0.51), (256, 0.913, 0.22)])
def test_unscaled_dot_products_saturate_with_the_width_and_scaled_ones_do_not(
    width: int, peak: float, entropy: float
) -> None:
    q, k = torch.randn(500, 1, width), torch.randn(500, 32, width)
    raw, scaled = (regard.read(q, k, k, score=of, engine="reference") for of in ("dot", "scaled_dot"))
    assert raw.peak is not None
    assert raw.entropy is not None
    assert scaled.peak is not None
    assert scaled.entropy is not None
    assert raw.peak.mean().item() == pytest.approx(peak, abs=0.05)
    assert raw.entropy.mean().item() == pytest.approx(entropy, abs=0.2)
    assert scaled.peak.mean().item() == pytest.approx(0.163, abs=0.02)
    assert scaled.entropy.mean().item() == pytest.approx(3.02, abs=0.06)


@pytest.mark.parametrize("width", [16, 256])
def test_a_dot_product_has_the_variance_of_its_width_and_a_scaled_one_has_1(width: int) -> None:
    q, k = torch.randn(20_000, 1, width), torch.randn(20_000, 1, width)
    assert score.Dot()(q, k).var().item() == pytest.approx(width, rel=0.06)
    assert score.ScaledDot()(q, k).var().item() == pytest.approx(1.0, rel=0.06)


def test_scaled_dot_is_dot_at_the_temperature_of_the_root_of_the_width() -> None:
    q, k = randn(3, 16), randn(5, 16)
    tempered = regard.weights(q, k, score="dot", normalize=Softmax(temperature=4.0))
    close(weights(q, k, "scaled_dot"), tempered)


def test_cosine_does_not_see_how_long_a_query_or_a_key_is() -> None:
    q, k = randn(3, 11), randn(7, 11)
    s = score.Cosine(2.0)(q, k)
    close(score.Cosine(2.0)(5.0 * q, k * torch.arange(1, 8)[:, None]), s)
    close(score.Cosine(2.0)(-q, k), -s)
    assert s.abs().max() <= 2.0


def test_cosine_cannot_saturate_without_a_large_beta() -> None:
    beta, n = 2.0, 7
    q = randn(1, 11)
    k = torch.cat([q, -q.expand(n - 1, -1)])  # as one-sided as it can be
    w = weights(q, k, score.Cosine(beta))
    least = 1 / (1 + (n - 1) * math.exp(2 * beta))
    assert (w >= least - 1e-12).all()
    flipped = weights(-q, k, score.Cosine(beta))
    assert flipped.min().item() == pytest.approx(least, rel=1e-12)


def test_a_zero_vector_scores_0_and_gets_a_zero_gradient() -> None:
    q, k = randn(2, 5), torch.zeros(3, 5, dtype=F64)
    k[0] = randn(5)
    k.requires_grad_()
    s = score.Cosine()(q, k)
    assert (s[:, 1:] == 0).all()
    (gradient,) = torch.autograd.grad(s.square().sum(), k)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("engine", ["reference", "sdpa"])
def test_cosine_of_long_vectors_does_not_overflow_in_half_precision(engine: str) -> None:
    q, k, v = torch.full((1, 1, 2, 128), 32.0), torch.randn(1, 1, 5, 128), torch.randn(1, 1, 5, 3)
    k[0, 0, 0] = 32.0
    exact = regard.attend(q.double(), k.double(), v.double(), score=score.Cosine(10.0))
    half = regard.attend(q.half(), k.half(), v.half(), score=score.Cosine(10.0), engine=engine)
    assert (half.double() - exact).abs().max() < 1e-2


def test_euclidean_weights_are_those_of_twice_the_dot_less_the_square_of_the_key() -> None:
    q, k = randn(3, 11), randn(7, 11)
    by_hand = torch.softmax(2 * q @ k.T - k.square().sum(-1), -1)
    close(weights(q, k, "euclidean"), by_hand, 1e-12)


def test_euclidean_is_twice_the_dot_when_all_keys_are_equally_long_and_not_otherwise() -> None:
    q, k = randn(3, 11), randn(7, 11)
    unit = k / k.norm(dim=-1, keepdim=True)
    close(weights(q, unit, "euclidean"), weights(2 * q, unit, "dot"), 1e-12)
    assert (weights(q, k, "euclidean") - weights(2 * q, k, "dot")).abs().max() > 0.01


@pytest.mark.parametrize("engine", ["reference", "sdpa"])
@pytest.mark.parametrize("shift", [0.0, 1e2, 1e4])
def test_euclidean_does_not_move_when_queries_and_keys_move_together(engine: str, shift: float) -> None:
    q, k, v = randn(3, 11), randn(7, 11), randn(7, 5)
    away = regard.read(q + shift, k + shift, v, score="euclidean", engine=engine)
    here = regard.read(q, k, v, score="euclidean", engine="reference")
    close(away.output, here.output, 1e-9)
    close(away.lse, here.lse, 1e-9)
    single = regard.attend((q + shift).float(), (k + shift).float(), v.float(), score="euclidean", engine=engine)
    assert (single.double() - here.output).abs().max() < 1e-4 + 2e-6 * shift
