"""Scores: the identities that tell one from another, and what each refuses."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import regard
from regard import RegardError, position, score
from regard.grid import Grid
from regard.normalize import Softmax

F64 = torch.float64


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=F64)


def close(found: Tensor, wanted: Tensor, tolerance: float = 1e-10) -> None:
    assert found.shape == wanted.shape
    assert (found - wanted).abs().max() <= tolerance


def weights(q: Tensor, k: Tensor, of: score.Score | str) -> Tensor:
    return regard.weights(q, k, score=of)


# ---- the four-line read ---------------------------------------------------------------------------------------------

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


# ---- saturation and scale -------------------------------------------------------------------------------------------


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


# ---- cosine ---------------------------------------------------------------------------------------------------------


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


# ---- euclidean ------------------------------------------------------------------------------------------------------


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


# ---- general, concat, additive, learned -----------------------------------------------------------------------------


def test_general_is_a_dot_product_after_projecting_either_side() -> None:
    part = score.General(11, 13).double()
    q, k = randn(3, 11), randn(7, 13)
    close(part(q, k), score.Dot()(q @ part.weight, k))
    close(part(q, k), score.Dot()(q, k @ part.weight.T))


def test_a_second_full_projection_does_not_enlarge_what_general_can_say() -> None:
    query, key = randn(11, 11), randn(11, 11)
    q, k = randn(3, 11), randn(7, 11)
    part = score.General(11, 11).double()
    with torch.no_grad():
        part.weight.copy_(query.T @ key)
    close(part(q, k), (q @ query.T) @ (k @ key.T).T)


def test_concat_is_additive_with_the_two_projections_side_by_side() -> None:
    additive, concat = score.Additive(11, 13, width=5).double(), score.Concat(11, 13, width=5).double()
    with torch.no_grad():
        additive.query.weight.normal_()
        additive.key.weight.normal_()
        additive.energy.normal_()
        concat.weight.copy_(torch.cat([additive.query.weight, additive.key.weight], 1))
        concat.energy.copy_(additive.energy)
    q, k = randn(2, 3, 11), randn(2, 7, 13)
    assert torch.equal(concat(q, k), additive(q, k))
    pairs = torch.cat([q.unsqueeze(2).expand(2, 3, 7, 11), k.unsqueeze(1).expand(2, 3, 7, 13)], -1)
    close(concat(q, k), torch.tanh(pairs @ concat.weight.T) @ concat.energy)


def test_without_its_tanh_a_concat_score_would_give_every_query_the_same_weights() -> None:
    part = score.Concat(11, 13, width=5).double()
    q, k = randn(3, 11), 3 * randn(7, 13)
    linear = (part.queries(q).unsqueeze(-2) + part.keys(k).unsqueeze(-3)) @ part.energy
    w = torch.softmax(linear, -1)
    assert (w - w[:1]).abs().max() < 1e-15  # the query is a constant along the row: it cancels
    bent = weights(q, k, part)
    assert (bent - bent[:1]).abs().max() > 1e-2  # which is why tanh is there


def test_an_additive_score_is_no_larger_than_the_sum_of_its_energies() -> None:
    part = score.Additive(11, 13, width=5).double()
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.normal_(0, 10)
    assert part(randn(30, 11), randn(70, 13)).abs().max() <= part.energy.abs().sum() + 1e-12


@pytest.mark.parametrize("engine", ["reference", "tiled"])
def test_an_additive_score_with_a_bias_has_it_beside_the_query(engine: str) -> None:
    """vᵀ tanh(W q + b + U k): as a query with a column of ones more, value and gradients, on a kernel's path too."""
    part, wider = score.Additive(11, 13, width=5, bias=True).double(), score.Additive(12, 13, width=5).double()
    assert (part.query.bias == 0).all()
    assert "query.bias" not in wider.state_dict()
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.normal_()
        wider.query.weight.copy_(torch.cat([part.query.weight, part.query.bias[:, None]], 1))
        wider.key.weight.copy_(part.key.weight)
        wider.energy.copy_(part.energy)
    q, k, v = randn(1, 2, 3, 11), randn(1, 2, 7, 13), randn(1, 2, 7, 17)
    ones = torch.cat([q, torch.ones(1, 2, 3, 1, dtype=F64)], -1)
    output, wanted = (regard.attend(x, k, v, score=s, engine=engine) for x, s in ((q, part), (ones, wider)))
    close(output, wanted)
    for found in (output, wanted):
        found.square().sum().backward()
    assert wider.query.weight.grad is not None
    assert part.query.bias.grad is not None
    assert part.query.weight.grad is not None
    close(part.query.bias.grad, wider.query.weight.grad[:, -1])
    close(part.query.weight.grad, wider.query.weight.grad[:, :-1])


