"""Normalisers: turn a row of scores into a distribution over the keys.

A score of −inf is a key that may not be seen; its weight is exactly 0. A row of nothing but −inf is an empty row: all
its weights are 0 and no gradient flows. Half precision is computed in float32.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.errors import RegardError, unknown_name
from regard.numerics import finite, logsumexp, wide


class Normalizer(nn.Module, ABC):
    """w = normalise(s) along the last axis: ``(…, S) → (…, S)``, w ≥ 0, Σw = 1 (0 for an empty row)."""

    #: Why parts read with this normaliser cannot be merged; empty when they can.
    no_merge: str = ""

    @abstractmethod
    def forward(self, scores: Tensor) -> Tensor:
        """Weights of ``scores``, in which −inf marks a key that may not be seen."""

    def lse(self, scores: Tensor) -> Tensor:
        """Λ = log Σ exp(s) over the keys, natural log, (…, S) → (…); −inf for an empty row."""
        return logsumexp(wide(scores), dim=-1)


class Softmax(Normalizer):
    """w = exp(s/τ) / (Σ exp(s/τ) + exp(sink)).

    ``temperature`` τ > 0. ``sink`` is the logit of a place that holds nothing: with it a row sums to *less* than 1, the
    rest having gone to the sink (one number, or one a head; "softmax off by one" is sink = 0; gpt-oss learns it).

    >>> import torch
    >>> Softmax()(torch.tensor([0.0, 0.0, -torch.inf]))
    tensor([0.5000, 0.5000, 0.0000])
    >>> Softmax(sink=0.0)(torch.tensor([0.0, 0.0, -torch.inf])).sum().item()  # a third went to the sink
    0.6666666865348816
    """

    def __init__(self, temperature: float = 1.0, sink: float | Tensor | None = None) -> None:
        super().__init__()
        _check_temperature("Softmax", temperature)
        self.temperature = temperature
        self.sink: Tensor | None
        if sink is None or isinstance(sink, nn.Parameter):
            self.sink = sink
        else:
            self.register_buffer("sink", torch.as_tensor(sink, dtype=torch.get_default_dtype()))

    def sink_logit(self, scores: Tensor) -> Tensor | None:
        """The sink, shaped to stand beside ``scores`` (…, H, L, S) as one more key."""
        if self.sink is None:
            return None
        sink = self.sink.to(scores.dtype)
        return sink.view(-1, 1, 1) if sink.dim() else sink

    def lse(self, scores: Tensor) -> Tensor:
        """Λ of s/τ, over the keys alone: the sink is no key."""
        return super().lse(wide(scores) / self.temperature)

    def forward(self, scores: Tensor) -> Tensor:
        s, _, dtype = _prepared(scores)
        s = s / self.temperature
        sink = self.sink_logit(s)
        top = _top(s if sink is None else torch.maximum(s, sink))
        unnormalised = torch.exp(s - top)
        total = unnormalised.sum(-1, keepdim=True)
        if sink is not None:
            total = total + torch.exp(sink - top)
        empty = total == 0
        return (unnormalised / torch.where(empty, 1.0, total)).to(dtype)

    def extra_repr(self) -> str:
        return f"temperature={self.temperature}"


class Entmax(Normalizer):
    """w = argmax_p p·s + H_α(p) over the simplex: w = [(α−1)s − t]₊^{1/(α−1)} (Peters et al. 2019).

    Some weights are exactly 0. α → 1 is softmax, α = 2 is sparsemax; α = 1.5 and 2 are solved exactly by sorting, any
    other α > 1 by bisection to the last bit. α may be a tensor that learns (one number, or one a head), with its
    gradient (Correia et al. 2019).

    >>> import torch
    >>> Entmax(1.5)(torch.tensor([1.0, 0.5, 0.0, -0.8]))
    tensor([0.6242, 0.2917, 0.0841, 0.0000])
    """

    no_merge = "its threshold depends on every key of the row at once"

    def __init__(self, alpha: float | Tensor = 1.5) -> None:
        super().__init__()
        found = alpha.detach().min().item() if isinstance(alpha, Tensor) else alpha
        if not found > 1:
            raise RegardError(f"Entmax: alpha is {found}, wanted above 1 (1 itself is Softmax(), 2 is Sparsemax())")
        self.alpha = alpha  # a Parameter registers itself here

    def forward(self, scores: Tensor) -> Tensor:
        s, visible, dtype = _prepared(scores)
        alpha: float | Tensor = self.alpha
        if isinstance(alpha, Tensor):
            alpha = alpha.to(s.dtype)
            alpha = alpha.view(-1, 1, 1) if alpha.dim() else alpha
        # Nothing further than 1 below the top (in units of (α−1)s) has any weight, so what is hidden may stand there;
        # a row with nothing else needs a solution all the same, and has one at 0.
        below = torch.where(visible, s - _top(s), 0.0)
        hidden_at = torch.where(visible.any(-1, keepdim=True), -1.0, 0.0).to(s.dtype)
        x = torch.where(visible, ((alpha - 1) * below).clamp(min=-1.0), hidden_at)
        power = 1 / (alpha - 1)
        with torch.no_grad():
            if not isinstance(alpha, Tensor) and alpha in (1.5, 2.0):
                threshold = (_threshold_sparsemax if alpha == 2.0 else _threshold_entmax15)(x)
            else:
                threshold = _threshold_bisect(x, power)
        # One Newton step on Σ w(t) = 1 from the solution leaves it where it is, and its derivative is that of the
        # solution (the implicit function theorem), in the scores and in α alike.
        p = _power(x - threshold, power)
        slope = (power * _power(x - threshold, power - 1)).sum(-1, keepdim=True).detach()
        threshold = threshold + (p.sum(-1, keepdim=True) - 1) / slope
        return (_power(x - threshold, power) * visible).to(dtype)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"


class Sparsemax(Entmax):
    """w = argmin_{p in simplex} ‖p − s‖², the Euclidean projection (Martins & Astudillo 2016).

    >>> import torch
    >>> Sparsemax()(torch.tensor([1.0, 0.5, 0.0, -0.8]))
    tensor([0.7500, 0.2500, 0.0000, 0.0000])
    """

    def __init__(self) -> None:
        super().__init__(2.0)


class Hardmax(Normalizer):
    """w = one-hot(argmax s), the lowest index among ties; the gradient is the softmax's (straight-through).

    >>> import torch
    >>> Hardmax()(torch.tensor([1.0, 3.0, 3.0]))
    tensor([0., 1., 0.])
    """

    no_merge = "the parts do not say which of them held the winner"

    def forward(self, scores: Tensor) -> Tensor:
        s, visible, dtype = _prepared(scores)
        return _straight_through(s, visible).to(dtype)


@dataclass(frozen=True)
class Annealed:
    """A temperature that falls with the step: max(floor, start · exp(−rate · step)) (Jang et al. 2017, section 4.2).

    >>> Annealed(rate=1e-3)(0), Annealed(rate=1e-3, floor=0.5)(10_000)
    (1.0, 0.5)
    """

    rate: float = 1e-4
    floor: float = 0.5
    start: float = 1.0

    def __call__(self, step: int) -> float:
        return max(self.floor, self.start * math.exp(-self.rate * step))


class GumbelSoftmax(Normalizer):
    """w = softmax((s + g)/τ) with Gumbel noise g = −log(−log u): a draw from softmax(s), softened (Jang et al. 2017).

    ``temperature`` is a number or a schedule of the step such as :class:`Annealed`; the step is counted at each call in
    training. ``hard`` draws exactly one key and lets the softened draw's gradient through. With a ``generator`` a run
    can be repeated. In ``eval()`` nothing is drawn: the likeliest key is taken.

    >>> import torch
    >>> GumbelSoftmax(0.5, hard=True, generator=torch.Generator().manual_seed(0))(torch.zeros(2, 3)).sum(-1)
    tensor([1., 1.])
    """

    no_merge = "the noise was drawn key by key and is not kept"

    def __init__(
        self,
        temperature: float | Annealed = 1.0,
        hard: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        _check_temperature("GumbelSoftmax", temperature(0) if isinstance(temperature, Annealed) else temperature)
        if isinstance(temperature, Annealed):
            _check_temperature("GumbelSoftmax", temperature.floor)
        self.temperature = temperature
        self.hard = hard
        self.generator = generator
        self.step = 0

    def forward(self, scores: Tensor) -> Tensor:
        s, visible, dtype = _prepared(scores)
        if not self.training:
            return _straight_through(s, visible).to(dtype)
        tau = self.temperature(self.step) if isinstance(self.temperature, Annealed) else self.temperature
        self.step += 1
        # An exponential draw is never exactly 0 in torch, so its log is finite.
        noise = -torch.empty_like(s).exponential_(generator=self.generator).log()
        s = (s + noise) / tau
        return (_straight_through(s, visible) if self.hard else Softmax()(s)).to(dtype)

    def extra_repr(self) -> str:
        return f"temperature={self.temperature}, hard={self.hard}"


def named(normalize: Normalizer | str) -> Normalizer:
    """The normaliser itself, or the one of that name: softmax, sparsemax, entmax15, hardmax, gumbel."""
    if isinstance(normalize, Normalizer):
        return normalize
    if isinstance(normalize, str) and normalize in NAMES:
        return NAMES[normalize]
    raise unknown_name("normalize", normalize, NAMES)


def _check_temperature(who: str, temperature: float) -> None:
    if not temperature > 0:
        raise RegardError(
            f"{who}: temperature is {temperature}, wanted above 0 (a small one is hard, Hardmax() is its limit)"
        )


def _prepared(scores: Tensor) -> tuple[Tensor, Tensor, torch.dtype]:
    """Scores in a precision that can sum them, which of them may be seen, and the precision to give back."""
    s = wide(scores)
    return s, s != -math.inf, scores.dtype


def _top(s: Tensor) -> Tensor:
    """The row's maximum, without gradient, and 0 for an empty row, so that s − top is never inf − inf."""
    return finite(s.detach().amax(-1, keepdim=True))


