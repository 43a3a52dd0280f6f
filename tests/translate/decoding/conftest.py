"""Small models of every architecture that have learnt nothing, with numbers large enough to prefer something."""

from __future__ import annotations

from typing import Any

import torch

from regard.translate.models import architecture
from regard.translate.models.encoder_decoder import EncoderDecoder

SIZES: dict[str, dict[str, int]] = {
    "bahdanau": {"embedding": 7, "hidden": 11, "alignment": 13, "readout": 5},
    "luong": {"embedding": 7, "hidden": 11, "layers": 2},
    "transformer": {"width": 14, "heads": 7, "layers": 2, "feed": 11},
}


def random_model(name: str, source: int, target: int, seed: int, std: float = 0.5) -> EncoderDecoder[Any, Any]:
    """A model with vocabularies of these sizes whose every number is drawn from N(0, std²)."""
    torch.manual_seed(seed)
    made = architecture(name)
    model = made.model(made.config(source_vocabulary=source, target_vocabulary=target, **SIZES[name]))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=std)
    return model.eval()
