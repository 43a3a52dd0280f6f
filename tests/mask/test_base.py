"""What every mask can become: a tensor, a drawing, a block map, a FlexAttention mask, a Hugging Face function."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch

from regard import RegardError, mask
from regard.grid import Grid
from regard.mask import EMPTY, FULL, PARTIAL, Mask

L, S = 11, 17
GENERATOR = torch.Generator().manual_seed(0)
MASKS: dict[str, Mask] = {
    "causal start": mask.causal("start"),
    "causal end": mask.causal("end"),
    "window": mask.window(2, 1, "end"),
    "padding": mask.padding([5, 0]),
    "segments": mask.segments([0] * 6 + [1] * 8 + [-1] * 3, [0] * 5 + [1] * 6),
    "strided": mask.strided(3, "start"),
    "blocks": mask.blocks(torch.rand(3, 4, 5, generator=GENERATOR) > 0.5, 4),
    "dense": mask.dense(torch.rand(2, 3, L, S, generator=GENERATOR) > 0.3),
    "dense over keys": mask.dense(torch.rand(2, 1, 1, S, generator=GENERATOR) > 0.3),
    "where": mask.where(lambda b, h, i, j: (i + h) * (j + b) % 3 > 0),
    "composed": (mask.causal("end") | ~mask.window(4, 4, "end")) & mask.padding([9, 17]),
}
every_mask = pytest.mark.parametrize("m", MASKS.values(), ids=MASKS)


@every_mask
@pytest.mark.parametrize("size", [1, 3, 4, 11, 128])
def test_a_block_map_says_of_every_tile_what_a_look_at_every_cell_says(m: Mask, size: int) -> None:
    B, H = 2, 3
    seen = m.tensor(B, H, L, S).expand(B, H, L, S)
    found = m.block_map(B, H, L, S, size)
    assert found.dtype == torch.int8
    rows, columns = -(-L // size), -(-S // size)
    found = found.expand(B, H, rows, columns)
    for b in range(B):
        for h in range(H):
            for r in range(rows):
                for c in range(columns):
                    tile = seen[b, h, r * size : (r + 1) * size, c * size : (c + 1) * size]
                    kind = FULL if tile.all() else PARTIAL if tile.any() else EMPTY
                    assert found[b, h, r, c] == kind


@every_mask
def test_a_flex_attention_mask_allows_the_same_pairs(m: Mask) -> None:
    from torch.nn.attention.flex_attention import create_mask

    B, H = 2, 3
    block = m.block_mask(B, H, L, S, size=8)
    assert block.shape == (B, H, L, S)
    dense = create_mask(block.mask_mod, B, H, L, S, device="cpu")
    assert torch.equal(dense, m.tensor(B, H, L, S).expand(B, H, L, S))
    tiles = block.to_dense().bool()  # tiles that are not empty
    assert torch.equal(tiles, (m.block_map(B, H, L, S, 8) != EMPTY).expand(tiles.shape))


@pytest.mark.parametrize(
    ("m", "length"),
    [
        (mask.causal(), 7),
        (mask.causal("end"), 7),
        (mask.window(2, 0), 7),
        (mask.padding([5, 0]), 7),
        (mask.segments([0, 0, 1, 1, 2, -1, 2]), 7),
        (mask.causal() & mask.padding([3, 6]), 7),
        (mask.dense(torch.rand(2, 3, 7, 7) > 0.4), 7),
    ],
    ids=repr,
)
def test_a_hugging_face_function_answers_cell_by_cell_as_the_mask_does(m: Mask, length: int) -> None:
    function = m.huggingface_function()
    seen = m.tensor(2, 3, length, length).expand(2, 3, length, length)
    for at in [(0, 0, 0, 0), (1, 2, 4, 3), (0, 1, 3, 4), (1, 0, 6, 2), (0, 2, 5, 6), (1, 1, 6, 6)]:
        assert bool(function(*at)) == bool(seen[at])
    b, h, i, j = (
        torch.arange(n).view(shape)
        for n, shape in zip(
            (2, 3, length, length), ((2, 1, 1, 1), (1, 3, 1, 1), (1, 1, length, 1), (1, 1, 1, length)), strict=True
        )
    )
    assert torch.equal(function(b, h, i, j).expand(2, 3, length, length), seen)


@every_mask
def test_a_band_of_queries_is_cut_out_of_the_whole(m: Mask) -> None:
    from regard.grid import Grid

    grid = Grid.of(2, 3, L, S)
    whole = m.allows(grid).expand(2, 3, L, S)
    band = m.allows(grid.rows(4, 9)).expand(2, 3, 5, S)
    assert torch.equal(band, whole[:, :, 4:9])


def test_a_mask_prints_its_name_and_the_matrix_that_it_allows() -> None:
    assert str(mask.causal() & mask.padding([2])).splitlines() == ["(causal(anchor=None) & padding([2]))", "■ ·", "■ ■"]
    assert mask.padding([1, 3]).draw(1, 3, b=1) == "■ ■ ■"
    per_head = mask.dense(torch.tensor([[[True]], [[False]]]))
    assert (per_head.draw(h=0), per_head.draw(h=1)) == ("■", "·")
    assert len(mask.causal().draw().splitlines()) == 8
    assert mask.causal("end").draw(2, 3) == "■ ■ ·\n■ ■ ■"
    assert repr(~mask.strided(2) | mask.window(1, None)).startswith("(~strided(")
    assert "dense((1, 1, 2, 3))" in repr(mask.dense(torch.ones(2, 3, dtype=torch.bool)))


@pytest.mark.parametrize("m", MASKS.values(), ids=MASKS)
def test_every_mask_draws_at_the_size_of_a_read(m: Mask) -> None:
    drawn = m.draw(L, S, b=1, h=2).splitlines()
    seen = m.tensor(2, 3, L, S).expand(2, 3, L, S)[1, 2]
    assert [[cell == "■" for cell in line.split(" ")] for line in drawn] == seen.tolist()


def test_a_tensor_beside_a_mask_is_refused_with_what_to_wrap_it_in() -> None:
    bare: Any = torch.ones(2, 2, dtype=torch.bool)
    for compose in (operator.and_, operator.or_):
        with pytest.raises(RegardError, match=r"wanted a mask on both sides; wrap .*regard.mask.dense\(tensor\)"):
            compose(mask.causal(), bare)
    with pytest.raises(RegardError, match="mask & int: wanted a mask on both sides"):
        mask.causal() & 3  # type: ignore[operator]


EXACT = ["causal start", "causal end", "window", "padding", "segments"]


@pytest.mark.parametrize("name", MASKS)
def test_spans_are_what_the_mask_allows_and_its_hull_holds_it(name: str) -> None:
    m, B, H, places = MASKS[name], 2, 3, torch.arange(S)
    grid = Grid.of(B, H, L, S)
    for rows in (grid, grid.rows(3, 8)):
        allowed = m.allows(rows).expand(B, H, -1, S)
        lo, hi = m.hull(rows)
        inside = (lo.unsqueeze(-1) <= places) & (places < hi.unsqueeze(-1))
        assert not (allowed & ~inside).any(), "something outside the hull is seen"
        spans = m.spans(rows)
        assert (spans is not None) == (name in EXACT)
        if spans is not None:
            assert torch.equal(inside.expand_as(allowed), allowed)


def test_spans_of_composed_masks() -> None:
    grid = Grid.of(2, 1, L, S)
    both = mask.window(3, 0, "end") & mask.padding([9, 17]) & mask.dense(torch.ones(L, S, dtype=torch.bool).tril(6))
    spans = both.spans(grid)
    assert spans is not None
    lo, hi = spans
    places = torch.arange(S)
    inside = (lo.unsqueeze(-1) <= places) & (places < hi.unsqueeze(-1))
    assert torch.equal(inside, both.allows(grid))
    lo, hi = (mask.window(1, 1, "end") | mask.window(0, 2, "end")).hull(grid)
    assert (hi - lo).max() == 4


def test_packed_documents_are_spans_and_scattered_ones_are_not() -> None:
    grid = Grid.of(1, 1, 6, 6)
    packed = mask.segments([5, 5, -1, 0, 0, 2])
    spans = packed.spans(grid)
    assert spans is not None
    assert spans[0].flatten().tolist() == [0, 0, 0, 3, 3, 5]
    assert spans[1].flatten().tolist() == [2, 2, 0, 5, 5, 6]
    assert mask.segments([5, 5, 0, 0, 5, 5]).spans(grid) is None
    nothing = mask.segments([-1] * 6).spans(grid)
    assert nothing is not None
    assert (nothing[1] <= nothing[0]).all()
