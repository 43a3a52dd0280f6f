"""Real tokens with padding beside them, and what stands on the padding changed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.doctor.effect import Effect, effect
from regard.doctor.inputs import Inputs
from regard.doctor.locate import Kept, Place, locate, stood_still
from regard.doctor.probes.conditions import AS_GIVEN, Condition
from regard.doctor.stream import CouldNotRun, Stream
from regard.doctor.subject import Subject

PADS = 5


@dataclass(frozen=True)
class Padded:
    """Real tokens alone, and the same with padding beside them, on one side."""

    subject: Subject
    stream: Stream
    left: bool
    alone: Inputs
    pads: int = PADS
    positions: bool = False
    first: int = 0  # the position of the first real token
    asked: Condition = AS_GIVEN

    @property
    def side(self) -> str:
        return "left" if self.left else "right"

    @property
    def of(self) -> str:
        return "" if self.stream.aligned else f" of {self.stream.tokens}"

    def inputs(self, content: Tensor | None = None) -> Inputs:
        """The padded batch; pads hold the pad id, or this content."""
        tokens = self.alone.tokens(self.stream)
        shape = (tokens.shape[0], self.pads)
        edge = self.subject.pads(tokens, shape) if content is None else content
        out = self.alone.padded(self.stream, self.pads * self.left, self.pads * (not self.left), edge)
        if self.positions:
            out = out.with_positions(self.stream, self.real(out), self.first)
        return out

    def otherwise(self) -> Inputs:
        """The padded batch with other content on its pads. Where the id itself tells padding it stays, and what it is
        embedded as is another."""
        if self.stream.told != "ids":
            tokens = self.alone.tokens(self.stream)
            return self.inputs(self.subject.drawn(self.stream, tokens, (tokens.shape[0], self.pads), seed=5))
        found = embeddings(self.subject, self.stream, self.alone)
        if not found:
            raise CouldNotRun(f"no nn.Embedding is called with {self.stream.tokens}, so that no pad's could be changed")
        return replace(self.inputs(), around=partial(_embedded_otherwise, found, self.stream.pad))

    def real(self, inputs: Inputs) -> Tensor:
        """The tokens that are no padding, (B, L), by construction and not by the mask."""
        B, L = inputs.shape(self.stream)
        place = torch.arange(L, device=inputs.tokens(self.stream).device)
        at = place >= self.pads if self.left else place < L - self.pads
        return (at if self.alone.shape(self.stream)[1] < L else torch.ones_like(at)).expand(B, L)

    def kept(self, out: Tensor, inputs: Inputs) -> Tensor:
        """Of an output, the places that must stand still, in the shape of the run alone."""
        if out.dim() == 2 or not self.stream.aligned:
            return out
        n = self.alone.shape(self.stream)[1]
        return out[:, -n:] if self.left else out[:, :n]

    def compare(self, one: Inputs, other: Inputs) -> Effect:
        with self.asked.around():
            a, b = (self.kept(self.subject.run(x, **self.asked.options), x) for x in (one, other))
        return effect(a, b, self.subject.noise)

    def where(self, one: Inputs, other: Inputs) -> Place:
        """The first module whose real places differ; in a decoder that reads this source, of its own places, while
        all that it was given of the source stands still."""
        own = [{x.shape(self.stream)[1]: self.real(x)} for x in (one, other)]
        runs = [partial(self.subject.call, x, **self.asked.options) for x in (one, other)]
        with self.asked.around():
            place = locate(self.subject.model, runs[0], runs[1], (Kept(own[0]), Kept(own[1])))
            if self.stream.aligned or place.change:
                return place
            B, T = one.shape(self.subject.stream)
            target = {T: torch.ones(B, T, dtype=torch.bool)}
            given = [Kept({**places, **target}, rest=True) for places in own]
            return locate(self.subject.model, runs[0], runs[1], (given[0], given[1]))

    def read_by_target(self) -> bool:
        """Whether the source's own real places are seen to stand still: then it is the decoder that reads the
        padding."""
        if self.stream.aligned:
            return False
        one, other = self.inputs(), self.otherwise()
        kept = Kept({one.shape(self.stream)[1]: self.real(one)})
        call = self.subject.call
        return stood_still(self.subject.model, partial(call, one), partial(call, other), kept)


def embeddings(subject: Subject, stream: Stream, inputs: Inputs) -> list[nn.Embedding]:
    """The embeddings of this sequence's tokens: those that are called with other ids when the tokens are others."""
    others = subject.others(inputs, stream)
    changed = inputs.changed(stream, torch.ones_like(inputs.real(stream)), others)
    one, other = (_called_with(subject, x) for x in (inputs, changed))
    return [
        module
        for module, ids in one.items()
        if len(ids) != len(other[module]) or any(not torch.equal(a, b) for a, b in zip(ids, other[module], strict=True))
    ]


def _called_with(subject: Subject, inputs: Inputs) -> dict[nn.Embedding, list[Tensor]]:
    found: dict[nn.Embedding, list[Tensor]] = {m: [] for m in subject.model.modules() if isinstance(m, nn.Embedding)}

    def keep(module: nn.Module, args: Any, out: Any) -> None:
        if isinstance(module, nn.Embedding):  # for the type: nothing else is hooked
            found[module].append(args[0].clone())

    handles = [module.register_forward_hook(keep) for module in found]
    try:
        subject.call(inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found


@contextlib.contextmanager
def _embedded_otherwise(modules: list[nn.Embedding], pad: int) -> Iterator[None]:
    """Inside, the pad id is embedded as what it is and something of the size of a token beside it."""

    def changed(module: nn.Module, args: Any, out: Tensor) -> Tensor:
        source = torch.Generator().manual_seed(5)
        other = torch.randn(out.shape[-1], generator=source).to(out) * out.detach().std().clamp(min=1e-3)
        return torch.where((args[0] == pad).unsqueeze(-1), out + other, out)

    handles = [module.register_forward_hook(changed) for module in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
