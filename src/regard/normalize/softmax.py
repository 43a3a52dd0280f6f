"""The softmax, with a temperature and a sink."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.normalize.base import Normalizer, check_temperature, prepared, top_of
from regard.numerics import wide


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
        check_temperature("Softmax", temperature)
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
        s, _, dtype = prepared(scores)
        s = s / self.temperature
        sink = self.sink_logit(s)
        top = top_of(s if sink is None else torch.maximum(s, sink))
        unnormalised = torch.exp(s - top)
        total = unnormalised.sum(-1, keepdim=True)
        if sink is not None:
            total = total + torch.exp(sink - top)
        empty = total == 0
        return (unnormalised / torch.where(empty, 1.0, total)).to(dtype)

    def extra_repr(self) -> str:
        return f"temperature={self.temperature}"
