"""Both ways to walk through a sequence, in chunks of a few pairs."""

from __future__ import annotations

import pytest

from regard.memory.linear import sums, walking


@pytest.fixture(params=["by products", "by the kernel"])
def short(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks and stretches so short that a short sequence has many, and none ends where the sequence does."""
    monkeypatch.setattr(sums, "CHUNK", 4)
    monkeypatch.setattr(sums, "STRETCH", 8)
    monkeypatch.setattr(walking, "CHUNK", 3)
    monkeypatch.setattr(walking, "LEAST", 1 if request.param == "by the kernel" else 10**9)
