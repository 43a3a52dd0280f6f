"""Engines: the same read, run in different ways. Each equals the float64 reference, or refuses and says why."""

from regard.engines.reference import Reference
from regard.engines.sdpa import Sdpa
from regard.engines.tiled import Tiled
from regard.plan import Engine

#: In the order of preference of ``engine="auto"``.
ENGINES: tuple[Engine, ...] = (Sdpa(), Reference(), Tiled())

__all__ = ["ENGINES", "Reference", "Sdpa", "Tiled"]
