"""Engines: the same read, run in different ways. Each equals the float64 reference, or refuses and says why."""

from regard.engines.flex import Flex
from regard.engines.reference import Reference
from regard.engines.sdpa import Sdpa
from regard.engines.tiled import Tiled
from regard.engines.triton import Triton
from regard.plan import Engine

#: While compiling the first that does not refuse is taken; else ``engine="auto"`` takes the one that costs least time.
ENGINES: tuple[Engine, ...] = (Sdpa(), Tiled(), Flex(), Triton(), Reference())

__all__ = ["ENGINES", "Flex", "Reference", "Sdpa", "Tiled", "Triton"]
