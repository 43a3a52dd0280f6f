"""The threshold operator against the dense reference in double precision, with blocks that every shape crosses."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.engines.tiled import recipe
from regard.engines.tiled.given import DISTANCE, ENTROPY, PEAK
from regard.engines.tiled.seen import all_cells
from regard.engines.tiled.threshold_ops import tiled_threshold
from regard.grid import Grid
from regard.mask import dense
from regard.normalize import Entmax, Normalizer, TopK

F64 = torch.float64
B, G, L, S, D, E = 2, 3, 37, 53, 11, 13
H = 2 * G
ALL = ENTROPY | PEAK | DISTANCE
ALPHAS = [1.1, 1.3, 1.5, 1.7, 2.0, 2.5]
NAMES = ("output", "entropy", "peak", "at", "distance", "mass")


@dataclass
class Case:
    """One call: scores of q and k by ``steps``, seen by ``allowed`` (B, H, L, S)."""

    q: Tensor
    k: Tensor
    v: Tensor
    alpha: Tensor
    allowed: Tensor
    given: bool = True  # cell by cell, not as spans
    cell: int = 16
    kind: int = recipe.PRODUCT
    scale: float = 0.3
    energy: Tensor | None = None
    table: Tensor | None = None
    row: Tensor | None = None
    steps: list[int] = field(default_factory=list)
    numbers: Tensor = field(default_factory=lambda: torch.empty(0, H, dtype=F64))
    rate: float = 0.0
    keep: int = 0  # the k of top-k; then α says nothing
    tags: Tensor = field(default_factory=lambda: (torch.rand(2, B * H, S) < 0.3).float())

    def leaves(self) -> list[Tensor]:
        found = [self.q, self.k, self.v, None if self.keep else self.alpha, self.energy, self.table, self.row]
        return [x for x in found if x is not None]

    def arguments(self, want: int = ALL, tile: int = 16) -> tuple[Any, ...]:
        allowed = self.allowed
        places = torch.arange(S).expand(allowed.shape)
        lo = torch.where(allowed, places, S).amin(-1)
        hi = torch.where(allowed, places + 1, 0).amax(-1)
        cells: tuple[Tensor | None, ...] = (None, None)
        if self.given:
            cells = all_cells(dense(allowed), Grid.of(*allowed.shape), self.cell)[1:]
        return (
            self.q, self.k, self.v, self.energy, self.table, self.row, lo, hi, *cells, self.tags.to(self.q.dtype),
            self.numbers, self.steps, self.kind, self.scale, self.rate, 7, S - L, want, [tile, tile],
            self.alpha, self.keep,
        )  # fmt: skip

    def run(self, want: int = ALL, tile: int = 16) -> dict[str, Tensor]:
        return dict(zip(NAMES, tiled_threshold(*self.arguments(want, tile)), strict=False))

    def scores(self) -> Tensor:
        k = self.k.repeat_interleave(H // G, 1)
        if self.kind == recipe.TANH:
            assert self.energy is not None
            s = torch.tanh(self.q[..., None, :] + k[..., None, :, :]) @ self.energy
        else:
            s = self.scale * self.q @ k.transpose(-1, -2)
        i, j = torch.arange(L)[:, None], torch.arange(S)
        for step, number in enumerate(self.numbers):
            code, shift, offset, reach = self.steps[4 * step : 4 * step + 4]
            one = number.view(H, 1, 1).to(s.dtype)
            if code == recipe.CAP:
                s = one * torch.tanh(s / one)
            elif code == recipe.SLOPE:
                s = s - one * (i + shift - j).abs()
            elif code == recipe.ROW:
                assert self.row is not None
                s = s + self.row[..., None]
            elif code == recipe.TABLE:
                assert self.table is not None
                s = s + self.table[:, offset + reach + (j - i - shift).clamp(-reach, reach)]
            else:
                s = s * one
        return s.masked_fill(~self.allowed, -math.inf)

    @property
    def normalizer(self) -> Normalizer:
        return TopK(self.keep) if self.keep else Entmax(self.alpha)

    def reference(self) -> dict[str, Tensor]:
        w = self.normalizer(self.scores())
        far = (torch.arange(L)[:, None] + S - L - torch.arange(S)).abs()
        peak, at = w.max(-1)
        return {
            "output": w @ self.v.repeat_interleave(H // G, 1),
            "entropy": -torch.where(w > 0, w * torch.where(w > 0, w, 1.0).log(), 0.0).sum(-1),
            "peak": peak,
            "at": torch.where(self.allowed.any(-1), at, -1),
            "distance": (w * far).sum(-1),
            "mass": (w * self.tags.to(w.dtype).view(-1, B, H, 1, S)).sum(-1),
        }


def masks() -> dict[str, Tensor]:
    i, j = torch.arange(L)[:, None], torch.arange(S)
    full = torch.ones(B, H, L, S, dtype=torch.bool)
    padded = full.clone()
    padded[1, :, :, 31:] = False
    holes = torch.rand(B, H, L, S) < 0.4
    holes[:, :, :16, :40] = False  # a block whose first tiles are empty
    holes[0, 1, 5] = holes[1, :, 3] = False  # rows that may see nothing
    window = full & ((i + S - L - j).abs() <= 5)
    nothing = window.clone()
    nothing[:, :, 10:33] = False  # a whole block sees nothing
    return {"full": full, "padded": padded, "holes": holes, "window": window, "window with empty rows": nothing}


MASKS = ["full", "padded", "holes", "window", "window with empty rows"]


def made(alpha: float | list[float], mask: str = "full", spread: float = 2.0, **parts: Any) -> Case:
    """A case in double precision; ``spread`` large makes few weights, small makes many."""
    alphas = torch.tensor(alpha if isinstance(alpha, list) else [alpha] * H, dtype=F64)
    q, k, v = (torch.randn(B, h, n, w, dtype=F64) for h, n, w in ((H, L, D), (G, S, D), (G, S, E)))
    case = Case(spread * q, k, v, alphas, masks()[mask], given=mask == "holes", **parts)
    for leaf in case.leaves():
        leaf.requires_grad_()
    return case


def check(case: Case, close: float = 1e-9) -> None:
    """Every output and every gradient of a sum of all of them with random weights."""
    found, wanted = case.run(), case.reference()
    assert torch.equal(found["at"].long(), wanted["at"])
    loss = wish = torch.zeros((), dtype=F64)
    for name in ("output", "entropy", "peak", "distance", "mass"):
        assert (found[name] - wanted[name]).abs().max() < close, name
        away = torch.randn_like(wanted[name])
        loss, wish = loss + (found[name] * away).sum(), wish + (wanted[name] * away).sum()
    for one, other in zip(
        torch.autograd.grad(loss, case.leaves()), torch.autograd.grad(wish, case.leaves()), strict=True
    ):
        assert one.isfinite().all()
        assert (one - other).abs().max() < close * (100 + other.abs().max())


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_outputs_statistics_and_gradients_are_the_references(alpha: float, mask: str) -> None:
    check(made(alpha, mask), 1e-9 if alpha <= 2 else 1e-7)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("keep", [1, 3, 11, 40, S, 1000])
def test_outputs_statistics_and_gradients_of_top_k_are_the_references(keep: int, mask: str) -> None:
    check(made(1.0, mask, keep=keep))


@pytest.mark.parametrize("mask", ["full", "holes", "window"])
@pytest.mark.parametrize("keep", [1, 2, 5, 20])
def test_scores_that_tie_at_the_threshold_stay_in_on_both_ways(keep: int, mask: str) -> None:
    case = made(1.0, mask, keep=keep, scale=0.25)
    with torch.no_grad():  # scores are a few multiples of a quarter, which sums in any order say exactly
        for x in (case.q, case.k):
            x.copy_(x.round().clamp(-1, 1))
        case.k[1] = case.k[1, :, :1]  # and in one row of the batch all alike
    check(case)


@pytest.mark.parametrize("spread", [0.01, 0.3, 30.0])
@pytest.mark.parametrize("mask", ["full", "holes"])
def test_rows_in_which_all_keys_have_weight_and_rows_in_which_one_has(spread: float, mask: str) -> None:
    check(made([1.2, 1.5, 1.5, 1.6, 2.0, 2.0], mask, spread))


@pytest.mark.parametrize("cell", [1, 5, 64])
def test_cells_of_a_mask_need_not_fit_the_blocks(cell: int) -> None:
    check(made(1.5, "holes", cell=cell))


@pytest.mark.parametrize("keep", [0, 7])
@pytest.mark.parametrize("name", ["nothing", "all"])
@pytest.mark.parametrize("spread", [0.03, 3.0])  # many keys have weight, and few
def test_a_tile_in_which_nothing_may_be_seen_is_not_touched(spread: float, name: str, keep: int) -> None:
    steps, parts = STEPS.get(name, ([], dict))
    numbers = torch.rand(len(steps) // 4, H, dtype=F64) + 0.5
    case = made(1.4, "holes", spread, steps=steps, numbers=numbers, keep=keep, **parts())
    case.allowed[..., 0], case.allowed[..., 16:48] = True, False
    case.allowed[:, 2, 3:9] = False  # rows that see nothing, and blocks that see less than others
    case.allowed[1, :, 16:32, 48:] = False
    wanted = case.reference()
    away = torch.randn_like(wanted["output"])
    slopes = torch.autograd.grad((wanted["output"] * away).sum() + wanted["distance"].sum(), case.leaves())
    with torch.no_grad():  # what is multiplied by 0 even once is seen
        case.k[:, :, 16:48] = case.v[:, :, 16:48] = math.nan
    found = case.run()
    for what in ("output", "entropy", "peak", "distance", "mass"):
        assert (found[what] - wanted[what]).abs().max() < 1e-9, what
    gradients = torch.autograd.grad((found["output"] * away).sum() + found["distance"].sum(), case.leaves())
    for one, other in zip(gradients, slopes, strict=True):
        assert (one - other).abs().max() < 1e-7


def test_queries_of_one_head_may_be_shared_out() -> None:
    torch.set_num_threads(5)  # does not divide B·G, so every thread has sums of its own
    check(made(1.5, "holes"))
    check(made(1.3, "window", 0.1))


STEPS: dict[str, tuple[list[int], Callable[[], dict[str, Any]]]] = {
    "alibi": ([recipe.SLOPE, S - L, 0, 0], dict),
    "a cap": ([recipe.CAP, 0, 0, 0], dict),
    "a row": ([recipe.ROW, 0, 0, 0], lambda: {"row": torch.randn(B, H, L, dtype=F64)}),
    "a table": ([recipe.TABLE, S - L, 0, 4], lambda: {"table": torch.randn(H, 9, dtype=F64)}),
    "all": (
        [recipe.TIMES, 0, 0, 0, recipe.CAP, 0, 0, 0, recipe.TABLE, S - L, 0, 4, recipe.CAP, 0, 0, 0],
        lambda: {"table": torch.randn(H, 9, dtype=F64)},
    ),
    "a sum of tanh": ([], lambda: {"kind": recipe.TANH, "energy": torch.randn(D, dtype=F64)}),
}


@pytest.mark.parametrize("mask", ["holes", "window"])
@pytest.mark.parametrize("keep", [0, 4])
@pytest.mark.parametrize("name", STEPS)
def test_scores_of_every_make_pull_back(name: str, keep: int, mask: str) -> None:
    steps, parts = STEPS[name]
    numbers = torch.rand(len(steps) // 4, H, dtype=F64) + 0.5
    check(made([1.2, 1.5, 1.5, 1.6, 2.0, 2.0], mask, steps=steps, numbers=numbers, keep=keep, **parts()))


@pytest.mark.parametrize("keep", [0, 6])
def test_single_precision_and_the_engines_own_blocks(keep: int) -> None:
    case = made(1.5, "holes", keep=keep)
    wanted = case.reference()
    slim = replace(case, q=case.q.detach().float(), k=case.k.detach().float(), v=case.v.detach().float())
    for tile in (16, 256):
        found = slim.run(tile=tile)
        for name in ("output", "entropy", "peak", "distance", "mass"):
            assert (found[name] - wanted[name]).abs().max() < 1e-4, name
            assert found[name].dtype == torch.float32


def test_what_is_not_wanted_is_not_there_and_changes_nothing() -> None:
    case = made(1.5)
    few = case.run(0)
    assert [few[name].numel() for name in ("entropy", "peak", "at", "distance")] == [0, 0, 0, 0]
    assert torch.equal(few["output"], case.run()["output"])
    grads = torch.autograd.grad(few["output"].square().sum(), case.leaves())
    wanted = torch.autograd.grad(case.reference()["output"].square().sum(), case.leaves())
    for one, other in zip(grads, wanted, strict=True):
        assert (one - other).abs().max() < 1e-8


def test_a_learnt_alpha_learns_in_every_head_by_itself_and_only_where_it_is_asked() -> None:
    case = made([1.1, 1.3, 1.5, 1.7, 2.0, 2.5], "holes")
    check(case, 1e-7)
    case.alpha.requires_grad_(False)
    case.run()["output"].sum().backward()
    assert case.alpha.grad is None


@pytest.mark.parametrize(("spread", "keep"), [(0.1, 0), (3.0, 0), (0.1, 2), (0.1, 30)])
def test_dropout_throws_the_same_dice_on_both_ways_and_leaves_the_statistics_alone(spread: float, keep: int) -> None:
    case = made(1.5, "holes", spread, keep=keep)
    still = case.run()
    case.rate = 0.4
    found = case.run()
    assert torch.equal(found["entropy"], still["entropy"])
    # The weights that were left, read off with values that name their keys.
    eye = torch.eye(S, dtype=F64).expand(B, G, S, S)
    kept = replace(case, v=eye).run()["output"].detach()
    w = case.normalizer(case.scores())
    ratio = torch.where(w > 1e-9, kept / w, 0.0).detach()
    assert ((ratio.abs() < 1e-6) | ((ratio - 1 / 0.6).abs() < 1e-6)).all()
    assert 0.5 < (ratio[w > 1e-9] > 0).double().mean() < 0.7
    wanted = (w * ratio) @ case.v.repeat_interleave(H // G, 1)
    assert (found["output"] - wanted).abs().max() < 1e-6
    away = torch.randn_like(wanted)
    for one, other in zip(
        torch.autograd.grad((found["output"] * away).sum(), case.leaves()),
        torch.autograd.grad((wanted * away).sum(), case.leaves()),
        strict=True,
    ):
        assert (one - other).abs().max() < 1e-5


@pytest.mark.parametrize("keep", [0, 6, S])
def test_numbers_that_are_none_stay_in_their_row(keep: int) -> None:
    case = made(1.5, keep=keep)
    with torch.no_grad():
        case.q[0, 1, 20] = math.nan
    found = case.run()
    for name in ("output", "entropy", "peak", "distance"):
        wrong = found[name].isnan()
        assert wrong[0, 1, 20].all(), name
        assert wrong.sum() == wrong[0, 1, 20].sum(), name


@pytest.mark.parametrize("keep", [0, 1, 2])
@pytest.mark.parametrize(("length", "keys"), [(0, 5), (5, 0), (1, 1), (3, 1)])
def test_the_least_shapes(length: int, keys: int, keep: int) -> None:
    q, k, v = torch.randn(1, 2, length, 3), torch.randn(1, 1, keys, 3), torch.randn(1, 1, keys, 4)
    q.requires_grad_()
    lo, hi = torch.zeros(1, 1, length, dtype=torch.int64), torch.full((1, 1, length), keys)
    found = tiled_threshold(
        q, k, v, None, None, None, lo, hi, None, None, torch.empty(0, 1, keys), torch.empty(0, 2, dtype=F64), [], 0,
        1.0, 0.0, 0, 0, ALL, [16, 16], torch.tensor([1.5, 2.0], dtype=F64), keep,
    )  # fmt: skip
    out = found[0]
    assert out.shape == (1, 2, length, 4)
    if keys == 1:
        assert (out - v).abs().max() < 1e-6
    elif length:
        assert (out == 0).all()
        assert (found[3] == -1).all()
    out.sum().backward()
    assert q.grad is not None
    assert (q.grad == 0).all()


@pytest.mark.parametrize(("name", "keep"), [("alibi", 0), ("a table", 0), ("a sum of tanh", 0), ("alibi", 5)])
def test_pytorch_finds_nothing_wrong_with_the_operator(name: str, keep: int) -> None:
    steps, parts = STEPS[name]
    numbers = torch.rand(len(steps) // 4, H, dtype=F64) + 0.5
    case = made(1.5, "holes", steps=steps, numbers=numbers, keep=keep, **parts())
    torch.library.opcheck(tiled_threshold, case.arguments())


def test_a_block_of_rows_fits_its_cache_and_a_window_keeps_it_short() -> None:
    from regard.engines.tiled.threshold_ops import _block

    i = torch.arange(4096)[None].numpy()
    assert _block(0 * i, 0 * i + 4096, 256, 4) == (64, 4096)
    assert _block(0 * i, i + 1, 256, 4) == (64, 4096)
    R, W = _block((i - 128).clip(0), i + 1, 256, 4)
    assert (R, W) == (64, 128 + 64)
    assert _block(0 * i, 0 * i, 16, 4) == (16, 0)
