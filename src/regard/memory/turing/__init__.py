"""The memory of a Neural Turing Machine: addressed by content and by place, erased and added to."""

from __future__ import annotations

from regard.memory.turing.addressing import Address
from regard.memory.turing.memory import TuringMemory, TuringState

__all__ = ["Address", "TuringMemory", "TuringState"]
