"""What runs under a mask: the tiles that are counted are those with a pair that may be seen; no other is touched."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import regard
from regard import mask
from regard.engines import Tiled
from regard.engines.tiled.seen import Seen, all_cells, seen
from regard.grid import Grid
from regard.mask import Mask
from regard.mask.tiles import outlined

B, H, G, L, S, D = 2, 6, 3, 131, 151, 5
TILE = 16
IDS = torch.tensor([29, 3, 61, 1, 40, 17]).cumsum(0)  # documents of these lengths
PACKED = torch.searchsorted(IDS, torch.arange(S), right=True)
RANDOM = torch.Generator().manual_seed(5)
#: Each with whether a row's keys may have gaps, so that it is read cell by cell.
MASKS: dict[str, tuple[Mask, bool]] = {
    "window": (mask.window(7, 3, "end"), False),
    "causal": (mask.causal("end"), False),
    "packed documents": (mask.segments(PACKED, PACKED[:L]), False),
    "packed documents, causal": (mask.segments(PACKED, PACKED[:L]) & mask.causal("start"), False),
    "documents in pieces": (mask.segments(PACKED * 5 % 3, PACKED[:L] * 5 % 3), True),
    "documents of a batch": (mask.segments(torch.stack([PACKED, PACKED * 5 % 3 - 1]), PACKED[:L]), True),
    "strided": (mask.strided(5, "end"), True),
    "strided further than a tile": (mask.strided(43, "start"), True),
    "Child's": ((mask.window(11, 0, "end") | mask.strided(53, "end")) & mask.causal("end"), True),
    "blocks": (mask.blocks(torch.rand(H, 6, 6, generator=RANDOM) < 0.2, 29), True),
    "all but a window": (~mask.window(40, 23, "end"), True),
    "a tensor": (mask.dense(torch.rand(B, 1, L, S, generator=RANDOM) < 0.004), True),
    "nothing": (mask.strided(2, "end") & ~mask.strided(2, "end"), True),
}
every_mask = pytest.mark.parametrize("name", MASKS)


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tiled, "rows", TILE)
    monkeypatch.setattr(Tiled, "columns", TILE)


def whole(m: Mask) -> Tensor:
    return m.tensor(B, H, L, S).expand(B, H, L, S)


def wanted(allowed: Tensor, gaps: bool) -> Tensor:
    """Which keys each block of queries may touch, (B, H, blocks, S): whole tiles, or all from the first to the last."""
    blocks = torch.stack([rows.any(2) for rows in allowed.split(TILE, 2)], 2)
    if gaps:
        tiles = [tile.any(-1, keepdim=True).expand_as(tile) for tile in blocks.split(TILE, -1)]
        return torch.cat(tiles, -1)
    return (blocks.cumsum(-1) > 0) & (blocks.flip(-1).cumsum(-1).flip(-1) > 0)


@every_mask
def test_the_tiles_that_run_are_those_with_a_pair_that_may_be_seen(name: str) -> None:
    m, gaps = MASKS[name]
    keys = wanted(whole(m), gaps)
    q, k = torch.zeros(B, H, L, D), torch.zeros(B, G, S, D)
    plan = regard.explain(q, k, k, mask=m, engine="tiled")
    if gaps:
        run = sum(int(tile.any(-1).sum()) for tile in keys.split(TILE, -1))
    else:  # tiles begin at the first key that a block sees
        run = int((-(-keys.sum(-1) // TILE)).sum())
    assert plan.tiles == (run, B * H * -(-L // TILE) * -(-S // TILE))
    rows = torch.full((keys.shape[2],), TILE)
    rows[-1] = L % TILE
    pairs = int((keys.sum(-1) * rows).sum())
    assert plan.flops == 4 * D * pairs if gaps else plan.flops >= 4 * D * pairs


@every_mask
def test_no_value_outside_of_a_live_tile_is_touched(name: str) -> None:
    m, gaps = MASKS[name]
    keys = wanted(whole(m), gaps)
    q, k, v = torch.randn(B, H, L, D), torch.randn(B, H, S, D), torch.randn(B, H, S, D)
    for block in range(keys.shape[2]):
        rows = slice(block * TILE, min(L, (block + 1) * TILE))
        poisoned = torch.where(keys[:, :, block].unsqueeze(-1), v, torch.nan)  # NaN times a weight of 0 is NaN
        leaf = q.clone().requires_grad_()
        out = regard.attend(leaf, k, poisoned, mask=m, engine="tiled")[:, :, rows]
        assert out.isfinite().all(), block
        (grad,) = torch.autograd.grad(out.sum(), leaf)
        assert grad[:, :, rows].isfinite().all(), block


@every_mask
@pytest.mark.parametrize("cell", [3, 16, 64])
def test_bits_say_what_the_mask_says(name: str, cell: int) -> None:
    m, gaps = MASKS[name]
    allowed, grid = whole(m), Grid.of(B, H, L, S)
    found = seen(m, grid, cell)
    assert torch.equal(found.count.expand(B, H, L), allowed.sum(-1))
    assert (found.at is not None) == gaps
    for each in (found, Seen(found.lo, found.hi, *all_cells(m, grid, cell))):
        assert torch.equal(each.count.expand(B, H, L), allowed.sum(-1))
        if each.at is not None:
            assert torch.equal(drawn(each).expand(B, H, L, S), allowed)


def drawn(of: Seen) -> Tensor:
    """The booleans again, (b, h, L, S)."""
    assert of.at is not None
    assert of.words is not None
    bits = (of.words.unsqueeze(-1) >> torch.arange(of.cell)) & 1
    pool = torch.cat([torch.zeros(1, of.cell, of.cell), torch.ones(1, of.cell, of.cell), bits.float()])
    tiles = pool[of.at.long()]  # (b, h, rows, columns, cell, cell)
    return tiles.transpose(3, 4).flatten(4, 5).flatten(2, 3)[:, :, :L, :S] > 0


@every_mask
def test_what_is_sure_of_a_tile_is_right_and_little_is_open(name: str) -> None:
    m, _ = MASKS[name]
    for size in (1, 7, 16, 64):
        some, every = (x.expand(B, H, -1, -1) for x in outlined(m, Grid.of(B, H, L, S), size))
        kinds = m.block_map(B, H, L, S, size).expand(B, H, -1, -1)
        allowed = torch.nn.functional.pad(whole(m), (0, -S % size, 0, -L % size))
        live = allowed.unflatten(3, (-1, size)).unflatten(2, (-1, size)).any(5).any(3)
        assert torch.equal(kinds != mask.EMPTY, live)
        assert not (live & ~some).any()
        assert (kinds[every] == mask.FULL).all()
        if name in ("strided", "strided further than a tile", "blocks", "packed documents"):
            assert torch.equal(some, live)


@pytest.mark.parametrize("name", ["packed documents", "strided further than a tile", "blocks", "Child's"])
def test_the_predicate_is_asked_only_where_a_tile_is_open(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    m, _ = MASKS[name]
    asked = 0

    def counted(self: Mask, grid: Grid, before: object = type(m).allows) -> Tensor:
        nonlocal asked
        found: Tensor = before(self, grid)  # type: ignore[operator]
        asked += found.numel()
        return found

    monkeypatch.setattr(type(m), "allows", counted)
    kinds = m.block_map(1, H, L, S, TILE)
    assert asked <= int((kinds == mask.PARTIAL).sum() * 1.3) * TILE**2 + 2 * S * H
