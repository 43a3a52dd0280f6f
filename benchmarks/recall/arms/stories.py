"""Memory networks that hear a story word by word and answer at the question mark, and stories told once for all."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from regard.memory.episodic import Linear
from regard.memory.tasks import Example, Stories, Symbols, Task
from regard.nn import EndToEndMemoryNetwork, MemoryNetwork

__all__ = ["Few", "LinearStart", "Supported", "Told", "ranked", "supports_seen", "told", "told_with_supports"]

EMPTY = 0.1  # the share of empty memories in training, as published


@dataclass(frozen=True)
class Few(Task):
    """The task of ``stories``, of which no more than ``count`` are ever told."""

    stories: Stories
    count: int
    seed: int = 7

    @property
    def inputs(self) -> Symbols:
        """As of the stories."""
        return self.stories.inputs

    @property
    def answers(self) -> Symbols:
        """As of the stories."""
        return self.stories.answers

    @cached_property
    def all(self) -> Example:
        """All there are."""
        return self.stories.draw(self.count, torch.Generator().manual_seed(self.seed), ragged=True)

    def alike(self, batch: int, generator: torch.Generator) -> Example:
        """Some of them."""
        at = torch.randint(self.count, (batch,), generator=generator)
        return Example(*(x[at] for x in self.all))

    def oracle(self, inputs: Tensor) -> Tensor:
        """As of the stories."""
        return self.stories.oracle(inputs)


class Told(nn.Module):
    """An end-to-end memory network that hears streams of words; ``soft`` (a buffer) is 0 during a linear start."""

    soft: Tensor

    def __init__(self, stories: Stories, net: EndToEndMemoryNetwork) -> None:
        super().__init__()
        self.stories, self.net = stories, net
        self.register_buffer("soft", torch.ones(()))

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (B, L, V), those of the answer at the question mark and 0 elsewhere."""
        sentences, question = self.stories.heard(inputs)
        normalize = "softmax" if bool(self.soft) else Linear()
        logits = self.net(sentences, question, normalize=normalize, empty=EMPTY if self.training else 0.0)
        return _at_the_mark(self.stories, inputs, logits)


class Supported(nn.Module):
    """The supervised memory network, hearing the same; what it says has logit 1."""

    def __init__(self, stories: Stories, net: MemoryNetwork) -> None:
        super().__init__()
        self.stories, self.net = stories, net

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (B, L, V), those of the answer at the question mark and 0 elsewhere."""
        word = self.net(*self.stories.heard(inputs)).word
        return _at_the_mark(self.stories, inputs, nn.functional.one_hot(word, self.net.words).float())


def told(task: Task, hops: int, ages: int | None, width: int = 20) -> nn.Module:
    """An end-to-end memory network of so many hops; without ``ages`` it knows no time."""
    stories = _stories(task)
    return Told(stories, EndToEndMemoryNetwork(stories.inputs.count, width, hops=hops, ages=ages))


def told_with_supports(task: Task, width: int = 30) -> nn.Module:
    """A memory network that looks for as many facts as an answer needs."""
    stories = _stories(task)
    return Supported(stories, MemoryNetwork(stories.inputs.count, width, hops=stories.facts))


def ranked(model: nn.Module, task: Task, example: Example) -> Tensor:
    """The ranking loss: the supervisor marks the facts, the network is to prefer them to all others."""
    assert isinstance(model, Supported)
    sentences, question = model.stories.heard(example.inputs)
    answer = example.targets[example.asked]
    return model.net.loss(sentences, question, model.stories.supports(example.inputs), answer)


@dataclass(frozen=True)
class LinearStart:
    """No softmax for the first ``linear`` updates; from then on the rate falls to nothing at ``steps``."""

    linear: int
    steps: int
    rate: float

    def __call__(self, model: nn.Module, optimiser: torch.optim.Optimizer, step: int) -> None:
        """Before every update."""
        assert isinstance(model, Told)
        model.soft.fill_(float(step >= self.linear))
        left = (self.steps - step) / (self.steps - self.linear)
        for group in optimiser.param_groups:
            group["lr"] = self.rate * min(1.0, max(0.02, left))


def supports_seen(model: nn.Module) -> dict[str, float]:
    """How much of the weight lies on each supporting fact, at the hop that looks at it most, on a thousand stories."""
    assert isinstance(model, Told)
    example = model.stories.draw(1000, torch.Generator().manual_seed(1_000_037), ragged=True)
    sentences, question = model.stories.heard(example.inputs)
    support = model.stories.supports(example.inputs)
    S, lengths = sentences.shape[1], (sentences != 0).any(-1).sum(-1, keepdim=True)
    at = support + S - lengths  # the newest sentence stands at the right end
    groups = {f"on fact {n + 1}": torch.arange(S) == at[:, n : n + 1] for n in range(support.shape[1])}
    hops = model.net.recall(sentences, question, groups=groups).hops
    return {name: max(float(hop.mass[name].mean()) for hop in hops) for name in groups}


def _at_the_mark(stories: Stories, inputs: Tensor, logits: Tensor) -> Tensor:
    return logits.unsqueeze(1) * stories.asked(inputs).unsqueeze(-1)


def _stories(task: Task) -> Stories:
    found = task.stories if isinstance(task, Few) else task
    assert isinstance(found, Stories)
    return found
