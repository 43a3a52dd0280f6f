"""The models that are compared: each is an architecture, its sizes, and the rate it learns at; all else is shared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.translation.corpora import Text
from regard.errors import unknown_name
from regard.translate.models.sizes import Size
from regard.translate.training.settings import Settings

__all__ = ["ENTRANTS", "Entrant", "entrant"]


@dataclass(frozen=True)
class Entrant:
    """A model in the comparison; ``looks`` says whether it looks back at the source, or was handed it once."""

    says: str
    model: str
    looks: bool
    sizes: Mapping[str, Size] = field(default_factory=dict)
    course: Mapping[str, Any] = field(default_factory=dict)

    def settings(self, text: Text, seed: int, epochs: int, quick: bool = False) -> Settings:
        """How it is trained on a text: as every other is, but for its own ``course``."""
        told: dict[str, Any] = {
            "source_pieces": text.pieces,
            "target_pieces": text.pieces,
            "max_length": text.longest,
            "tokenize": text.tokenize,
            **COURSE,
            **self.course,
            "epochs": epochs,
        }
        if quick:
            told |= {
                "source_pieces": text.pieces,
                "target_pieces": text.pieces,
                "epochs": 1,
                "batch_tokens": 600,
                "warmup": 2,
            }
        return Settings(model=self.model, sizes=dict(self.sizes), patience=0, seed=seed, **told)


#: What is the same for all: one epoch is as many updates of as many tokens for every model.
COURSE: dict[str, Any] = {
    "dropout": 0.3,
    "batch_tokens": 3000,
    "rate": 0.003,
    "warmup": 400,
    "smoothing": 0.1,
    "precision": "bfloat16",
}

TRANSFORMER: dict[str, Size] = {"width": 256, "heads": 4, "layers": 3, "feed": 512}
SOFT = {"rate": 0.001, "warmup": 1000}  # what a Transformer bears

ENTRANTS = {
    "cho": Entrant("one vector, in every step", "cho", False, {"hidden": 384}),
    "sutskever": Entrant("a state handed over once", "sutskever", False, {"hidden": 288}),
    "sutskever-reversed": Entrant(
        "a state handed over once, the source reversed", "sutskever", False, {"hidden": 288, "reverse": True}
    ),
    "bahdanau": Entrant("looks back, additive score", "bahdanau", True, {"hidden": 288}),
    "luong": Entrant("looks back after the step, general score, fed", "luong", True, {"hidden": 264}),
    "luong-unfed": Entrant(
        "the stacks of sutskever, and a look after each step", "luong", True, {"hidden": 288, "feeding": False}
    ),
    "luong-local-p": Entrant("looks near a place it predicts", "luong", True, {"hidden": 264, "look": "local-p"}),
    "transformer": Entrant("attention alone, norm after", "transformer", True, TRANSFORMER, SOFT),
    "transformer-pre": Entrant(
        "attention alone, norm before", "transformer", True, {**TRANSFORMER, "norm": "pre"}, SOFT
    ),
    "transformer-shared": Entrant(
        "norm before, one vocabulary and one embedding for all",
        "transformer",
        True,
        {**TRANSFORMER, "norm": "pre", "shared": True},
        {**SOFT, "joint": True, "source_pieces": 5000, "target_pieces": 5000},
    ),
    "transformer-entmax": Entrant(
        "the decoder weighs by 1.5-entmax", "transformer", True, {**TRANSFORMER, "normalize": "entmax15"}, SOFT
    ),
    "transformer-talking": Entrant("heads that talk", "transformer", True, {**TRANSFORMER, "talking": True}, SOFT),
    "transformer-linear": Entrant(
        "the encoder in linear time", "transformer", True, {**TRANSFORMER, "encoder": "linear"}, SOFT
    ),
}


def entrant(name: str) -> Entrant:
    """The entrant of that name.

    Raises:
        RegardError: there is none (lists those that are).
    """
    if name not in ENTRANTS:
        raise unknown_name("--model", name, ENTRANTS)
    return ENTRANTS[name]
