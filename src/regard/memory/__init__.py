"""Memories: what is written and read. They differ in what is kept, how it is compressed, and how it is addressed.

Every memory is frozen parts, and its state a named tuple that its user holds: ``reset`` gives an empty one, ``write``
takes one and gives the next, ``read`` asks it and returns a :class:`regard.Reading`; ``step`` writes and reads a chunk
of a sequence in order. ``nbytes`` and ``cost`` say what it takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.lazy import lazily

if TYPE_CHECKING:
    from regard.memory.addressed import HardMemory, Slots, SoftMemory
    from regard.memory.base import Cost, Memory, PairMemory
    from regard.memory.cache import AsGiven, EightBit, KVCache, PagedCache, SinkCache, SlidingCache, StaticCache
    from regard.memory.differentiable import DifferentiableComputer
    from regard.memory.episodic import EpisodicMemory, SupportMemory
    from regard.memory.linear import (
        DeltaMemory,
        EluPlusOne,
        Exponential,
        FeatureMap,
        FeatureScore,
        HyperbolicFeatures,
        LinearMemory,
        PerformerMemory,
        PositiveFeatures,
        SquaredReLU,
        TrigonometricFeatures,
    )
    from regard.memory.soft_window import SoftWindow
    from regard.memory.space import StateSpaceMemory
    from regard.memory.turing import TuringMemory

__all__ = [
    "AsGiven",
    "Cost",
    "DeltaMemory",
    "DifferentiableComputer",
    "EightBit",
    "EluPlusOne",
    "EpisodicMemory",
    "Exponential",
    "FeatureMap",
    "FeatureScore",
    "HardMemory",
    "HyperbolicFeatures",
    "KVCache",
    "LinearMemory",
    "Memory",
    "PagedCache",
    "PairMemory",
    "PerformerMemory",
    "PositiveFeatures",
    "SinkCache",
    "SlidingCache",
    "Slots",
    "SoftMemory",
    "SoftWindow",
    "SquaredReLU",
    "StateSpaceMemory",
    "StaticCache",
    "SupportMemory",
    "TrigonometricFeatures",
    "TuringMemory",
]

_HOMES = {
    "AsGiven": "cache",
    "Cost": "base",
    "DeltaMemory": "linear",
    "DifferentiableComputer": "differentiable",
    "EightBit": "cache",
    "EluPlusOne": "linear",
    "EpisodicMemory": "episodic",
    "Exponential": "linear",
    "FeatureMap": "linear",
    "FeatureScore": "linear",
    "HardMemory": "addressed",
    "HyperbolicFeatures": "linear",
    "KVCache": "cache",
    "LinearMemory": "linear",
    "Memory": "base",
    "PagedCache": "cache",
    "PairMemory": "base",
    "PerformerMemory": "linear",
    "PositiveFeatures": "linear",
    "SinkCache": "cache",
    "SlidingCache": "cache",
    "Slots": "addressed",
    "SoftMemory": "addressed",
    "SoftWindow": "soft_window",
    "SquaredReLU": "linear",
    "StateSpaceMemory": "space",
    "StaticCache": "cache",
    "SupportMemory": "episodic",
    "TrigonometricFeatures": "linear",
    "TuringMemory": "turing",
}

__getattr__, __dir__ = lazily(__name__, _HOMES)
