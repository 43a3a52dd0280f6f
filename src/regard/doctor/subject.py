"""The model under examination: how it is run, what it says of itself, and how restless it is."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from regard.doctor.effect import Noise, difference
from regard.doctor.held import last_bits, seeded
from regard.doctor.inputs import Inputs, named, prepared
from regard.doctor.outputs import main_output, per_place
from regard.doctor.sequences import streams
from regard.doctor.stream import CouldNotRun, Stream
from regard.doctor.told import accepted_by, pad_of, padding_index, special_ids, vocabulary_size, with_target

Forward = Callable[[Any, Any], Any]

_FLAGS = ("output_attentions", "need_weights", "return_attention", "return_attentions", "return_weights", "return_attn")
_LONGEST, _MOST = 128, 4  # tokens and rows that probes work on


@dataclass(frozen=True)
class Subject:
    """A model and a batch it runs on, with what its caller claims of it."""

    model: nn.Module
    batch: Inputs
    streams: tuple[Stream, ...]
    accepted: tuple[str, ...]
    causal: bool | None = None
    prefix: int = 0
    sets: bool = False
    forward: Forward | None = None
    cache: Any = "auto"
    pad: int | None = None
    positional: int = 0  # how many of the arguments go in by place
    notes: tuple[str, ...] = ()
    given: nn.Module | None = None  # the model as it came, where it is judged on a copy
    fresh: nn.Module | None = None  # a copy that has not run, with the same parameters

    @classmethod
    def of(
        cls,
        model: nn.Module,
        batch: object,
        *,
        causal: bool | None,
        prefix: int,
        forward: Forward | None,
        tokens: str,
        target: str | None = None,
        mask: str | None,
        pad_id: int | None,
        cache: Any,
        sets: bool,
    ) -> Subject:
        """What the caller gave, understood; a model in half precision is judged in float32."""
        accepted = accepted_by(model)
        values, by_place = named(batch, accepted)
        if forward is not None:  # what it hands on is not known, so only what the batch holds can be varied
            accepted = tuple(values)
        notes: list[str] = []
        given = model
        if any(p.dtype in (torch.float16, torch.bfloat16) for p in model.parameters()):
            model = copy.deepcopy(model).float()
            values = {n: x.float() if isinstance(x, Tensor) and x.is_floating_point() else x for n, x in values.items()}
            notes.append("judged on a copy in float32: half precision's own noise would hide small leaks")
        inputs = prepared(values)
        if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
            inputs = with_target(model, inputs, values, tokens)
        known = next((i for i in (pad_id, pad_of(model), padding_index(model)) if i is not None), None)
        found = tuple(streams(inputs, tokens, mask, accepted, target, known))
        subject = cls(
            model, inputs, found, accepted, causal, prefix, sets, forward, cache, pad_id, len(values) if by_place else 0
        )
        return replace(
            subject,
            batch=subject._cut(inputs),
            pad=subject._pad_id(),
            notes=tuple(notes),
            given=None if given is model else given,
            fresh=_fresh(model),
        )

    def as_given(self) -> Subject:
        """The model in the precision it came in."""
        if self.given is None:
            return self
        dtype = next(p.dtype for p in self.given.parameters() if p.is_floating_point())
        values = self.batch.values.items()
        cast = {n: x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x for n, x in values}
        return replace(self, model=self.given, batch=Inputs(cast))

    @property
    def stream(self) -> Stream:
        """The sequence that outputs stand at."""
        return self.streams[-1]

    def run(self, inputs: Inputs, seed: int = 0, **options: Any) -> Tensor:
        """The output (B, L, F), one for each token, or (B, F) where the model gives one a row."""
        return per_place(main_output(self.call(inputs, seed, **options)), *inputs.shape(self.stream))

    def call(self, inputs: Inputs, seed: int = 0, **options: Any) -> Any:
        """What the model returns, whole. The seed makes a stochastic model repeatable."""
        values = {**inputs.values, **options}
        names = list(values)
        try:
            with seeded(seed), inputs.around():
                if self.forward is not None:
                    return self.forward(self.model, tuple(values.values()) if self.positional else values)
                at = [values[name] for name in names[: self.positional]]
                return self.model(*at, **{name: values[name] for name in names[self.positional :]})
        except Exception as error:  # whatever a stranger's model raises is an answer
            shape = tuple(inputs.tokens(self.stream).shape)
            said = " ".join(str(error).split())[:200]
            raise CouldNotRun(f"the model raised {type(error).__name__} on tokens {shape}: {said}") from error

    @cached_property
    def per_position(self) -> bool:
        """Whether there is one output for each token."""
        return self.run(self.batch).dim() == 3

    @cached_property
    def noise(self) -> Noise:
        """The floor: what outputs move by between seeds, when every weight moves by its last bit, and in float64."""
        base = self.run(self.batch)
        real = self._real(base)
        if not base[real].isfinite().all():
            return Noise(math.nan, math.nan)
        spread = float(base.double()[real].std()) if base[real].numel() > 1 else 0.0
        moved = [("between two runs on the same batch", self.run(self.batch, seed=1))]
        for draw in range(3):
            with last_bits(self.model, draw):
                moved.append(("when weights change by their last bits", self.run(self.batch)))
        exact = self._in_double()
        # A model that insists on float32 somewhere computes something else in float64, which is no rounding.
        if exact is not None and float(difference(base, exact)[real].max()) < 1e-3 * spread:
            moved.append(("in float64", exact))
        sizes = [(float(difference(base, one)[real].max()) if base[real].numel() else 0.0, when) for when, one in moved]
        floor, when = max(sizes, key=lambda size: size[0])
        eps = torch.finfo(base.dtype).eps if base.is_floating_point() else 0.0
        return Noise(max(floor, 4 * eps * max(spread, 1e-30)), spread, when)

    def _in_double(self) -> Tensor | None:
        """The same in float64, where the model can: what is left is its rounding in float32."""
        try:
            double = replace(self, model=copy.deepcopy(self.model).double())
            values = {
                n: x.double() if isinstance(x, Tensor) and x.is_floating_point() else x
                for n, x in self.batch.values.items()
            }
            return double.run(Inputs(values))
        except Exception:  # what cannot be copied, or insists on float32, is judged without
            return None

    def _real(self, out: Tensor) -> Tensor:
        """The places whose output means something: real tokens, or all rows where there is one output a row."""
        if out.dim() == 3:
            return self.batch.real(self.stream).to(out.device)
        return torch.ones(out.shape[0], dtype=torch.bool, device=out.device)

    @cached_property
    def flag(self) -> str | None:
        """The argument that asks for weights."""
        found = next((name for name in _FLAGS if name in self.accepted), None)
        if found is None and self.forward is None and hasattr(getattr(self.model, "config", None), "output_attentions"):
            return "output_attentions"  # a Hugging Face model takes it among its **kwargs
        return found

    def others(self, inputs: Inputs, stream: Stream, seed: int = 1) -> Tensor:
        """Content that differs from the tokens at every place, of the same kind."""
        tokens = inputs.tokens(stream)
        return self.drawn(stream, tokens, inputs.shape(stream), seed)

    def drawn(self, stream: Stream, like: Tensor, shape: tuple[int, int], seed: int = 1) -> Tensor:
        """(B, L, …) of random content like these tokens; of their own shape it differs at every place."""
        source = torch.Generator().manual_seed(seed)
        if like.is_floating_point():
            std = float(like.float().std()) if like.numel() > 1 else 1.0
            noise = torch.randn(*shape, *like.shape[2:], generator=source).to(like) * (std or 1.0)
            return noise + like if tuple(like.shape[:2]) == shape else noise
        ids = self._ids(stream)
        at = torch.randint(len(ids), shape, generator=source)
        if tuple(like.shape[:2]) == shape:
            at = torch.where(ids[at] == like.cpu(), (at + 1) % len(ids), at)
        return ids[at].to(like)

    def pads(self, like: Tensor, shape: tuple[int, int]) -> Tensor:
        """(B, L, …) of padding: the pad id, or zeros."""
        if like.is_floating_point():
            return like.new_zeros(*shape, *like.shape[2:])
        return like.new_full(shape, self.pad or 0)

    def clean(self, rows: int, length: int | None = None) -> Inputs:
        """``rows`` rows with no padding at all, all of one length: real tokens of the batch's longer rows, which are
        made to differ where there are too few."""
        counts = self.batch.real(self.stream).sum(-1)
        inputs = self.batch.rows((counts * 2 >= counts.max()).nonzero().flatten())
        for stream in self.streams:
            real = inputs.real(stream)
            n = int(real.sum(-1).min())
            if stream is self.stream and length is not None:
                n = min(n, length)
            order = (~real).long().argsort(dim=-1, stable=True)  # real places first, in their order
            inputs = inputs.columns(stream, order[:, : max(n, 1)])
            if stream.mask in inputs.values and stream.told != "ids":
                inputs = inputs.with_real(stream, torch.ones_like(inputs.real(stream)))
        B = inputs.shape(self.stream)[0]
        inputs = inputs.rows([i % B for i in range(rows)])
        for stream in self.streams:
            own = torch.arange(rows).unsqueeze(-1) < B
            inputs = inputs.changed(stream, ~own.to(inputs.tokens(stream).device), self.others(inputs, stream, seed=7))
        return inputs

    def masked(self, inputs: Inputs, stream: Stream) -> Inputs:
        """The same, with a mask given: all ones where the batch had none."""
        if stream.mask is None:
            raise CouldNotRun(f"no padding mask is known for {stream.tokens!r}; name the argument with mask=")
        return inputs if stream.mask in inputs.values else inputs.with_real(stream, inputs.real(stream))

    def _cut(self, inputs: Inputs) -> Inputs:
        inputs = inputs.rows(range(min(_MOST, inputs.shape(self.stream)[0])))
        for stream in self.streams:
            L = inputs.shape(stream)[1]
            if L > _LONGEST:
                inputs = inputs.columns(stream, torch.arange(_LONGEST))
        return inputs

    def _pad_id(self) -> int | None:
        """The id on padding: as told, else what hides most often, else the embedding's."""
        held = [s for s in reversed(self.streams) if not self.batch.tokens(s).is_floating_point()]
        told = pad_of(self.model) if self.pad is None else self.pad
        if told is not None or not held:
            return told
        for stream in held:
            hidden = self.batch.tokens(stream)[~self.batch.real(stream)]
            if hidden.numel():
                return int(hidden.mode().values)
        return padding_index(self.model) or 0

    def _ids(self, stream: Stream) -> Tensor:
        """Ids that may stand anywhere in the text: no pad, no start, no end."""
        tokens = self.batch.tokens(stream)
        # Beside another sequence nothing tells whose an embedding is, so that only ids that are there are safe.
        size = vocabulary_size(self.model, int(tokens.max()), alone=stream.beside is None)
        ids = torch.arange(size) if size else tokens.unique().cpu()
        for one in {self.pad, *special_ids(self.model)}:
            ids = ids[ids != one] if one is not None else ids
        if len(ids) < 2:
            raise CouldNotRun("too few different ids are known to change a token; give a batch with more of them")
        return ids


def _fresh(model: nn.Module) -> nn.Module | None:
    try:
        return copy.deepcopy(model, {id(p): p for p in model.parameters()})
    except Exception:  # what cannot be copied is judged without
        return None
