"""Small models of every architecture that have learnt nothing, with numbers large enough to prefer something."""

from __future__ import annotations

from typing import Any

import torch

from regard.translate.models import architecture
from regard.translate.models.encoder_decoder import EncoderDecoder

#: Multiples of 4, which bits are promised for (regard.translate.decoding.walk).
SIZES: dict[str, dict[str, int]] = {
    "bahdanau": {"embedding": 12, "hidden": 20, "alignment": 28, "readout": 4},
    "luong": {"embedding": 12, "hidden": 20, "layers": 2},
    "transformer": {"width": 20, "heads": 5, "layers": 2, "feed": 12},
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
