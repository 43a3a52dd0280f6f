"""The encoder-decoders that can be trained, by name: each is sizes and a model of those sizes."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from regard.errors import RegardError, unknown_name
from regard.translate.models.recurrent.config import Bahdanau, Cho, Luong, Sutskever
from regard.translate.models.sizes import Size, Sizes, sizes_of
from regard.translate.models.transformer.config import Transformer

if TYPE_CHECKING:
    from regard.translate.models.encoder_decoder import EncoderDecoder

__all__ = ["ARCHITECTURES", "Architecture", "architecture", "complete", "name_of"]


@dataclass(frozen=True)
class Architecture:
    """How a model is made: ``config`` holds its sizes, the class ``Model`` of the module ``home`` is made from them.

    The module is imported when a model is made, so that the sizes can be known without torch.
    """

    config: type[Sizes]
    home: str

    @property
    def sizes(self) -> tuple[str, ...]:
        """The names of its own sizes."""
        return tuple(each.name for each in sizes_of(self.config))

    def model(self, config: Sizes) -> EncoderDecoder[Any, Any]:
        """A model of these sizes, untrained."""
        made: EncoderDecoder[Any, Any] = importlib.import_module(f"{__name__}.{self.home}").Model(config)
        return made


ARCHITECTURES = {
    "cho": Architecture(Cho, "recurrent.cho"),
    "sutskever": Architecture(Sutskever, "recurrent.sutskever"),
    "bahdanau": Architecture(Bahdanau, "recurrent.bahdanau"),
    "luong": Architecture(Luong, "recurrent.luong"),
    "transformer": Architecture(Transformer, "transformer.model"),
}


def architecture(name: str) -> Architecture:
    """The architecture of that name.

    Raises:
        RegardError: there is none (lists those that are).

    >>> architecture("transformer").sizes[:5]
    ('width', 'heads', 'layers', 'feed', 'norm')
    """
    if name not in ARCHITECTURES:
        raise unknown_name("model", name, ARCHITECTURES)
    return ARCHITECTURES[name]


def name_of(config: Sizes) -> str:
    """The name of the architecture whose sizes these are."""
    return next(name for name, known in ARCHITECTURES.items() if type(config) is known.config)


def complete(name: str, given: Mapping[str, Size]) -> dict[str, Size]:
    """All sizes of an architecture: those ``given``, and its own where nothing is.

    Raises:
        RegardError: a size that this architecture doesn't have, or one that cannot be.

    >>> complete("cho", {"hidden": 96})
    {'embedding': 256, 'hidden': 96, 'readout': 256}
    """
    found = architecture(name)
    for size in given:
        if size not in found.sizes:
            raise RegardError(f"{size}: a {name} has no such size; it has {', '.join(found.sizes)}")
    anything: Any = {"source_vocabulary": 8, "target_vocabulary": 8, **given}
    full = asdict(found.config(**anything))
    return {size: full[size] for size in found.sizes}