def _straight_through(s: Tensor, visible: Tensor) -> Tensor:
    soft: Tensor = Softmax()(s)
    hard = torch.zeros_like(soft).scatter(-1, s.argmax(-1, keepdim=True), 1.0) * visible
    return hard + (soft - soft.detach())


def _power(x: Tensor, power: float | Tensor) -> Tensor:
    """[x]₊^power, with gradient 0 (not inf · 0) where x ≤ 0."""
    inside = x > 0
    return torch.where(inside, torch.where(inside, x, 1.0) ** power, 0.0)


def _threshold_sparsemax(x: Tensor) -> Tensor:
    """t with Σ [x − t]₊ = 1: among the sorted x, the last one that still lies above the threshold it would give."""
    ordered = x.sort(-1, descending=True).values
    count = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=x.dtype)
    thresholds = (ordered.cumsum(-1) - 1) / count
    support = (ordered > thresholds).sum(-1, keepdim=True)
    return thresholds.gather(-1, (support - 1).clamp(min=0))


def _threshold_entmax15(x: Tensor) -> Tensor:
    """t with Σ [x − t]₊² = 1: for each prefix of the sorted x the smaller root of a quadratic."""
    ordered = x.sort(-1, descending=True).values
    count = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=x.dtype)
    mean = ordered.cumsum(-1) / count
    spread = (ordered.square().cumsum(-1) / count - mean.square()).clamp(min=0)
    thresholds = mean - (1 / count - spread).clamp(min=0).sqrt()
    support = (ordered > thresholds).sum(-1, keepdim=True)
    return thresholds.gather(-1, (support - 1).clamp(min=0))


def _threshold_bisect(x: Tensor, power: float | Tensor) -> Tensor:
    """t with Σ [x − t]₊^power = 1, by halving [max − 1, max] until the interval is one unit in the last place."""
    low = torch.full_like(x[..., :1], -1.0)
    width = 1.0
    for _ in range(54 if x.dtype == torch.float64 else 25):
        width /= 2
        low = torch.where(_power(x - (low + width), power).sum(-1, keepdim=True) >= 1, low + width, low)
    return low


NAMES: dict[str, Normalizer] = {
    "softmax": Softmax(),
    "sparsemax": Sparsemax(),
    "entmax15": Entmax(1.5),
    "hardmax": Hardmax(),
    "gumbel": GumbelSoftmax(),
}
