"""The batch that a model is tried on: which tensors are tokens, mask and positions, and how a variant of it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.errors import RegardError, unknown_name

_POSITIONS = ("position_ids", "positions")
_HELD_BACK = ("labels", "past_key_values", "use_cache")  # what a probe must not hand on as it is
#: Names of (source, target) in a model that reads one sequence and writes another.
PAIRS = (("input_ids", "decoder_input_ids"), ("src", "tgt"), ("source", "target"))
_TARGETS = tuple(target.removesuffix("input_ids") for _, target in PAIRS)  # what names of the target begin with
#: Masks that the model may accept though the batch does not hold them; a name says its meaning.
_KNOWN_MASKS = ("attention_mask", "key_padding_mask", "src_key_padding_mask")


@dataclass(frozen=True)
class Stream:
    """One sequence of the batch: the names of its tokens, its padding mask and its positions.

    ``hides`` is the mask's meaning: True is hide, as in ``key_padding_mask``, and not look. ``aligned``: outputs stand
    at these tokens, one for each.
    """

    tokens: str
    mask: str | None
    positions: str | None
    hides: bool = False
    aligned: bool = True


@dataclass(frozen=True)
class Inputs:
    """The arguments of one call, by name. Operations give a new one; none changes a tensor."""

    values: Mapping[str, Any]

    def tokens(self, stream: Stream) -> Tensor:
        found: Tensor = self.values[stream.tokens]
        return found

    def shape(self, stream: Stream) -> tuple[int, int]:
        B, L = self.tokens(stream).shape[:2]
        return int(B), int(L)

    def real(self, stream: Stream) -> Tensor:
        """Which tokens are no padding, (B, L); all of them where there is no mask."""
        mask = self.values.get(stream.mask) if stream.mask else None
        tokens = self.tokens(stream)
        if mask is None:
            return torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
        seen: Tensor = mask.bool()
        return ~seen if stream.hides else seen

    def with_values(self, **values: Any) -> Inputs:
        return replace(self, values={**self.values, **values})

    def without(self, *names: str | None) -> Inputs:
        return replace(self, values={name: value for name, value in self.values.items() if name not in names})

    def with_real(self, stream: Stream, real: Tensor) -> Inputs:
        """The same tokens, of which these are said to be no padding; in the dtype that the mask came in."""
        assert stream.mask is not None
        given = self.values.get(stream.mask)
        dtype = given.dtype if isinstance(given, Tensor) else torch.bool if stream.hides else torch.long
        return self.with_values(**{stream.mask: (~real if stream.hides else real).to(dtype)})

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

        return self.with_values(**{name: taken(self.values[name]) for name in self._along(stream)})

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
        if not any(source in held and target in held for source, target in PAIRS):
            return names
        ours = stream.tokens.startswith(_TARGETS)
        return [name for name in names if name.startswith(_TARGETS) == ours]

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


def streams(inputs: Inputs, tokens: str, mask: str | None, accepted: Sequence[str]) -> list[Stream]:
    """The sequences of the batch: one, or a source and a target; the one that outputs stand at is last."""
    _known("tokens", tokens, "input_ids", [*inputs.values, *accepted])
    _known("mask", mask, "attention_mask", [*inputs.values, *accepted])
    for source, target in PAIRS:
        if source in inputs.values and target in inputs.values:
            one = _stream(inputs, source, mask if mask in inputs.values else _near(source, inputs, accepted), accepted)
            # The source's positions are its encoder's; position_ids of a decoder are its own.
            return [
                replace(one, aligned=False),
                _stream(inputs, target, _near(target, inputs, accepted), accepted, prefix="decoder_"),
            ]
    if tokens not in inputs.values:
        tokens = next((n for n, x in inputs.values.items() if isinstance(x, Tensor) and x.dim() >= 2), "")
    if not tokens:
        raise RegardError(
            f"batch: found {list(inputs.values) or 'nothing'}, wanted tokens (B, L) or (B, L, D); name them with "
            "tokens="
        )
    return [_stream(inputs, tokens, mask, accepted)]


def _known(argument: str, name: str | None, default: str, names: Sequence[str]) -> None:
    """A name that the caller typed must be somewhere; the default may be absent."""
    if name not in (None, default) and name not in names:
        raise unknown_name(argument, name, dict.fromkeys(names))


def _stream(inputs: Inputs, tokens: str, mask: str | None, accepted: Sequence[str], prefix: str = "") -> Stream:
    B, L = inputs.tokens(Stream(tokens, None, None)).shape[:2]
    if mask is None:
        return Stream(tokens, None, _positions(inputs, accepted, prefix))
    held = [mask, *_KNOWN_MASKS, "padding_mask", "mask"] if not prefix else [mask]
    name = next((n for n in held if n and _is_padding_mask(inputs.values.get(n), B, L)), None)
    if name is None and mask and mask not in inputs.values and mask in accepted:
        name = mask
    if name is None and not prefix:
        name = next((n for n in _KNOWN_MASKS if n in accepted and n not in inputs.values), None)
    hides = name is not None and name.endswith("padding_mask")
    return Stream(tokens, name, _positions(inputs, accepted, prefix), hides)


def _positions(inputs: Inputs, accepted: Sequence[str], prefix: str) -> str | None:
    return next((prefix + n for n in _POSITIONS if prefix + n in accepted or prefix + n in inputs.values), None)


def _near(tokens: str, inputs: Inputs, accepted: Sequence[str]) -> str | None:
    """The mask that goes by its name with these tokens."""
    stem = tokens.removesuffix("input_ids").rstrip("_")
    names = [f"{stem}_attention_mask", f"{stem}_key_padding_mask", f"{stem}_padding_mask", f"{stem}_mask"]
    if stem == "":
        names = ["attention_mask"]
    return next((n for n in names if n in inputs.values or (n in accepted and not n.endswith(f"{stem}_mask"))), None)


def _is_padding_mask(mask: object, B: int, L: int) -> bool:
    return isinstance(mask, Tensor) and tuple(mask.shape) == (B, L)
