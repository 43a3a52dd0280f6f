"""State spaces: memories of constant size that decay, are driven by what is written, and are read by a query."""

from __future__ import annotations

from regard.memory.space.discretization import Discretization, Euler, ZeroOrderHold
from regard.memory.space.memory import SpaceState, StateSpaceMemory

__all__ = ["Discretization", "Euler", "SpaceState", "StateSpaceMemory", "ZeroOrderHold"]