@pytest.mark.parametrize("engine", ["reference", "tiled"])
def test_additive_scores_of_thousands_do_not_overflow(engine: str) -> None:
    """Code has been published that takes exp of these scores as they are."""
    part = score.Additive(11, 13, width=5).double()
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.normal_()
        part.energy.copy_(torch.tensor([3e3, -4e3, 5e3, 2e3, -1e3]))
    q, k, v = randn(1, 2, 3, 11), randn(1, 2, 7, 13), randn(1, 2, 7, 17)
    s = part(q, k)
    assert s.exp().isinf().any()
    assert (s.exp() == 0).any()
    r = regard.read(q, k, v, score=part, engine=engine, telemetry=False)
    top = s.amax(-1, keepdim=True)
    e = (s - top).exp()
    close(r.output, (e / e.sum(-1, keepdim=True)) @ v, 1e-8)
    close(r.lse, (top + e.sum(-1, keepdim=True).log()).squeeze(-1), 1e-8)


def test_an_untrained_additive_score_looks_everywhere_alike() -> None:
    part = score.Additive(512, 512, width=64)
    assert (part.energy == 0).all()
    assert part.query.weight.std().item() == pytest.approx(0.001, rel=0.05)
    q, k = torch.randn(3, 512), torch.randn(7, 512)
    r = regard.read(q, k, k, score=part)
    assert r.evenness.min().item() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    "part",
    [
        score.Additive(11, 13, width=5),
        score.Concat(11, 13, width=5),
        score.General(11, 13),
        score.Cosine(2.0),
        position.Rotary(score.ScaledDot(), anchor="end"),
        score.ScaledDot() + position.ALiBi(1, anchor="end"),
        score.Dot().capped(3.0),
    ],
    ids=lambda part: type(part).__name__,
)
def test_keys_that_are_turned_once_can_be_read_many_times(part: score.Score) -> None:
    part = part.double()
    wide = isinstance(part, score.Additive | score.Concat | score.General)
    even = isinstance(part, position.Rotary)
    q, k, v = randn(1, 1, 3, 11 + even), randn(1, 1, 7, 13 if wide else 11 + even), randn(1, 1, 7, 5)
    grid = Grid.of(1, 1, 3, 7)
    kept = part.keys(k, grid)
    close(regard.attend(q, kept, v, score=part.keyed), regard.attend(q, k, v, score=part))
    assert [id(p) for p in part.keyed.parameters()] == [id(p) for p in part.parameters()]


def test_a_learned_score_takes_any_module_and_says_when_it_gives_the_wrong_shape() -> None:
    q, k = torch.randn(2, 3, 11), torch.randn(2, 7, 13)
    assert score.Learned(nn.Bilinear(11, 13, 1))(q, k).shape == (2, 3, 7)
    with pytest.raises(RegardError, match=r"Learned: the module gave \(2, 3, 7, 4\) .*\(2, 3, 7\).*one number a pair"):
        score.Learned(nn.Bilinear(11, 13, 4))(q, k)


def test_a_perceptron_learns_a_distance_that_no_bilinear_score_can() -> None:
    torch.manual_seed(0)
    q, k = torch.rand(1, 64, 1) * 4 - 2, torch.rand(1, 64, 1) * 4 - 2
    target = -(q - k.transpose(1, 2)).abs()
    left = {}
    for name, part in (("mlp", score.Learned.mlp(1, 1, 16)), ("bilinear", score.General(1, 1))):
        optimiser = torch.optim.Adam(part.parameters(), lr=0.02)
        loss = torch.tensor(math.inf)
        for _ in range(150):
            optimiser.zero_grad()
            s = part(q, k)
            loss = ((s - s.mean(-1, keepdim=True)) - (target - target.mean(-1, keepdim=True))).square().mean()
            torch.autograd.backward(loss)
            optimiser.step()
        left[name] = loss.item()
    assert left["mlp"] < 0.5 * left["bilinear"]


