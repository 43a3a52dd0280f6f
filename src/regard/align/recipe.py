"""What is trained, in which order, on which belief: every number that changes the links, in one frozen object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from regard.align.expect import Agreement
from regard.align.fertility.belief import Belief
from regard.align.gibbs.beliefs import Beliefs
from regard.align.lexicon import Dirichlet
from regard.errors import RegardError, unknown_name

__all__ = ["BEST", "RECIPES", "Drawn", "Recipe", "Sampling", "Stage", "recipe", "restored"]

MODELS = ("ibm1", "ibm2", "diagonal", "hmm", "ibm3", "ibm4", "ibm5")
_FERTILE = ("ibm3", "ibm4", "ibm5")


@dataclass(frozen=True)
class Stage:
    """Some iterations of one model, which begins where the one before left off; with ``agreement`` both directions
    learn from what they agree on."""

    model: str
    iterations: int
    agreement: Agreement | None = None

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise unknown_name("model", self.model, MODELS)
        if self.iterations < 1:
            raise RegardError(f"iterations: found {self.iterations} for {self.model}, wanted at least 1")

    def __str__(self) -> str:
        return f"{self.model}:{self.iterations}" + (f":{self.agreement}" if self.agreement else "")

    @staticmethod
    def of(text: str) -> Stage:
        """``MODEL:ITERATIONS``, or ``MODEL:ITERATIONS:AGREEMENT``.

        >>> Stage.of("hmm:5:product")
        Stage(model='hmm', iterations=5, agreement='product')
        """
        model, _, rest = text.partition(":")
        number, _, agreement = rest.partition(":")
        if not number.isdecimal():
            raise RegardError(f"stages: found {text!r}, wanted MODEL:ITERATIONS, such as hmm:5")
        if agreement not in ("", "product", "geometric", "mean"):
            raise unknown_name("agreement", agreement, ("product", "geometric", "mean"))
        return Stage(model, int(number), agreement or None)  # type: ignore[arg-type]  # checked in the line above


@dataclass(frozen=True)
class Drawn:
    """After training, chains of the sampling aligner that begin at the trained channels' links; what they believe has
    ``weight`` in the mean with what the channels believe."""

    chains: int = 3
    weight: float = 0.65
    beliefs: Beliefs = field(default_factory=lambda: Beliefs(empty=0.1))

    def __post_init__(self) -> None:
        if self.chains < 1 or not 0 < self.weight <= 1:
            raise RegardError(
                f"drawn: found {self.chains} chains of weight {self.weight}, wanted at least 1, of a weight up to 1"
            )


@dataclass(frozen=True)
class Recipe:
    """Stages, and what is believed before any word is counted.

    ``null`` is the HMM's probability that a word comes from NULL, ``jump`` what is added to each count of a jump,
    ``flat`` the power its jumps are raised to, ``spelling`` the pseudo-count of a pair that is spelt the same (of one
    that is spelt alike, its share), ``fertility`` what Models 3 to 5 are told, ``classes`` how many word classes
    Models 4 and 5 have on each side, ``drawn`` what is sampled after all stages. ``symmetrize`` is how both directions
    become one if nobody says, and ``viterbi`` whether a direction's links are its likeliest alignment, as published,
    or each word's likeliest place."""

    stages: tuple[Stage, ...]
    prior: Dirichlet = field(default_factory=Dirichlet)
    null: float = 0.1
    jump: float = 0.0
    flat: float = 1.0
    spelling: float = 0.0
    symmetrize: str = "grow-diag-final-and"
    viterbi: bool = True
    fertility: Belief = field(default_factory=Belief)
    classes: int = 50
    drawn: Drawn | None = None

    def __post_init__(self) -> None:
        if self.stages and self.stages[0].model in _FERTILE:
            raise RegardError(
                f"stages: {self.stages[0]} comes first, and climbs from where another model looks; "
                "put one before it, such as ibm1:5 hmm:5"
            )

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {**asdict(self), "stages": [str(stage) for stage in self.stages]}


@dataclass(frozen=True)
class Sampling:
    """Links drawn and not estimated: several chains of the sampling aligner, from ``beliefs``; ``spelling``,
    ``symmetrize`` and ``viterbi`` as in a :class:`Recipe`. How often is drawn follows from the size of the text."""

    chains: int = 3
    beliefs: Beliefs = field(default_factory=Beliefs)
    spelling: float = 0.0
    symmetrize: str = "soft"
    viterbi: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)


def restored(given: Mapping[str, Any]) -> Recipe | Sampling:
    """What ``to_dict`` of either wrote."""
    if "chains" in given:
        return Sampling(**{**given, "beliefs": Beliefs(**given["beliefs"])})
    stages = tuple(Stage.of(each) for each in given["stages"])
    belief, drawn = Belief(**given.get("fertility", {})), given.get("drawn")
    if drawn is not None:
        drawn = Drawn(**{**drawn, "beliefs": Beliefs(**drawn["beliefs"])})
    made = {"stages": stages, "prior": Dirichlet(**given["prior"]), "fertility": belief, "drawn": drawn}
    return Recipe(**{**given, **made})


def _classic(*stages: tuple[str, int]) -> Recipe:
    return Recipe(tuple(Stage(*stage) for stage in stages))


#: A little of every translation is believed in from the start: with maximum likelihood a rare word generates whatever
#: is left over beside it, and AER is up to a third worse (``--alpha 0`` shows it).
_LITTLE = Dirichlet(0.001, 0.001)


def _climbing(*stages: tuple[str, int]) -> Recipe:
    """After Model 1 and the HMM."""
    return replace(_classic(("ibm1", 5), ("hmm", 5), *stages), prior=_LITTLE, null=0.2)


#: What measures best, and quickly: docs/align.md says how it was found.
BEST = Recipe(
    (Stage("ibm1", 4, "mean"), Stage("hmm", 4, "product")),
    _LITTLE,
    null=0.1,
    jump=0.1,
    flat=0.7,
    spelling=1.0,
    symmetrize="soft",
    viterbi=False,
    drawn=Drawn(),
)

#: What ``--model`` names. The classical chains train as their papers and GIZA++ do, Model 1 by maximum likelihood.
RECIPES: dict[str, Recipe | Sampling] = {
    "ibm1": _classic(("ibm1", 5)),
    "ibm2": replace(_classic(("ibm1", 5), ("ibm2", 5)), prior=_LITTLE),
    "diagonal": Recipe((Stage("diagonal", 5),), Dirichlet(0.01, 0.01, variational=True)),
    "hmm": _climbing(),
    "ibm3": _climbing(("ibm3", 3)),
    "ibm4": _climbing(("ibm3", 3), ("ibm4", 3)),
    "ibm5": _climbing(("ibm3", 3), ("ibm4", 3), ("ibm5", 3)),
    "best": BEST,
    "agreement": replace(BEST, drawn=None),
    "sample": Sampling(),
}


def recipe(name: str) -> Recipe | Sampling:
    """The recipe of this name."""
    if name not in RECIPES:
        raise unknown_name("model", name, RECIPES)
    return RECIPES[name]
