"""The text: English package descriptions of Debian as bytes; the end of the file is never trained on."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import Tensor

__all__ = ["FILE", "HELD", "crops", "find", "held", "streams"]

FILE = "debian-ddtp/en-fr.en"
HELD = 400_000  # bytes at the end


def find() -> Path:
    """Where the text lies; it may not be there."""
    named = os.environ.get("REGARD_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "data"
    return folder / FILE


def held(path: Path, part: str) -> Tensor:
    """The bytes of ``part``, "train" or "test", as integers."""
    data = path.read_bytes()
    data = data[:-HELD] if part == "train" else data[-HELD:]
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).long()


def crops(text: Tensor, count: int, length: int, generator: torch.Generator) -> Tensor:
    """Pieces (count, length) from anywhere."""
    start = torch.randint(len(text) - length + 1, (count, 1), generator=generator)
    return text[start + torch.arange(length)]


def streams(text: Tensor, count: int, length: int) -> Tensor:
    """Pieces (count, length) evenly apart, that do not overlap."""
    step = len(text) // count
    if step < length:
        raise ValueError(f"text: {len(text)} bytes hold no {count} streams of {length}")
    return torch.stack([text[n * step : n * step + length] for n in range(count)])
