"""Memories of a fixed size: linear attention, its random features (FAVOR+), and the delta rule."""

from regard.memory.linear.delta import DeltaMemory, DeltaState
from regard.memory.linear.features import EluPlusOne, Exponential, FeatureMap, SquaredReLU
from regard.memory.linear.memory import LinearMemory, PerformerMemory
from regard.memory.linear.random import (
    HyperbolicFeatures,
    PositiveFeatures,
    RandomFeatures,
    TrigonometricFeatures,
    directions,
)
from regard.memory.linear.score import FeatureScore
from regard.memory.linear.sums import LinearState

__all__ = [
    "DeltaMemory",
    "DeltaState",
    "EluPlusOne",
    "Exponential",
    "FeatureMap",
    "FeatureScore",
    "HyperbolicFeatures",
    "LinearMemory",
    "LinearState",
    "PerformerMemory",
    "PositiveFeatures",
    "RandomFeatures",
    "SquaredReLU",
    "TrigonometricFeatures",
    "directions",
]
