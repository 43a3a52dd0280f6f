"""Positions: what depends on the distance alone, published slopes, rotations."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import regard
from regard import RegardError, mask, position, score
from regard.grid import Grid
from regard.position import ALiBi, RelativeBias, Rotary, sinusoidal

F64 = torch.float64


def one_at(place: int, x: Tensor, rotary: Rotary) -> Tensor:
    """x (D,) turned as it is at ``place``."""
    line = x.expand(place + 1, -1)
    return rotary.keys(line[None, None])[0, 0, place]


# ---- sinusoidal -----------------------------------------------------------------------------------------------------


def test_sinusoidal_rows_are_the_published_ones_and_all_equally_long() -> None:
    table = sinusoidal(40, 12)
    for p, c in ((0, 0), (1, 0), (7, 2), (39, 5)):
        angle = p / 10_000 ** (2 * c / 12)
        assert table[p, 2 * c].item() == pytest.approx(math.sin(angle), abs=1e-6)
        assert table[p, 2 * c + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)
    assert torch.allclose(table.norm(dim=-1), torch.full((40,), math.sqrt(6)), atol=1e-5)


def test_a_step_is_the_same_rotation_wherever_it_starts() -> None:
    torch.set_default_dtype(F64)
    table = sinusoidal(50, 8)
    step = 5
    for c in range(4):
        angle = step / 10_000 ** (2 * c / 8)
        turn = torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
        pair = table[:, 2 * c : 2 * c + 2]
        assert (pair[:-step] @ turn.T - pair[step:]).abs().max() < 1e-12


def test_a_table_may_begin_anywhere() -> None:
    assert torch.equal(sinusoidal(41, 12, start=37), sinusoidal(41, 12)[37:])
    assert sinusoidal(41, 12, start=41).shape == (0, 12)


def test_sinusoids_come_in_pairs() -> None:
    with pytest.raises(RegardError, match="sinusoidal: width is 7, wanted an even number"):
        sinusoidal(3, 7)


def test_far_positions_are_computed_in_double_and_given_in_the_default_type() -> None:
    far = sinusoidal(40_000, 4)
    assert far.dtype == torch.float32
    assert far[39_999, 0].item() == pytest.approx(math.sin(39_999), abs=1e-6)


# ---- rotary ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interleaved", [False, True])
def test_a_rotary_product_depends_on_the_distance_only(interleaved: bool) -> None:
    rotary = Rotary(score.Dot(), interleaved=interleaved)
    q, k = torch.randn(14, dtype=F64), torch.randn(14, dtype=F64)
    found = [float(one_at(p, q, rotary) @ one_at(r, k, rotary)) for p, r in ((3, 1), (13, 11), (103, 101))]
    assert found == pytest.approx([found[0]] * 3, abs=1e-10)
    assert float(one_at(3, q, rotary) @ one_at(2, k, rotary)) != pytest.approx(found[0], abs=1e-3)
    assert float(one_at(1, q, rotary) @ one_at(3, k, rotary)) != pytest.approx(found[0], abs=1e-3)


@pytest.mark.parametrize("interleaved", [False, True])
def test_turning_keeps_lengths_and_place_0_where_it_is(interleaved: bool) -> None:
    rotary = Rotary(score.Dot(), interleaved=interleaved)
    x = torch.randn(1, 1, 9, 14, dtype=F64)
    turned = rotary.queries(x)
    assert (turned.norm(dim=-1) - x.norm(dim=-1)).abs().max() < 1e-12
    assert torch.equal(turned[:, :, 0], x[:, :, 0])
    assert not torch.allclose(turned[:, :, 1], x[:, :, 1])


def test_the_two_layouts_are_one_model_up_to_a_permutation_of_columns_and_not_the_same() -> None:
    q, k = torch.randn(1, 1, 5, 14, dtype=F64), torch.randn(1, 1, 5, 14, dtype=F64)
    columns = torch.arange(14).view(2, 7).T.flatten()  # (c, c + D/2) side by side
    halves, pairs = Rotary(score.Dot()), Rotary(score.Dot(), interleaved=True)
    assert (pairs(q[..., columns], k[..., columns]) - halves(q, k)).abs().max() < 1e-12
    assert (pairs(q, k) - halves(q, k)).abs().max() > 1e-2


@pytest.mark.parametrize("place", [512, 4096, 32_768])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("interleaved", [False, True])
def test_half_precision_keeps_its_phase_far_into_the_text(place: int, dtype: torch.dtype, interleaved: bool) -> None:
    width = 128
    rotary = Rotary(score.Dot(), interleaved=interleaved)
    x = torch.zeros(width, dtype=dtype)
    x[0::2] = 1.0 if interleaved else 0.0
    if not interleaved:
        x[: width // 2] = 1.0
    line = x.expand(1, 1, 1, width)
    here, first = torch.tensor(place).view(1, 1, 1, 1), torch.zeros(1, 1, 1, 1, dtype=torch.int64)
    grid = Grid(first, first, here, here, L=place + 1, S=place + 1)
    turned = rotary.keys(line, grid)[0, 0, 0].double()
    a, b = (turned[0::2], turned[1::2]) if interleaved else turned.chunk(2)
    exact = torch.tensor([place / 10_000 ** (2 * c / width) for c in range(width // 2)], dtype=F64)
    error = torch.atan2(b, a) - exact
    error = torch.remainder(error + math.pi, 2 * math.pi) - math.pi
    assert error.abs().max() < 1e-2


def test_a_step_of_decoding_turns_its_query_to_the_end() -> None:
    x = torch.randn(1, 2, 9, 14, dtype=F64)
    part = Rotary(score.ScaledDot(), anchor="end")
    for engine in ("reference", "sdpa"):
        full = regard.attend(x, x, x, score=part, mask=mask.causal("end"), engine=engine)
        step = regard.attend(x[:, :, 6:], x, x, score=part, mask=mask.causal("end"), engine=engine)
        assert (step - full[:, :, 6:]).abs().max() < 1e-12


def test_rotary_wants_even_widths_and_an_anchor_where_lengths_differ() -> None:
    with pytest.raises(RegardError, match=r"Rotary: q has width D = 11, wanted an even one"):
        regard.scores(torch.zeros(3, 11), torch.zeros(3, 11), score=Rotary(score.Dot()))
    with pytest.raises(RegardError, match=r"Rotary: L = 3 queries and S = 4 keys differ.*anchor"):
        regard.scores(torch.zeros(3, 4), torch.zeros(4, 4), score=Rotary(score.Dot()))


# ---- ALiBi ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("heads", [1, 2, 4, 8, 16])
def test_alibi_slopes_are_the_published_series(heads: int) -> None:
    slopes = ALiBi(heads).slopes
    assert slopes.tolist() == pytest.approx([2 ** (-8 * (h + 1) / heads) for h in range(heads)])


def test_alibi_slopes_of_other_head_counts_are_those_of_the_authors_code() -> None:
    assert ALiBi(6).slopes.log2().tolist() == pytest.approx([-2, -4, -6, -8, -1, -3])
    assert ALiBi(12).slopes.log2().tolist() == pytest.approx([-1, -2, -3, -4, -5, -6, -7, -8, -0.5, -1.5, -2.5, -3.5])
    assert ALiBi(3).slopes.log2().tolist() == pytest.approx([-4, -8, -2])


def test_alibi_moves_weights_by_distance_and_a_constant_along_a_row_moves_none() -> None:
    q, k = torch.randn(1, 2, 5, 7, dtype=F64), torch.randn(1, 2, 5, 7, dtype=F64)
    w = regard.weights(q, k, score=score.ScaledDot() + ALiBi(2), mask=mask.causal())
    keys_only = torch.tensor([2.0**-4, 2.0**-8], dtype=F64).view(2, 1, 1) * torch.arange(5)  # the same less i·m
    s = (q @ k.transpose(-1, -2)) / math.sqrt(7) + keys_only
    shifted = torch.softmax(s.masked_fill(torch.ones(5, 5).triu(1).bool(), -math.inf), -1)
    assert (w - shifted).abs().max() < 1e-12


@pytest.mark.parametrize("build", [lambda: ALiBi(2, "end"), lambda: RelativeBias(2, 3, "end")])
def test_a_step_of_decoding_has_the_bias_of_its_place(build: Callable[[], score.Bias]) -> None:
    bias = build().double()
    for parameter in bias.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(1, 2, 9, 8, dtype=F64)
    part = score.ScaledDot() + bias
    full = regard.attend(x, x, x, score=part, mask=mask.causal("end"))
    step = regard.attend(x[:, :, 8:], x, x, score=part, mask=mask.causal("end"))
    assert (step - full[:, :, 8:]).abs().max() < 1e-12


# ---- relative bias --------------------------------------------------------------------------------------------------


def test_a_relative_bias_starts_at_0_and_clips_at_its_reach() -> None:
    bias = RelativeBias(heads=2, reach=3)
    grid = Grid.of(1, 2, 9, 9)
    assert (bias(grid) == 0).all()
    with torch.no_grad():
        bias.weight.copy_(torch.arange(14.0).view(2, 7))
    found = bias(grid)[0]
    for i, j in ((0, 0), (4, 5), (4, 2), (0, 8), (8, 0)):
        step = max(-3, min(3, j - i))
        assert found[:, i, j].tolist() == [3 + step, 10 + step]


def test_a_relative_bias_learns_that_the_previous_token_is_the_one() -> None:
    bias = RelativeBias(heads=1, reach=2)
    x = torch.randn(4, 1, 7, 3)
    optimiser = torch.optim.Adam(bias.parameters(), lr=0.3)
    for _ in range(60):
        optimiser.zero_grad()
        out = regard.attend(torch.zeros(4, 1, 7, 3), x, x, score=score.Dot() + bias, mask=mask.causal())
        loss = (out[:, :, 1:] - x[:, :, :-1]).square().mean()
        torch.autograd.backward(loss)
        optimiser.step()
    assert bias.weight.argmax().item() == 1  # reach 2: the third place is the query's own


@pytest.mark.parametrize("build", [lambda: ALiBi(3), lambda: RelativeBias(3, 2)])
def test_a_bias_for_other_heads_says_how_to_build_it(build: Callable[[], score.Bias]) -> None:
    q = torch.zeros(1, 2, 4, 5)
    with pytest.raises(RegardError, match="built for H = 3 heads, the read has H = 2; build it with heads=2"):
        regard.attend(q, q, q, score=score.Dot() + build())


def test_a_relative_bias_reaches_somewhere() -> None:
    with pytest.raises(RegardError, match="RelativeBias: reach is 0, wanted at least 1"):
        RelativeBias(2, 0)


def test_positions_are_what_makes_order_visible() -> None:
    x = torch.randn(1, 1, 6, 8, dtype=F64)
    order = torch.tensor([5, 3, 0, 1, 4, 2])
    blind = regard.attend(x, x, x)
    assert (regard.attend(x[:, :, order], x[:, :, order], x[:, :, order]) - blind[:, :, order]).abs().max() < 1e-12
    placed = x + position.sinusoidal(6, 8).double()
    moved = x[:, :, order] + position.sinusoidal(6, 8).double()
    assert (regard.attend(moved, moved, moved) - regard.attend(placed, placed, placed)[:, :, order]).abs().max() > 1e-2
