"""Memories of facts that are asked more than once: each answer is part of the next question."""

from __future__ import annotations

from regard.memory.episodic.encoding import TimeTable, bag_of_words, position_encoding, with_empty
from regard.memory.episodic.linear_start import Linear
from regard.memory.episodic.memory import EpisodicMemory, Facts, Recall
from regard.memory.episodic.supporting import Match, SupportMemory, Told

__all__ = [
    "EpisodicMemory",
    "Facts",
    "Linear",
    "Match",
    "Recall",
    "SupportMemory",
    "TimeTable",
    "Told",
    "bag_of_words",
    "position_encoding",
    "with_empty",
]
