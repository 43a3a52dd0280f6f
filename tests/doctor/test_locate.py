"""Where it begins: the innermost module whose inputs stand still and whose outputs move."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.doctor.locate import Kept, locate, place_of

L, B, D = 7, 3, 5


class Mixer(nn.Module):
    """Mean over all tokens, the later ones too, when sick; over the earlier ones when not."""

    def __init__(self, sick: bool, heads_first: bool = False) -> None:
        super().__init__()
        self.sick = sick
        self.before, self.after = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        x = self.before(x)
        count = torch.arange(1, L + 1)[:, None]
        mean = x.mean(1, keepdim=True).expand_as(x) if self.sick else x.cumsum(1) / count
        out: Tensor = self.after(mean)
        return out


class Stack(nn.Module):
    def __init__(self, sick: int | None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Mixer(i == sick) for i in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


def changed_from(cut: int) -> tuple[Tensor, Tensor, tuple[Kept, Kept]]:
    x = torch.randn(B, L, D)
    other = x.clone()
    other[:, cut:] += 1
    kept = Kept({L: (torch.arange(L) < cut).expand(B, L)})
    return x, other, (kept, kept)


def test_the_sick_layer_is_named_and_not_its_projections_nor_its_neighbours() -> None:
    for sick in range(3):
        model = Stack(sick)
        x, other, kept = changed_from(4)
        with torch.no_grad():
            place = locate(model, partial(model, x), partial(model, other), kept)
        assert place.module == f"layers.{sick}"
        file, _, line = place.source.rpartition(":")
        assert Path(file).name == "test_locate.py"
        assert "def forward" in Path(__file__).read_text().splitlines()[int(line) - 1]


def test_nothing_is_named_where_nothing_moves() -> None:
    model = Stack(None)
    x, other, kept = changed_from(4)
    with torch.no_grad():
        place = locate(model, partial(model, x), partial(model, other), kept)
    assert (place.module, place.change) == ("", 0.0)


def test_weights_are_put_back_and_no_hook_stays() -> None:
    model = Stack(1)
    before = {name: p.clone() for name, p in model.named_parameters()}
    x, other, kept = changed_from(2)
    with torch.no_grad():
        locate(model, partial(model, x), partial(model, other), kept)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_protected_places_are_found_on_any_axis_of_tokens() -> None:
    mask = torch.zeros(B, L, dtype=torch.bool)
    mask[0, 1], mask[2, 5] = True, True
    kept = Kept({L: mask})
    x = torch.randn(B, L, D)
    wanted = x[mask]
    heads_first = x.unflatten(-1, (1, D)).transpose(1, 2)  # (B, H, L, D)
    for shaped in (x, x.transpose(0, 1), heads_first):
        found = kept.of(shaped)
        assert found is not None
        assert torch.equal(found.reshape(2, D), wanted)
    assert kept.of(torch.randn(B, D)) is None


def test_a_path_that_is_not_there_has_no_source() -> None:
    assert place_of(nn.Linear(2, 2), "nowhere").source == ""
