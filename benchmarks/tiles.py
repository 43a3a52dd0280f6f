"""Masks of every kind: time and memory follow the tiles in which something may be seen, not the square of the length.

The yardstick is none of the engine's own: a tile is 64 queries by 64 keys, live where the mask allows one pair of them.
The criterion, written before the first measurement: a live tile takes at most 1.5 times what a tile takes with no mask,
all that the mask costs included, at both lengths; and a call takes at most 1.5 times its results (the output and three
gradients) and a bit for each pair of the live tiles, and 24 MiB for blocks, the look at the mask, and stray pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from benchmarks.harness.memory import memory_row
from benchmarks.harness.peers import attention_cost, forward_backward
from benchmarks.harness.row import Row, at_most
from benchmarks.harness.setting import Setting
from benchmarks.harness.timing import Contender, race

if TYPE_CHECKING:
    from regard.mask import Mask

TITLE = "causal, window, packed documents, strided and blocks, L=4,096 and 16,384: time a live tile against no mask"

H, D, TILE = 2, 64, 64
NONE = "no mask"
NAMES = (
    "causal",
    "window(128, 0)",
    "documents of 512",
    "documents of 16 to 1,500",
    "documents of 16 to 1,500, causal",
    "documents in turns",
    "strided(128), causal",
    "window(128, 0) | strided(2,048), causal",
    "blocks, one in ten",
)
PER_TILE = at_most(1.5)


def mask(name: str, L: int) -> Mask | None:
    """The mask of that name over L queries and as many keys."""
    import regard

    make = regard.mask
    random = torch.Generator().manual_seed(0)
    lengths = torch.randint(16, 1501, (L // 16,), generator=random)
    document = torch.searchsorted(lengths.cumsum(0), torch.arange(L), right=True)
    masks: dict[str, Callable[[], Mask]] = {
        "causal": make.causal,
        "window(128, 0)": lambda: make.window(128, 0),
        "documents of 512": lambda: make.segments(torch.arange(L) // 512),
        "documents of 16 to 1,500": lambda: make.segments(document),
        "documents of 16 to 1,500, causal": lambda: make.segments(document) & make.causal(),
        "documents in turns": lambda: make.segments(torch.arange(L) // 256 % 8),  # each in many pieces
        "strided(128), causal": lambda: make.strided(128) & make.causal(),
        "window(128, 0) | strided(2,048), causal": lambda: (make.window(128, 0) | make.strided(2048)) & make.causal(),
        "blocks, one in ten": lambda: make.blocks(
            torch.rand(-(-L // TILE), -(-L // TILE), generator=random) < 0.1, TILE
        ),
    }
    return masks[name]() if name in masks else None


def live(name: str, L: int) -> float:
    """The share of the tiles that are live."""
    found = mask(name, L)
    return 1.0 if found is None else float((found.block_map(1, 1, L, L, TILE) > 0).double().mean())


def rows(setting: Setting) -> Iterator[Row]:
    """Forward, then with backward, at both lengths; memory at the longer."""
    lengths = (setting.size(4096, quick=131), setting.size(16_384, quick=331))
    for L in lengths:
        for backward in (False, True):
            contenders = [Contender(name, partial(ours, setting, name, L, backward)) for name in (NONE, *NAMES)]
            found = race(setting, contenders)
            for name in NAMES:
                share = live(name, L)
                cost = attention_cost(setting, share * L * L, 1, H, L, D, backward=backward)
                work = f"{name}, L={L:,}, forward{' + backward' if backward else ''}"
                row = found.row(NONE, work, ours=name, goal=PER_TILE, cost=cost)
                note = f"{share:.2%} of {(-(-L // TILE)) ** 2:,} tiles are live"
                if row.value is not None and row.low is not None and row.high is not None:
                    note += f"; {row.value:.2%} of the time"
                    row = replace(row, value=row.value / share, low=row.low / share, high=row.high / share)
                yield replace(row, unit="× a live tile", note=note)
    L = lengths[-1]
    for name in NAMES:
        held = 4 * setting.bytes(1, H, L, D) + live(name, L) * L * L / 8
        yield memory_row(
            setting,
            f"{name}, L={L:,}, forward + backward, extra memory",
            ours,
            small=[name, setting.size(2048, quick=131), True],
            full=[name, L, True],
            goal=at_most(round(24 + 1.5 * held / 2**20)),
        )


def ours(setting: Setting, name: str, L: int, backward: bool) -> Callable[[], object]:
    """What it reads is no peer's, so it is not given back to be compared."""
    import regard

    q, k, v = setting.qkv(1, H, L, D, grad=backward)
    seen = mask(name, L)
    call = forward_backward(lambda: regard.attend(q, k, v, mask=seen, engine=setting.engine), (q, k, v))

    def nothing() -> None:
        call()

    return nothing
