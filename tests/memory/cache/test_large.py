"""Large pages are a wish: what is held is the same with and without."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.memory.cache import KVCache, PagedCache, StaticCache, large
from regard.memory.cache.large import LEAST, in_large_pages

ROOM = LEAST // (4 * 16) + 7


def flags(address: int) -> str:
    """What the system was told of the memory at an address."""
    inside, found = False, ""
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split()[0]
        if "-" in first and not first.endswith(":"):
            low, high = (int(x, 16) for x in first.split("-"))
            inside = low <= address < high
        elif inside and first == "VmFlags:":
            found = line
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
@pytest.mark.parametrize("cache", [StaticCache(1, 16, capacity=ROOM), KVCache(1, 16), PagedCache(1, 16)])
def test_long_buffers_ask_for_large_pages(cache: Any) -> None:
    with torch.no_grad():
        state = cache.write(cache.reset(), torch.ones(1, 1, ROOM, 16), torch.ones(1, 1, ROOM, 16))
        k, _ = cache.pairs(state)
    assert " hg" in flags(k.data_ptr() + LEAST // 2)
    assert bool((k == 1).all())


def test_a_system_that_knows_no_large_pages_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(large, "_advise", lambda: lambda *given: asked.append(given))
    in_large_pages(torch.empty(LEAST // 4 - 1))
    in_large_pages(torch.empty(0))
    in_large_pages(torch.empty(LEAST, device="meta"))
    assert asked == []
    x = torch.empty(LEAST // 4 + 3)
    in_large_pages(x)
    ((first, size, _),) = asked
    assert x.data_ptr() <= first
    assert first + size <= x.data_ptr() + LEAST + 12
    monkeypatch.setattr(large, "_advise", lambda: None)
    in_large_pages(x)
    assert len(asked) == 1
