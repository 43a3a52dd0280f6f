"""Stacked attention: a question looks at the regions of an image, adds what it saw to itself, and looks again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard import mask as masks
from regard import operator
from regard.errors import RegardError
from regard.mask import Mask
from regard.memory.episodic import Recall
from regard.memory.episodic.memory import LOOKED, Telemetry
from regard.nn.parts import own_normalizer
from regard.normalize import Normalizer
from regard.score import Additive, Score


class StackedAttention(nn.Module):
    """a = W_u u^K + b_u, u^k = u^{k−1} + Σ_i p_i^k v_i, u^0 = v_Q: logits of an answer, K looks at an image.

    v_i = tanh(W_I f_i + b_I), p^k = softmax_i(W_P^k tanh(W_{I,A}^k v_i + W_{Q,A}^k u^{k−1} + b_A^k)) (Yang et al. 2016,
    section 3.3). Every layer has its own W; all look at the same v. What a layer saw is *added* to
    the question, so that the next one asks for what the first found. The published b_P^k moves all scores of a question
    alike, which no softmax sees: it is left out.

    Args:
        width: D, of the question v_Q and of the regions v_i.
        features: F, of the regions f_i as they are given (512 of a VGG's 14 × 14 places in the paper).
        answers: how many there are.
        layers: K; 0 answers from the question alone, the baseline.
        hidden: A, how wide the layer of a score is; D when left out.
        normalize: an object of :mod:`regard.normalize` or its name.

    ``scores`` are K of :class:`regard.score.Additive` with a bias, their v is W_P. All matrices start as those of
    ``nn.Linear``; from v = 0, as in an alignment model, the first updates could teach a layer nothing about where to
    look. An image of which no region is ``valid`` reads 0 at every layer: the question answers alone.

    >>> net = StackedAttention(width=4, features=3, answers=5)
    >>> question, regions = torch.randn(2, 4), torch.randn(2, 6, 3)  # (B, D), (B, S, F)
    >>> net(question, regions).shape
    torch.Size([2, 5])
    >>> found = net.recall(question, regions)  # what each layer looked at
    >>> [hop.peak.shape for hop in found.hops]
    [torch.Size([2, 1, 1]), torch.Size([2, 1, 1])]
    """

    def __init__(
        self,
        width: int,
        features: int,
        answers: int,
        *,
        layers: int = 2,
        hidden: int | None = None,
        normalize: Normalizer | str = "softmax",
    ) -> None:
        super().__init__()
        hidden = width if hidden is None else hidden
        sizes = {"width": width, "features": features, "answers": answers, "layers": layers, "hidden": hidden}
        for name, value in sizes.items():
            least = 0 if name == "layers" else 1
            if type(value) is not int or value < least:
                raise RegardError(f"StackedAttention: {name} is {value!r}, wanted a whole number of at least {least}")
        self.width, self.features = width, features
        self.regions = nn.Linear(features, width) if layers else None
        self.scores = nn.ModuleList(_layer(width, hidden) for _ in range(layers))
        self.answer = nn.Linear(width, answers)
        self.normalize = own_normalizer(normalize)

    def forward(self, question: Tensor, regions: Tensor, *, valid: Tensor | None = None) -> Tensor:
        """Logits (B, answers) for questions v_Q (B, D) about regions f (B, S, F).

        ``valid`` (B, S) is True where there is a region; all are when left out.
        """
        found: Tensor = self.answer(self.recall(question, regions, valid=valid, telemetry=False).query[:, 0])
        return found

    def recall(
        self,
        question: Tensor,
        regions: Tensor,
        *,
        valid: Tensor | None = None,
        telemetry: Telemetry = LOOKED,
        groups: Mapping[str, Tensor] | None = None,
    ) -> Recall:
        """u^K, (B, 1, D), and the reading of each layer: of one head, output ṽ^k (B, 1, 1, D).

        ``telemetry`` and ``groups``, booleans over the regions (B, S), are those of :func:`regard.read`.
        """
        u, v, mask = self._seen(question, regions, valid)
        # One question an image: nothing is larger than v, and dense is done before another engine would be chosen.
        parts: dict[str, Any] = {"normalize": self.normalize, "mask": mask, "engine": "reference"}
        readings = []
        for score in self._layers():
            reading = operator.read(u, v, v, score=score, telemetry=telemetry, groups=groups, **parts)
            readings.append(reading)
            u = u + reading.output
        return Recall(u[:, 0], tuple(readings))

    def weights(self, question: Tensor, regions: Tensor, *, valid: Tensor | None = None) -> Tensor:
        """p^1 … p^K, (B, K, S): what each layer looked at."""
        u, v, mask = self._seen(question, regions, valid)
        looks = []
        for score in self._layers():
            p = operator.weights(u, v, score=score, normalize=self.normalize, mask=mask)
            looks.append(p[:, 0])
            u = u + p @ v
        return torch.cat(looks, 1) if looks else v.new_zeros(len(v), 0, v.shape[-2])

    def _layers(self) -> Iterator[Score]:
        for score in self.scores:
            assert isinstance(score, Score)
            yield score

    def _seen(self, question: Tensor, regions: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor, Mask | None]:
        """u^0 (B, 1, 1, D), v (B, 1, S, D), and what of v there is."""
        B, S = len(regions), regions.shape[1] if regions.dim() == 3 else 0
        if question.dim() != 2 or regions.dim() != 3 or question.shape != (B, self.width):
            raise RegardError(
                f"StackedAttention: question is {tuple(question.shape)} and regions {tuple(regions.shape)}, wanted "
                f"(B, {self.width}) and (B, S, {self.features})"
            )
        if regions.shape[2] != self.features:
            raise RegardError(
                f"StackedAttention: regions are {tuple(regions.shape)}, wanted (B, S, {self.features}); make the layer "
                f"with features={regions.shape[2]}, or project them before"
            )
        if valid is not None and (valid.dtype != torch.bool or valid.shape != (B, S)):
            raise RegardError(
                f"StackedAttention: valid is {tuple(valid.shape)} of {valid.dtype}, wanted booleans {(B, S)}, True "
                "where there is a region"
            )
        v = regions if self.regions is None else torch.tanh(self.regions(regions))
        mask = None if valid is None else masks.dense(valid[:, None, None])
        return question[:, None, None], v.unsqueeze(1), mask

    def extra_repr(self) -> str:
        return f"width={self.width}, features={self.features}, layers={len(self.scores)}"


def _layer(width: int, hidden: int) -> Additive:
    score = Additive(width, width, hidden, bias=True)
    score.query.reset_parameters()
    score.key.reset_parameters()
    nn.init.uniform_(score.energy, -(hidden**-0.5), hidden**-0.5)
    return score
