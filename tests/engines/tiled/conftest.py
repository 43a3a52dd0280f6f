"""Tiles that a short memory crosses."""

from __future__ import annotations

import pytest

from regard.engines import Tiled


@pytest.fixture
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tiled, "rows", 16)
    monkeypatch.setattr(Tiled, "columns", 16)
