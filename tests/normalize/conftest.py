"""What tests of normalisers by the kernel get."""

from __future__ import annotations

import pytest

from regard.normalize import solved


@pytest.fixture
def eager_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel takes work of any size, so that small shapes show what it does."""
    monkeypatch.setattr(solved, "WORTH", 0)
