"""Tiles that five queries and seven keys cross."""

from __future__ import annotations

import pytest

from regard.engines import Tiled


@pytest.fixture(autouse=True)
def _tiles_that_are_crossed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of 2 × 3, so that five queries and seven keys cross every kind of boundary."""
    monkeypatch.setattr(Tiled, "rows", 2)
    monkeypatch.setattr(Tiled, "columns", 3)
