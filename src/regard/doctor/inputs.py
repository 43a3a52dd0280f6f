"""The batch that a model is tried on, and how a variant of it is made."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.doctor.stream import Stream
from regard.errors import RegardError

_HELD_BACK = ("labels", "past_key_values", "use_cache")  # what a probe must not hand on as it is


@dataclass(frozen=True)
class Inputs:
    """The arguments of one call, by name, and what holds ``around`` it. Operations give a new one; none changes a
    tensor."""

    values: Mapping[str, Any]
    around: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext

    def tokens(self, stream: Stream) -> Tensor:
        found: Tensor = self.values[stream.tokens]
        return found

    def shape(self, stream: Stream) -> tuple[int, int]:
        B, L = self.tokens(stream).shape[:2]
        return int(B), int(L)

    def real(self, stream: Stream) -> Tensor:
        """Which tokens are no padding, (B, L); all of them where nothing tells."""
        return stream.real(self.tokens(stream), self.values.get(stream.mask) if stream.mask else None)

    def with_values(self, **values: Any) -> Inputs:
        return replace(self, values={**self.values, **values})

    def without(self, *names: str | None) -> Inputs:
        return replace(self, values={name: value for name, value in self.values.items() if name not in names})

    def with_real(self, stream: Stream, real: Tensor) -> Inputs:
        """The same tokens, of which these are said to be no padding, in the way the batch says it."""
        assert stream.mask is not None
        told = stream.telling(real, self.tokens(stream), self.values.get(stream.mask))
        return self.with_values(**{stream.mask: told})

    def with_positions(self, stream: Stream, real: Tensor, first: int = 0) -> Inputs:
        """Positions that are counted from the first real token of each row, which stands at ``first``."""
        assert stream.positions is not None
        return self.with_values(**{stream.positions: (real.long().cumsum(-1) - 1).clamp(min=0) + first})

    def rows(self, index: Sequence[int] | Tensor) -> Inputs:
        """These rows of the batch, in this order, repeats allowed."""
        batch = self._batch()
        at = torch.as_tensor(index, dtype=torch.long)
        return self._mapped(lambda x: x[at.to(x.device)] if x.dim() and x.shape[0] == batch else x)

    def columns(self, stream: Stream, index: Tensor) -> Inputs:
        """These places of every tensor that runs along the stream: index (L′,) for all rows, or (B, L′) a row."""
        B, _ = self.shape(stream)
        at = index.expand(B, -1) if index.dim() == 1 else index

        def taken(x: Tensor) -> Tensor:
            spread = at.to(x.device).reshape(*at.shape, *[1] * (x.dim() - 2)).expand(*at.shape, *x.shape[2:])
            return x.gather(1, spread)

        along = self._along(stream)
        out = self.with_values(**{name: taken(self.values[name]) for name in along})
        if stream.mask not in self.values or stream.mask in along:
            return out
        return out.with_real(stream, self.real(stream).gather(1, at.to(self.tokens(stream).device)))

    def padded(self, stream: Stream, left: int, right: int, content: Tensor) -> Inputs:
        """``left`` and ``right`` more places, hidden by the mask where there is one; ``content`` (B, left + right, …)
        stands there."""
        B, L = self.shape(stream)
        tokens = self.tokens(stream)
        new: dict[str, Any] = {}
        for name in self._along(stream):
            x = self.values[name]
            edge = content.to(tokens) if name == stream.tokens else x.new_zeros(B, left + right, *x.shape[2:])
            new[name] = torch.cat([edge[:, :left], x, edge[:, left:]], 1)
        out = self.with_values(**new)
        if stream.mask is None or stream.mask not in self.values:
            return out
        real = torch.zeros(B, left + L + right, dtype=torch.bool, device=tokens.device)
        real[:, left : left + L] = self.real(stream)
        return out.with_real(stream, real)

    def changed(self, stream: Stream, where: Tensor, content: Tensor) -> Inputs:
        """Other tokens, ``content`` (B, L, …), where ``where`` (B|1, L) says so."""
        tokens = self.tokens(stream)
        at = where.expand(tokens.shape[:2]).reshape(*tokens.shape[:2], *[1] * (tokens.dim() - 2))
        return self.with_values(**{stream.tokens: torch.where(at, content.to(tokens), tokens)})

    def _along(self, stream: Stream) -> list[str]:
        """The names of the tensors that run along the stream: by their shape, and where the batch holds a source and a
        target, which may be equally long, by name too."""
        size = self.shape(stream)
        held = {name: x for name, x in self.values.items() if isinstance(x, Tensor) and x.dim() >= 2}
        names = [name for name, x in held.items() if tuple(x.shape[:2]) == size]
        if stream.beside is None:
            return names
        target = stream.tokens if stream.aligned else stream.beside
        stem = target.removesuffix("input_ids") or target
        return [name for name in names if name.startswith(stem) == stream.aligned]

    def _batch(self) -> int:
        sizes = [x.shape[0] for x in self.values.values() if isinstance(x, Tensor) and x.dim() >= 2]
        return max(set(sizes), key=sizes.count)

    def _mapped(self, fn: Any) -> Inputs:
        return replace(self, values={n: fn(x) if isinstance(x, Tensor) else x for n, x in self.values.items()})


def named(batch: object, parameters: Sequence[str]) -> tuple[dict[str, Any], bool]:
    """The batch by name, and whether it came as a tuple: its items then take the names of the call's parameters."""
    if isinstance(batch, Mapping):
        if not all(isinstance(name, str) for name in batch):
            raise RegardError(f"batch: found keys {list(batch)[:3]}, wanted argument names")
        return dict(batch), False
    if isinstance(batch, Tensor):
        batch = (batch,)
    if isinstance(batch, tuple | list):
        names = [*parameters[: len(batch)], *(str(i) for i in range(len(parameters), len(batch)))]
        return dict(zip(names, batch, strict=True)), True
    raise RegardError(f"batch: found {type(batch).__name__}, wanted a dict or a tuple of tensors")


def prepared(values: dict[str, Any]) -> Inputs:
    """The batch without what a probe makes itself."""
    return Inputs({name: value for name, value in values.items() if name not in _HELD_BACK and value is not None})
