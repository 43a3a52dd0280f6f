"""Small recurrent translators of odd sizes whose every number is drawn, in float64, and a batch of odd lengths."""

from __future__ import annotations

from typing import Any

import torch

from regard.translate.models import architecture
from regard.translate.models.encoder_decoder import EncoderDecoder
from regard.translate.text.batches import Batch, collate

GATED = {"embedding": 6, "hidden": 5, "readout": 3}
STACKED = {"embedding": 6, "hidden": 5, "layers": 2}

#: Every architecture, and every way that one of its sizes can make it another.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "cho": ("cho", GATED),
    "sutskever": ("sutskever", {**STACKED, "layers": 3}),
    "sutskever-reversed": ("sutskever", {**STACKED, "layers": 1, "reverse": True}),
    "bahdanau": ("bahdanau", {**GATED, "alignment": 4}),
    "bahdanau-general-entmax": ("bahdanau", {**GATED, "score": "general", "normalize": "entmax15"}),
    "luong": ("luong", STACKED),
    "luong-dot": ("luong", {**STACKED, "score": "dot", "layers": 1, "feeding": False}),
    "luong-concat-sparse-reversed": (
        "luong",
        {**STACKED, "score": "concat", "normalize": "sparsemax", "reverse": True},
    ),
    "luong-local-m": ("luong", {**STACKED, "look": "local-m", "reach": 3}),
    "luong-local-p": ("luong", {**STACKED, "look": "local-p", "reach": 2}),
    "luong-local-p-unfed": ("luong", {**STACKED, "look": "local-p", "reach": 2, "feeding": False}),
}
LOOKING = [name for name, (model, _) in CASES.items() if model in ("bahdanau", "luong")]
LUONG = [name for name, (model, _) in CASES.items() if model == "luong"]


def made(name: str, **more: Any) -> EncoderDecoder[Any, Any]:
    """A model of :data:`CASES` with weights of every sort."""
    torch.manual_seed(3)
    kind, sizes = CASES[name]
    found = architecture(kind)
    model = found.model(found.config(source_vocabulary=31, target_vocabulary=37, **{**sizes, **more})).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.5)
    return model


def sentences() -> Batch:
    """Sources of 11, 2, 7 and 1 pieces; targets of 3, 13, 5 and 1."""
    draw = torch.Generator().manual_seed(5)
    rows = [
        [torch.randint(4, high, (length,), generator=draw).tolist() for length in sizes]
        for high, sizes in ((31, (11, 2, 7, 1)), (37, (3, 13, 5, 1)))
    ]
    return collate(rows[0], rows[1])
