"""Every mask and group, and which cells it shows by its definition, which shares no code with the package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard import mask
from regard.mask import Mask
from tests.laws.shapes import END, B, H, L, S

LENGTHS = [0, 4]
IDS = [[0, 0, 1, 1, -1, 2, 2], [3, -1, 3, 3, 4, 4, 4]]
QUERY_IDS = [[0, 1, 2, -1, 0], [3, 4, 4, 5, 3]]
TABLE = torch.randn(H, 3, 4, generator=torch.Generator().manual_seed(1)) > 0
DENSE = torch.randn(B, H, L, S, generator=torch.Generator().manual_seed(2)) > 0.3
KEYS = torch.tensor([[True, False, True, True, False, True, True], [False, True, True, True, True, True, False]])


@dataclass(frozen=True)
class MaskCase:
    build: Callable[[], Mask | None]
    sees: Callable[[int, int, int, int], bool]


MASKS = {
    "none": MaskCase(lambda: None, lambda b, h, i, j: True),
    "causal from the start": MaskCase(lambda: mask.causal("start"), lambda b, h, i, j: j <= i),
    "causal to the end": MaskCase(lambda: mask.causal("end"), lambda b, h, i, j: j <= i + END),
    "window": MaskCase(lambda: mask.window(1, 2, "end"), lambda b, h, i, j: i + END - 1 <= j <= i + END + 2),
    "window to the left": MaskCase(lambda: mask.window(2, 0, "start"), lambda b, h, i, j: i - 2 <= j <= i),
    "padding": MaskCase(lambda: mask.padding(LENGTHS), lambda b, h, i, j: j < LENGTHS[b]),
    "segments": MaskCase(
        lambda: mask.segments(torch.tensor(IDS), torch.tensor(QUERY_IDS)),
        lambda b, h, i, j: IDS[b][j] == QUERY_IDS[b][i] and IDS[b][j] >= 0,
    ),
    "strided": MaskCase(lambda: mask.strided(3, "end"), lambda b, h, i, j: (i + END - j) % 3 == 0),
    "blocks": MaskCase(lambda: mask.blocks(TABLE, 2), lambda b, h, i, j: bool(TABLE[h, i // 2, j // 2])),
    "dense": MaskCase(lambda: mask.dense(DENSE), lambda b, h, i, j: bool(DENSE[b, h, i, j])),
    "dense over keys": MaskCase(lambda: mask.dense(KEYS[:, None, None]), lambda b, h, i, j: bool(KEYS[b, j])),
    "where": MaskCase(
        lambda: mask.where(lambda b, h, i, j: (i * j + h + b) % 3 != 0), lambda b, h, i, j: (i * j + h + b) % 3 != 0
    ),
    "where over queries": MaskCase(lambda: mask.where(lambda b, h, i, j: i != 2), lambda b, h, i, j: i != 2),
    "causal & padding": MaskCase(
        lambda: mask.causal("end") & mask.padding(LENGTHS), lambda b, h, i, j: j <= i + END and j < LENGTHS[b]
    ),
    "window | strided": MaskCase(
        lambda: mask.window(0, 0, "start") | mask.strided(4, "start"), lambda b, h, i, j: j == i or (i - j) % 4 == 0
    ),
    "~causal": MaskCase(lambda: ~mask.causal("start"), lambda b, h, i, j: j > i),
    "(causal | dense) & ~segments": MaskCase(
        lambda: (mask.causal("start") | mask.dense(DENSE)) & ~mask.segments(torch.tensor(IDS), torch.tensor(QUERY_IDS)),
        lambda b, h, i, j: (
            (j <= i or bool(DENSE[b, h, i, j])) and not (IDS[b][j] == QUERY_IDS[b][i] and IDS[b][j] >= 0)
        ),
    ),
}

GROUPS: dict[str, Mask | Tensor] = {
    "some keys": torch.tensor([True, False, False, True, False, True, False]),
    "keys of a row": KEYS,
    "self": mask.window(0, 0, "end"),
    "odd heads": mask.where(lambda b, h, i, j: (h + j) % 2 == 1),
}
IN_GROUP: dict[str, Callable[[int, int, int, int], bool]] = {
    "some keys": lambda b, h, i, j: j in (0, 3, 5),
    "keys of a row": lambda b, h, i, j: bool(KEYS[b, j]),
    "self": lambda b, h, i, j: j == i + END,
    "odd heads": lambda b, h, i, j: (h + j) % 2 == 1,
}
