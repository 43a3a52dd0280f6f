"""The encoder-decoders that can be trained, by name: each is sizes and a model of those sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

from regard.errors import RegardError, unknown_name
from regard.translate.models import bahdanau, transformer
from regard.translate.models.architecture import Config, EncoderDecoder

__all__ = ["ARCHITECTURES", "Architecture", "architecture", "name_of"]

COMMON = ("source_vocabulary", "target_vocabulary", "dropout")  # what every model has beside its own sizes


@dataclass(frozen=True)
class Architecture:
    """How a model is made: ``config`` holds its sizes, ``model`` makes it from them."""

    config: type[Any]  # a dataclass
    model: Callable[[Any], EncoderDecoder[Any, Any]]

    @property
    def sizes(self) -> tuple[str, ...]:
        """The names of its own sizes."""
        return tuple(field.name for field in fields(self.config) if field.name not in COMMON)


ARCHITECTURES = {
    "bahdanau": Architecture(bahdanau.Config, bahdanau.Model),
    "transformer": Architecture(transformer.Config, transformer.Model),
}


def architecture(name: str) -> Architecture:
    """The architecture of that name.

    Raises:
        RegardError: there is none (lists those that are).

    >>> architecture("transformer").sizes
    ('width', 'heads', 'layers', 'feed', 'norm')
    """
    if name not in ARCHITECTURES:
        raise unknown_name("model", name, ARCHITECTURES)
    return ARCHITECTURES[name]


def name_of(config: Config) -> str:
    """The name of the architecture whose sizes these are."""
    return next(name for name, known in ARCHITECTURES.items() if type(config) is known.config)


def complete(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """All sizes of an architecture: those ``given``, and its own where nothing is.

    Raises:
        RegardError: a size that this architecture doesn't have, or one that cannot be.

    >>> complete("bahdanau", {"hidden": 96})
    {'embedding': 256, 'hidden': 96, 'alignment': 256, 'readout': 256}
    """
    found = architecture(name)
    for size in given:
        if size not in found.sizes:
            raise RegardError(f"{size}: a {name} has no such size; it has {', '.join(found.sizes)}")
    full = asdict(found.config(source_vocabulary=8, target_vocabulary=8, **given))
    return {size: full[size] for size in found.sizes}
