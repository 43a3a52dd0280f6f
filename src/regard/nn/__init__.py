"""Layers with parameters: thin holders of projections over the read.

>>> import torch
>>> from regard import mask, nn
>>> layer = nn.MultiHead(width=12, heads=3, mask=mask.causal())
>>> layer(torch.randn(2, 5, 12)).shape
torch.Size([2, 5, 12])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.lazy import lazily

if TYPE_CHECKING:
    from regard.nn.attention import Attention
    from regard.nn.computer import Computer
    from regard.nn.episodic import Adjacent, EndToEndMemoryNetwork, LayerWise
    from regard.nn.handwriting import HandwritingSynthesis
    from regard.nn.mamba import Mamba
    from regard.nn.mixture import PenMixture
    from regard.nn.multihead import MultiHead
    from regard.nn.stacked import StackedAttention
    from regard.nn.supporting import MemoryNetwork
    from regard.nn.talking import TalkingHeads
    from regard.nn.turing import MachineState, NeuralTuringMachine

__all__ = [
    "Adjacent",
    "Attention",
    "Computer",
    "EndToEndMemoryNetwork",
    "HandwritingSynthesis",
    "LayerWise",
    "MachineState",
    "Mamba",
    "MemoryNetwork",
    "MultiHead",
    "NeuralTuringMachine",
    "PenMixture",
    "StackedAttention",
    "TalkingHeads",
]

_HOMES = {
    "Adjacent": "episodic",
    "Attention": "attention",
    "Computer": "computer",
    "EndToEndMemoryNetwork": "episodic",
    "HandwritingSynthesis": "handwriting",
    "LayerWise": "episodic",
    "MachineState": "turing",
    "Mamba": "mamba",
    "MemoryNetwork": "supporting",
    "MultiHead": "multihead",
    "NeuralTuringMachine": "turing",
    "PenMixture": "mixture",
    "StackedAttention": "stacked",
    "TalkingHeads": "talking",
}

__getattr__, __dir__ = lazily(__name__, _HOMES)