# ---- wrappers -------------------------------------------------------------------------------------------------------


def test_a_cap_bounds_the_score_keeps_its_order_and_leaves_small_scores_alone() -> None:
    q, k = 30 * randn(3, 11), 30 * randn(7, 11)
    plain, capped = score.Dot()(q, k), score.Dot().capped(50.0)(q, k)
    assert capped.abs().max() <= 50
    assert plain.abs().max() > 500
    small = score.Dot().capped(50.0)(1e-3 * q / 30, k / 30)
    close(small, score.Dot()(1e-3 * q / 30, k / 30), 1e-6)
    with pytest.raises(RegardError, match="cap is 0, wanted a number above 0"):
        score.Dot().capped(0)


def test_only_a_bias_can_be_added_to_a_score() -> None:
    with pytest.raises(RegardError, match=r"score \+ ScaledDot: wanted a position bias such as ALiBi\(heads\)"):
        score.Dot() + score.ScaledDot()  # type: ignore[operator]


def test_a_score_with_a_bias_and_a_cap_still_says_why_it_is_not_fused() -> None:
    biased = score.ScaledDot() + position.ALiBi(2)
    assert "position bias" in biased.no_dot_form
    assert "tanh" in score.Dot().capped(5.0).no_dot_form
    assert "position bias" in position.Rotary(biased).no_dot_form
    with pytest.raises(RegardError, match="Additive is no dot product"):
        score.Additive(2, 2, width=2).as_dot(torch.zeros(1, 2), torch.zeros(1, 2))


@pytest.mark.parametrize("name", list(score.NAMES))
def test_a_score_may_be_named(name: str) -> None:
    assert score.named(name) is score.NAMES[name]
    assert score.named(score.NAMES[name]) is score.NAMES[name]


def test_an_unknown_score_lists_the_known_ones_and_suggests_the_nearest() -> None:
    with pytest.raises(
        RegardError, match=r"score: unknown name 'scaled-dot'; did you mean 'scaled_dot'\? Known: cosine"
    ):
        score.named("scaled-dot")
    with pytest.raises(RegardError, match=r"score: unknown name 'zzz'\. Known: "):
        score.named("zzz")


@pytest.mark.parametrize("part", [score.Dot(), score.ScaledDot(), score.Cosine(), score.Euclidean()])
def test_widths_that_differ_are_named_and_a_way_out_is_given(part: score.Score) -> None:
    with pytest.raises(RegardError, match=r"q has width D = 11 and k has D = 13, wanted equal .*project one.*General"):
        regard.scores(torch.zeros(3, 11), torch.zeros(7, 13), score=part)


@pytest.mark.parametrize("kind", [score.Additive, score.Concat])
def test_a_score_built_for_other_widths_says_how_to_build_it(kind: type[score.Additive] | type[score.Concat]) -> None:
    wanted = (
        rf"q has width 11 and k has width 13, wanted 4 and 5 as it was built; build it with {kind.__name__}\(11, 13"
    )
    with pytest.raises(RegardError, match=wanted):
        regard.scores(torch.zeros(3, 11), torch.zeros(7, 13), score=kind(4, 5, width=2))
    with pytest.raises(RegardError, match=r"wanted 4 and 5 .*General\(11, 13"):
        regard.scores(torch.zeros(3, 11), torch.zeros(7, 13), score=score.General(4, 5))


def test_in_half_precision_the_query_is_scaled_before_the_product() -> None:
    q = torch.full((1, 128), 32.0, dtype=torch.float16)
    assert (q @ q.T).isinf().all()  # the unscaled product is 131,072
    assert score.ScaledDot()(q, q).item() == pytest.approx(11585, rel=2e-3)
