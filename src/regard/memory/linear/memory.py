"""Linear attention as a memory: by a fixed feature map, and by random features of the softmax kernel."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field, replace
from typing import Literal

import torch

from regard.errors import RegardError, unknown_name
from regard.memory.linear.features import EluPlusOne, FeatureMap, check_features
from regard.memory.linear.random import HyperbolicFeatures, PositiveFeatures, RandomFeatures, directions
from regard.memory.linear.sums import FeatureMemory, check_sizes

KINDS: dict[str, type[RandomFeatures]] = {"positive": PositiveFeatures, "hyperbolic": HyperbolicFeatures}


@dataclass(frozen=True, eq=False)
class LinearMemory(FeatureMemory):
    """o_i = Σ_j w_ij v_j, w_ij = φ(qᵢ)·φ(kⱼ) / Σ_l φ(qᵢ)·φ(k_l) (Katharopoulos et al. 2020, eqs 4, 5, 18–20).

    Another function than softmax attention, with a state (B, G, F, E) and (B, G, F) that does not grow: weights are
    ≥ 0 and sum to 1, their matrix has rank ≤ F. Scores aren't divided by √D. Readings merge (lse = log Σ φ(q)·φ(k)).
    Keys (B, G, L, D), values (B, G, L, E), queries (B, H, L, D); a query that sees nothing reads 0, lse −∞. Sums
    cannot be taken back, so there is no ``crop``: keep the earlier state.

    >>> import torch
    >>> memory = LinearMemory(heads=2, width=4)
    >>> q, k, v = (torch.randn(1, 2, 7, 4) for _ in range(3))
    >>> reading, state = memory.step(memory.reset(), q, k, v)
    >>> torch.allclose(memory.read(state, q[:, :, -1:]).output, reading.output[:, :, -1:], atol=1e-5)
    True
    >>> [tuple(x.shape) for x in state[:2]]
    [(1, 2, 4, 4), (1, 2, 4)]
    """

    heads: int
    width: int
    value_width: int = None  # type: ignore[assignment]  # as wide as a key when left out; an integer once it is built
    features: FeatureMap = field(default_factory=EluPlusOne, kw_only=True)

    def __post_init__(self) -> None:
        set_sizes(self)
        check_features("LinearMemory", self.features).size(self.width)

    @property
    def map(self) -> FeatureMap:
        return self.features


@dataclass(frozen=True, eq=False)
class PerformerMemory(FeatureMemory):
    """Softmax attention estimated by M random features: E[φ(q)·φ(k)] = exp(q·k / √D) (Choromanski et al. 2021).

    ``kind`` is ``"positive"`` (M features) or ``"hyperbolic"`` (2M, less variance); ``orthogonal`` draws directions at
    right angles. Queries and keys are scaled by D^{−1/4}. The error of a weight falls as 1/√M, and grows as
    exp(‖q + k‖²): inputs of a standard deviation much above ½ need far more features than they are worth. No ε is added
    anywhere: logarithms of features are summed by their running maximum, so that the largest is 1.

    The directions are drawn when it is built. ``redraw`` gives a memory with others; a state belongs to the draw
    that wrote it.

    >>> import torch
    >>> memory = PerformerMemory(heads=2, width=4, features=4096, generator=torch.Generator().manual_seed(0))
    >>> q, k, v = (torch.randn(1, 2, 7, 4, generator=torch.Generator().manual_seed(n)) / 2 for n in range(3))
    >>> exact = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    >>> found = memory.read(memory.write(memory.reset(), k, v), q).output
    >>> bool((found - exact).abs().max() < 0.02)
    True
    """

    heads: int
    width: int
    value_width: int = None  # type: ignore[assignment]  # as wide as a key when left out; an integer once it is built
    features: int = field(default=256, kw_only=True)
    kind: Literal["positive", "hyperbolic"] = field(default="positive", kw_only=True)
    orthogonal: bool = field(default=True, kw_only=True)
    generator: InitVar[torch.Generator | None] = field(default=None, kw_only=True)
    drawn: RandomFeatures = field(init=False, repr=False)

    def __post_init__(self, generator: torch.Generator | None) -> None:
        set_sizes(self)
        if self.features < 1:
            raise RegardError(f"PerformerMemory: features is {self.features}, wanted at least 1; 4 · width is a start")
        if str(self.kind) == "trigonometric":
            raise RegardError(
                "PerformerMemory: kind is 'trigonometric', whose kernel values may be negative and whose denominators "
                "may vanish; wanted 'positive' or 'hyperbolic' (TrigonometricFeatures is there to compare with)"
            )
        if self.kind not in KINDS:
            raise unknown_name("PerformerMemory: kind", self.kind, KINDS)
        rows = directions(self.features, self.width, orthogonal=self.orthogonal, generator=generator)[0]
        object.__setattr__(self, "drawn", KINDS[self.kind](rows, scale=self.width**-0.25))

    @property
    def map(self) -> FeatureMap:
        return self.drawn

    def redraw(self, generator: torch.Generator | None = None) -> PerformerMemory:
        """The same memory with other directions; what was written belongs to the old ones: ``reset``, write again."""
        return replace(self, generator=generator)


def set_sizes(memory: LinearMemory | PerformerMemory) -> None:
    """Checks heads and widths, and makes a value as wide as a key where nothing was said."""
    if memory.value_width is None:
        object.__setattr__(memory, "value_width", memory.width)
    check_sizes(type(memory).__name__, memory.heads, memory.width, memory.value_width)
