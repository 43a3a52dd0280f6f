"""Luong's looks: which places a window shows, what the bell takes, what learns from it, and when feeding is felt."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from regard.errors import RegardError
from regard.score import Dot
from regard.translate.models.encoder_decoder import Looks
from regard.translate.models.recurrent.readers import Place, Reader, scored
from regard.translate.training.loss import loss
from tests.translate.models.recurrent.cases import made, sentences


class Stands(Place):
    """A place that is given, not learnt."""

    def __init__(self, places: list[list[float]]) -> None:
        super().__init__(2)
        self.places = torch.tensor(places).double()

    def forward(self, states: Tensor, lengths: Tensor) -> Tensor:
        return self.places


def even(reach: int, place: Place | None, lengths: list[int], steps: list[int]) -> Tensor:
    """The weights (B, L, S) where all places match alike."""
    reader = Reader(Dot(), reach=reach, place=place)
    h = torch.zeros(len(lengths), max(lengths), 2).double()
    memory = reader.remember(h, torch.tensor(lengths))
    return reader.weights(
        torch.ones(len(lengths), len(steps), 2).double(), memory, torch.tensor([steps] * len(lengths))
    )


def test_local_m_shows_d_places_on_each_side_of_the_step_inside_the_sentence() -> None:
    found = even(2, None, [7, 4], [0, 3, 6, 9])
    fifth, third = 1 / 5, 1 / 3
    wanted = [
        [[third] * 3 + [0] * 4, [0] + [fifth] * 5 + [0], [0] * 4 + [third] * 3, [0] * 7],
        [[third] * 3 + [0] * 4, [0] + [third] * 3 + [0] * 3, [0] * 7, [0] * 7],  # no padding, though it is near
    ]
    torch.testing.assert_close(found, torch.tensor(wanted).double())


def test_the_bell_of_local_p_by_its_values() -> None:
    """σ = D/2 = 1; p real, s whole; weights of the window are not normalised again; both edges belong to it."""
    found = even(2, Stands([[3.0, 2.5, 0.2, 6.9]]), [7], [0, 0, 0, 0])[0]
    bell = {d: math.exp(-d * d / 2) for d in (0.0, 0.5, 1.0, 1.5, 2.0, 0.2, 0.8, 1.8, 0.9, 1.9)}
    wanted = torch.zeros(4, 7).double()
    wanted[0, 1:6] = torch.tensor([bell[2.0], bell[1.0], 1.0, bell[1.0], bell[2.0]]).double() / 5
    wanted[1, 1:5] = torch.tensor([bell[1.5], bell[0.5], bell[0.5], bell[1.5]]).double() / 4
    wanted[2, 0:3] = torch.tensor([bell[0.2], bell[0.8], bell[1.8]]).double() / 3
    wanted[3, 5:7] = torch.tensor([bell[1.9], bell[0.9]]).double() / 2
    torch.testing.assert_close(found, wanted)


@torch.no_grad()
def test_a_local_p_look_has_a_mass_below_1_and_reads_no_more_than_it() -> None:
    model, batch = made("luong-local-p"), sentences()
    found = model.align(batch.source, batch.source_lengths, batch.previous)[:, 0, 0]
    assert found.sum(-1).min() > 0
    assert found.sum(-1).max() < 1
    reader = model.reader
    assert isinstance(reader, Reader)
    memory, _ = model.encode(batch.source, batch.source_lengths)
    queries = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(1)).double()
    context = reader.read(queries, memory)
    torch.testing.assert_close(context, reader.weights(queries, memory) @ memory.states[:, 0])


def test_a_place_learns_through_the_bell_alone() -> None:
    """∂ loss / ∂ (v_p, W_p) by finite differences; and a window alone, without the bell, would give none."""
    model, batch = made("luong-local-p"), sentences()
    loss(model, batch).backward()
    place = model.place
    assert isinstance(place, Place)
    for parameter in (place.energy, place.project.weight):
        assert parameter.grad is not None
        for at in range(0, parameter.numel(), 3):
            ends = []
            for eps in (1e-6, -1e-6):
                with torch.no_grad():
                    parameter.flatten()[at] += eps
                    ends.append(loss(model, batch).item())
                    parameter.flatten()[at] -= eps
            assert parameter.grad.flatten()[at].item() == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-9)
        assert parameter.grad.abs().min() > 0


@torch.no_grad()
def test_the_place_is_asked_by_the_state_at_the_step() -> None:
    """p_t, and every look, is of h_t: the piece y_{t-1} that enters h_t moves both at once."""
    for name in ("luong", "luong-local-p"):
        model, batch = made(name), sentences()
        other = batch.previous.clone()
        other[:, 2] = (other[:, 2] + 5) % 30 + 4
        a, b = (
            model.align(batch.source, batch.source_lengths, previous)[0, 0, 0] for previous in (batch.previous, other)
        )
        assert torch.equal(a[:2], b[:2])
        assert not torch.allclose(a[2], b[2])


@torch.no_grad()
def test_feeding_is_felt_one_step_later() -> None:
    """What is found at step 2 changes what step 2 says; the stack, and so the look, feels it at step 3."""
    batch, found = sentences(), {}
    for name in ("luong-local-p", "luong-local-p-unfed"):
        model = made(name)
        assert isinstance(model, Looks)
        memory, _ = model.encode(batch.source, batch.source_lengths)
        looks, says = [], []
        for moved in (False, True):
            _, state = model.encode(batch.source, batch.source_lengths)
            for t in range(4):
                now = memory
                if moved and t == 2:
                    now = type(memory)(memory.states + 1.0, memory.keys, memory.lengths)  # found, not where it looks
                logits, state, looked = model.step_looking(state, batch.previous[:, t : t + 1], now)
                looks.append(looked[1])
                says.append(logits[1])
        same = [torch.equal(looks[t], looks[4 + t]) for t in range(4)]
        found[name] = same, [torch.equal(says[t], says[4 + t]) for t in range(4)]
    assert found["luong-local-p"] == ([True, True, True, False], [True, True, False, False])
    assert found["luong-local-p-unfed"] == ([True] * 4, [True, True, False, True])


def test_a_dot_product_wants_equal_widths() -> None:
    with pytest.raises(RegardError, match="score Dot: q has width D = 5 and k has D = 10, wanted equal widths"):
        scored("dot", 5, 10, 4)
    assert scored("general", 5, 10, 4)(torch.ones(1, 5), torch.ones(3, 10)).shape == (1, 3)


def test_sizes_that_cannot_be() -> None:
    for size, value in (("score", "additive"), ("look", "local"), ("reach", 0), ("normalize", "max"), ("feeding", 1)):
        with pytest.raises(RegardError, match=f"{size}: found {value!r}"):
            made("luong", **{size: value})
