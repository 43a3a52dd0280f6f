"""Caps and biases around a score, scores by name, and what each refuses."""

from __future__ import annotations

import pytest
import torch

import regard
from regard import RegardError, position, score
from tests.score.given import close, randn


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
        score.Dot() + score.ScaledDot()  # type: ignore[operator]  # what is refused here


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
