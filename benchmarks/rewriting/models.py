"""The translators of the package as models of a task: a row is split, and what is not asked has no logits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.rewriting.task import parts
from regard.memory.tasks import Task
from regard.translate.models import architecture
from regard.translate.models.encoder_decoder import EncoderDecoder
from regard.translate.models.sizes import Size
from regard.translate.text.vocabulary import EOS

__all__ = ["Alone", "Translating", "alone", "translating"]


class Translating(nn.Module):
    """Reads the source, and says each piece of the target after the true ones before it."""

    def __init__(self, model: EncoderDecoder[Any, Any]) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (B, L, V); 0 over the source."""
        source, previous = parts(inputs)
        logits: Tensor = self.model(source, _lengths(source), previous)
        return F.pad(logits, (0, 0, source.shape[1], 0))


class Alone(Translating):
    """The decoder alone: it is shown the source as what was said before, and the encoder nothing but an end mark."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (B, L, V)."""
        nothing = torch.full((len(inputs), 1), EOS)
        logits: Tensor = self.model(nothing, _lengths(nothing), inputs)
        return logits


def translating(task: Task, name: str, **sizes: Size | float) -> nn.Module:
    """A translator of that architecture and of these sizes, with the vocabulary of the task."""
    return Translating(_made(task, name, sizes))


def alone(task: Task, **sizes: Size) -> nn.Module:
    """The decoder of a Transformer, which reads only itself."""
    return Alone(_made(task, "transformer", sizes))


def _made(task: Task, name: str, sizes: Mapping[str, Size | float]) -> EncoderDecoder[Any, Any]:
    found, words = architecture(name), task.inputs.width
    given: dict[str, Any] = {"source_vocabulary": words, "target_vocabulary": words, **sizes}
    return found.model(found.config(**given))


def _lengths(rows: Tensor) -> Tensor:
    return torch.full((rows.shape[0],), rows.shape[1])
