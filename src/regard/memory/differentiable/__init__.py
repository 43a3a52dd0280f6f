"""The differentiable neural computer's memory (Graves et al. 2016): places allocated and freed, and links in time.

A head finds a place by what is written there (content), by what is free (allocation), or by what was written just
before or after (links). It is not a Turing memory with a list added: shifts are gone, usage and freeing are new.
"""

from __future__ import annotations

from regard.memory.differentiable.computer import DifferentiableComputer, DifferentiableState
from regard.memory.differentiable.interface import Asking, Writing, interface, interface_width, oneplus

__all__ = [
    "Asking",
    "DifferentiableComputer",
    "DifferentiableState",
    "Writing",
    "interface",
    "interface_width",
    "oneplus",
]
