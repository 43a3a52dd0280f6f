"""A mask recovered from what transformers says allows what transformers' own mask allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import masking_utils

from regard.bridge import masks
from regard.bridge.masks import Asked, Call, Spans, recover
from regard.bridge.predicate import Predicate, made_predicate
from regard.grid import Grid
from regard.mask import Mask

utils: Any = masking_utils

B, LENGTH = 3, 11
PADDINGS: dict[str, Tensor | None] = {
    "none": None,
    "all": torch.ones(B, LENGTH, dtype=torch.bool),
    "right": torch.arange(LENGTH) < torch.tensor([[11], [7], [4]]),
    "left": torch.arange(LENGTH) >= torch.tensor([[0], [3], [8]]),
    "both": (torch.arange(LENGTH) >= 2) & (torch.arange(LENGTH) < torch.tensor([[11], [7], [4]])),
    "holes": torch.arange(LENGTH) % torch.tensor([[2], [3], [5]]) > 0,
    "a row of nothing": torch.arange(LENGTH) < torch.tensor([[11], [0], [4]]),
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "causal": utils.causal_mask_function,
    "everything": utils.bidirectional_mask_function,
    "window": utils.sliding_window_causal_mask_function(3),
    "window of one": utils.sliding_window_causal_mask_function(1),
    "window both ways": utils.sliding_window_bidirectional_mask_function(2),
    "chunks": utils.chunked_causal_mask_function(4, torch.tensor([0, 3, 1])),
}
#: (queries, keys, where queries start, where keys start): whole, a step, a chunk, a static cache, a window's cache
PLACES = [(11, 11, 0, 0), (1, 8, 7, 0), (4, 9, 5, 0), (3, 11, 2, 0), (5, 11, 0, 0), (3, 5, 6, 4), (1, 4, 9, 6)]


def whole(mask: Mask | None, call: Call) -> Tensor:
    if mask is None:
        return torch.ones(call.B, 1, call.L, call.S, dtype=torch.bool)
    return mask.tensor(call.B, 1, call.L, call.S).expand(call.B, 1, call.L, call.S)


def asked(function: Callable[..., Any], padding: Tensor | None, places: tuple[int, int, int, int]) -> Call:
    L, S, q_offset, kv_offset = places
    return Call(function, padding, B, L, S, q_offset, kv_offset, torch.device("cpu"))


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_it_allows_what_transformers_allows(function: str, padding: str, places: tuple[int, int, int, int]) -> None:
    call = asked(FUNCTIONS[function], PADDINGS[padding], places)
    found = recover(call)
    assert torch.equal(whole(found, call), call.rows(0, call.L))
    if padding != "holes" and found is not None:
        spans = found.spans(Grid.of(B, 1, call.L, call.S))
        assert spans is not None, "rows are intervals, and O(L) numbers say them"


@pytest.mark.parametrize("function", ["causal", "window"])
def test_packed_documents_are_segments(function: str) -> None:
    places = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6], [0, 1, 0, 1, 0, 1, 2, 3, 4, 5, 6], list(range(11))])
    ids = utils.find_packed_sequence_indices(places)
    mapped = utils.remap_positions_for_packed_sequence(FUNCTIONS[function], places)
    call = asked(utils.and_masks(mapped, utils.packed_sequence_mask_function(ids)), None, (11, 11, 0, 0))
    found = recover(call)
    assert found is not None
    assert "segments" in repr(found)
    assert torch.equal(whole(found, call), call.rows(0, 11))


def odd(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return (j <= i) & ((i + j) % 2 == 0)


def near(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return (j <= i) & (j >= i // 2) & (j >= b)


@pytest.mark.parametrize("cells", [1 << 22, 1])
@pytest.mark.parametrize("function", [odd, near])
def test_a_function_nobody_knows_is_looked_at(
    function: Callable[..., Any], cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(masks, "_CELLS", cells)
    call = asked(utils.and_masks(utils.causal_mask_function, function), PADDINGS["right"], (5, 11, 6, 0))
    found = recover(call)
    assert torch.equal(whole(found, call), call.rows(0, 5))
    if cells == 1:
        assert type(found) is (Asked if function is odd else Spans)
        assert found is not None
        grid = Grid.of(B, 1, 5, 11)
        assert torch.equal(found.allows(grid.rows(2, 4)).expand(B, 1, 2, 11), call.rows(2, 4))


def test_a_union_of_masks_is_looked_at() -> None:
    blocks = torch.tensor([[-1, 0, 0, 0, -1, 1, 1, -1, -1, -1, -1]]).expand(B, -1)
    function = utils.or_masks(utils.causal_mask_function, utils.blockwise_overlay(blocks))
    call = asked(function, PADDINGS["left"], (11, 11, 0, 0))
    assert torch.equal(whole(recover(call), call), call.rows(0, 11))


def test_every_way_to_compute_with_it_gives_the_booleans() -> None:
    wanted = utils.sdpa_mask(B, 5, 11, q_offset=6, attention_mask=PADDINGS["left"], allow_is_causal_skip=False)
    made = made_predicate(B, 5, 11, q_offset=torch.tensor(6), attention_mask=PADDINGS["left"])
    assert isinstance(made, Predicate)
    assert made.shape == wanted.shape
    assert made.dtype == torch.bool
    assert isinstance(made[:, :, :, :11], Predicate), "a slice of everything is everything"
    assert torch.equal(made[:, :, :, :7], wanted[:, :, :, :7])
    assert torch.equal(~made, ~wanted)
    assert torch.equal(torch.where(made, 0.0, 1.0), torch.where(wanted, 0.0, 1.0))
    assert torch.equal(torch.cat([made, made], -1), torch.cat([wanted, wanted], -1))
    assert torch.equal(made.expand(B, 4, 5, 11), wanted.expand(B, 4, 5, 11))
    assert "causal" in repr(made)
