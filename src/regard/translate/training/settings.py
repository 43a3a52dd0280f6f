"""How a translator is trained: every number that changes what is learnt, in one frozen object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

from regard.errors import RegardError
from regard.translate.models import architecture, complete
from regard.translate.models.sizes import Size, Sizes
from regard.translate.training.evaluate import Tokenize

__all__ = ["Precision", "Settings", "changed"]

Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class Settings:
    """Sizes, regularisation, optimisation. Two runs with equal settings, text and threads are the same run.

    ``model`` is an architecture's name, ``sizes`` are its own (``architecture(model).sizes``); those left out are its
    defaults. The learning rate climbs to ``rate`` over ``warmup`` updates and falls along half a cosine to 0 at the
    end of the last of ``epochs``. ``ema`` averages the weights as they go (0: off), and the average is what is tested
    and kept. ``sample`` draws the pieces of the training text anew each epoch, among a sentence's likeliest readings,
    with probability ∝ P^sample (0: off); the last ``plain`` epochs take the likeliest alone, as translating will.
    ``patience`` epochs without a better dev BLEU end the run (0: never).
    """

    source_pieces: int = 4000
    target_pieces: int = 4000
    model: str = "bahdanau"
    sizes: Mapping[str, Size] = field(default_factory=dict)
    dropout: float = 0.3
    epochs: int = 20
    batch_tokens: int = 4096
    max_length: int = 80
    rate: float = 1e-3
    warmup: int = 400
    clip: float = 1.0
    smoothing: float = 0.1
    ema: float = 0.999
    sample: float = 0.0
    plain: int = 0
    patience: int = 5
    tokenize: Tokenize = "13a"
    precision: Precision = "float32"
    seed: int = 1

    def __post_init__(self) -> None:
        for name, least in (
            ("source_pieces", 8),
            ("target_pieces", 8),
            ("epochs", 1),
            ("batch_tokens", 1),
            ("max_length", 2),
            ("warmup", 0),
            ("patience", 0),
            ("plain", 0),
        ):
            _want(name, getattr(self, name), getattr(self, name) >= least, f"a whole number of at least {least}")
        for name in ("rate", "clip"):
            _want(name, getattr(self, name), getattr(self, name) > 0, "a number above 0")
        for name in ("smoothing", "ema"):
            _want(name, getattr(self, name), 0 <= getattr(self, name) < 1, "a number in [0, 1)")
        _want("sample", self.sample, self.sample >= 0, "a number of at least 0")
        _want(
            "precision",
            self.precision,
            self.precision in get_args(Precision),
            " or ".join(get_args(Precision)),
        )
        _want("tokenize", self.tokenize, self.tokenize in get_args(Tokenize), ", ".join(get_args(Tokenize)))
        object.__setattr__(self, "sizes", complete(self.model, dict(self.sizes)))
        self.config(8, 8)  # checks the dropout

    def config(self, source_vocabulary: int, target_vocabulary: int) -> Sizes:
        """The sizes of the model for vocabularies of these sizes."""
        sizes: Any = dict(self.sizes)
        return architecture(self.model).config(
            source_vocabulary=source_vocabulary, target_vocabulary=target_vocabulary, dropout=self.dropout, **sizes
        )

    def to_dict(self) -> dict[str, Any]:
        """The settings as JSON can hold them."""
        return asdict(self)


def changed(before: Mapping[str, Any], now: Settings) -> tuple[str, Any, Any] | None:
    """The first setting that differs from a run's: its name, what it was and what it is; None where all agree."""
    for each in fields(now):
        was, value = before.get(each.name), getattr(now, each.name)
        if each.name == "sizes" and isinstance(was, Mapping):
            for name, size in value.items():
                if was.get(name) != size:
                    return name, was.get(name), size
        elif was != value:
            return each.name, was, value
    return None


def _want(name: str, found: object, holds: bool, wanted: str) -> None:
    if not holds:
        raise RegardError(f"{name}: found {found}, wanted {wanted}")
