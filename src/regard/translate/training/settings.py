"""How a translator is trained: every number that changes what is learnt, in one frozen object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from math import inf
from typing import Any, Literal, get_args

from regard.errors import RegardError
from regard.translate.models import architecture, complete
from regard.translate.models.sizes import Size, Sizes
from regard.translate.text.vocabulary import Kind
from regard.translate.training.evaluate import Tokenize
from regard.translate.training.optimisers import optimiser
from regard.translate.training.schedules import Schedule, schedule

__all__ = ["Precision", "Settings", "StopOn", "changed"]

Precision = Literal["float32", "bfloat16"]
StopOn = Literal["bleu", "loss"]


@dataclass(frozen=True)
class Settings:
    """Sizes, regularisation, optimisation. Two runs with equal settings, text and threads are the same run.

    ``model`` is an architecture's name, ``sizes`` are its own (``architecture(model).sizes``); those left out are its
    defaults. An update is made by the mean loss over all target pieces of ``accumulate`` batches.

    ``pieces`` is a kind of vocabulary. ``joint`` makes one for both sides, of ``source_pieces``, learnt from both
    texts; a Transformer can then have one embedding for source, target and output (its size ``shared``).

    ``optimiser`` and ``schedule`` are names (:mod:`~regard.translate.training.optimisers`,
    :mod:`~regard.translate.training.schedules`), with ``optimiser_numbers`` and ``schedule_numbers`` where theirs are
    to differ; ``rate`` is the full learning rate, the optimiser's own where it is left out, reached after ``warmup``
    updates. ``clip`` is the largest gradient norm (0: any). ``ema`` averages the weights as they go (0: off), and the
    average is what is tested and kept.

    ``sample`` draws the pieces of the training text anew each epoch, among a sentence's likeliest readings,
    with probability ∝ P^sample (0: off); the last ``plain`` epochs take the likeliest alone, as translating will.
    ``patience`` epochs without a better dev BLEU, or a lower dev loss by ``stop_on``, end the run (0: never).
    """

    source_pieces: int = 4000
    target_pieces: int = 4000
    pieces: Kind = "unigram"
    joint: bool = False
    model: str = "bahdanau"
    sizes: Mapping[str, Size] = field(default_factory=dict)
    dropout: float = 0.3
    epochs: int = 20
    batch_tokens: int = 4096
    max_length: int = 80
    accumulate: int = 1
    optimiser: str = "adam"
    optimiser_numbers: Mapping[str, float] = field(default_factory=dict)
    rate: float | None = None
    schedule: str = "cosine"
    schedule_numbers: Mapping[str, float] = field(default_factory=dict)
    warmup: int = 400
    clip: float = 1.0
    smoothing: float = 0.1
    ema: float = 0.999
    sample: float = 0.0
    plain: int = 0
    patience: int = 5
    stop_on: StopOn = "bleu"
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
            ("accumulate", 1),
            ("warmup", 0),
            ("patience", 0),
            ("plain", 0),
        ):
            _want(name, getattr(self, name), getattr(self, name) >= least, f"a whole number of at least {least}")
        rule, numbers = optimiser(self.optimiser, self.optimiser_numbers)
        object.__setattr__(self, "optimiser_numbers", numbers)
        object.__setattr__(self, "rate", rule.rate if self.rate is None else self.rate)
        _want("rate", self.rate, 0 < self.peak < inf, "a number above 0")
        _want("clip", self.clip, self.clip >= 0, "a number of at least 0")
        object.__setattr__(self, "schedule_numbers", schedule(self.schedule, self.warmup, self.schedule_numbers)[1])
        for name in ("smoothing", "ema"):
            _want(name, getattr(self, name), 0 <= getattr(self, name) < 1, "a number in [0, 1)")
        _want("sample", self.sample, self.sample >= 0, "a number of at least 0")
        for name, kind in (("pieces", Kind), ("precision", Precision), ("stop_on", StopOn), ("tokenize", Tokenize)):
            _want(name, getattr(self, name), getattr(self, name) in get_args(kind), " or ".join(get_args(kind)))
        if self.sample and self.pieces != "unigram":
            raise RegardError(f"sample: found {self.sample}, but {self.pieces} pieces have one reading; give 0")
        object.__setattr__(self, "sizes", complete(self.model, dict(self.sizes)))
        if self.joint and self.source_pieces != self.target_pieces:
            raise RegardError(
                f"target_pieces: found {self.target_pieces}, wanted {self.source_pieces}, as source_pieces: "
                "a joint vocabulary has one size"
            )
        if self.sizes.get("shared") and not self.joint:
            raise RegardError("shared: the sides have vocabularies of their own; give --joint too, or --no-shared")
        self.config(8, 8)  # checks the dropout

    def config(self, source_vocabulary: int, target_vocabulary: int) -> Sizes:
        """The sizes of the model for vocabularies of these sizes."""
        sizes: Any = dict(self.sizes)
        return architecture(self.model).config(
            source_vocabulary=source_vocabulary, target_vocabulary=target_vocabulary, dropout=self.dropout, **sizes
        )

    @property
    def peak(self) -> float:
        """The full learning rate."""
        return float(self.rate or 0.0)

    @property
    def course(self) -> Schedule:
        """The schedule of the learning rate."""
        return schedule(self.schedule, self.warmup, self.schedule_numbers)[0]

    def to_dict(self) -> dict[str, Any]:
        """The settings as JSON can hold them."""
        return asdict(self)


def changed(before: Mapping[str, Any], now: Settings) -> tuple[str, Any, Any] | None:
    """The first setting that differs from a run's: its name, what it was and what it is; None where all agree."""
    for each in fields(now):
        was, value = before.get(each.name), getattr(now, each.name)
        if isinstance(value, Mapping):
            before_it = was if isinstance(was, Mapping) else {}
            for name, number in value.items():
                if before_it.get(name) != number:
                    return name, before_it.get(name), number
        elif was != value:
            return each.name, was, value
    return None


def _want(name: str, found: object, holds: bool, wanted: str) -> None:
    if not holds:
        raise RegardError(f"{name}: found {found}, wanted {wanted}")
