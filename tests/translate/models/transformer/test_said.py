"""What was said is a value: whoever goes on from it, in whatever order, goes on from the same."""

from __future__ import annotations

import pytest
import torch

from regard.translate.models.transformer.config import Transformer
from regard.translate.models.transformer.model import Memory, Model
from regard.translate.models.transformer.said import Said

SIZES = Transformer(source_vocabulary=31, target_vocabulary=37, width=14, heads=7, layers=2, feed=11)
SOURCE = torch.tensor([[5, 9, 3], [7, 3, 0]]), torch.tensor([3, 2])


@pytest.fixture
def model() -> Model:
    torch.manual_seed(3)
    made = Model(SIZES).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(std=0.5)
    return made


def begun(model: Model, width: int) -> tuple[Memory, Said]:
    memory, state = model.encode(*SOURCE)
    return memory, state.spread(width)


def pieces(step: int) -> torch.Tensor:
    return (torch.arange(6).view(2, 3) * 7 + step * 5) % 33 + 4


@torch.no_grad()
def test_two_steps_from_one_state_do_not_disturb_each_other(model: Model) -> None:
    """Also where the second writes where the first has written, and beyond what a page has room for at first."""
    memory, state = begun(model, 3)
    found = []
    for step in range(19):
        logits, after = model.step(state, pieces(step), memory)
        again, _ = model.step(state, pieces(step), memory)
        torch.testing.assert_close(again, logits, rtol=0, atol=0)
        other, _ = model.step(state, pieces(step + 1), memory)  # the last to write is not the one that goes on
        assert not torch.allclose(other, logits)
        found.append(logits)
        state = after
    assert state.pieces == 19
    said = torch.stack([pieces(step) for step in range(19)], -1)  # (B, L, T)
    for n in range(3):
        wanted = model.vocabulary(model.hidden(*SOURCE, said[:, n]))
        torch.testing.assert_close(torch.stack(found, 2)[:, n], wanted)


@torch.no_grad()
def test_beginnings_that_stay_what_they_were_read_the_same_side_by_side_and_alone(model: Model) -> None:
    memory, alone = begun(model, 3)
    together = alone
    stay = torch.arange(3).expand(2, -1)
    for step in range(5):
        wanted, alone = model.step(alone, pieces(step), memory)
        found, together = model.step(together, pieces(step), memory)
        torch.testing.assert_close(found, wanted)
        together = together.taken(stay)
    assert together.moved
    assert not alone.moved


@torch.no_grad()
def test_targets_that_are_left_go_on_as_before(model: Model) -> None:
    memory, state = begun(model, 3)
    for step in range(3):
        _, state = model.step(state, pieces(step), memory)
        state = state.taken(torch.tensor([[2, 0, 0], [1, 1, 2]]))
    wanted, _ = model.step(state, pieces(3), memory)
    rows = torch.tensor([1])
    left = Memory(tuple(x[rows] for x in memory.keys), tuple(x[rows] for x in memory.values), memory.lengths[rows])
    found, _ = model.step(state.of(rows), pieces(3)[rows], left)
    torch.testing.assert_close(found, wanted[rows])
