"""Which tensors of a batch are tokens, and what tells their padding and positions: as the caller says, else by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from torch import Tensor

from regard.doctor.inputs import Inputs
from regard.doctor.stream import Stream, Told
from regard.errors import RegardError, unknown_name

#: Names of (source, target) in a model that reads one sequence and writes another.
PAIRS = (
    ("input_ids", "decoder_input_ids"),
    ("src", "tgt"),
    ("src", "trg"),
    ("source", "target"),
    ("source", "previous"),
)
_POSITIONS = ("position_ids", "positions")
#: Masks that the model may accept though the batch does not hold them; a name says its meaning.
_KNOWN_MASKS = ("attention_mask", "key_padding_mask", "src_key_padding_mask")
_LENGTHS = ("lengths", "input_lengths")


def streams(
    inputs: Inputs,
    tokens: str,
    mask: str | None,
    accepted: Sequence[str],
    target: str | None = None,
    pad: int | None = None,
) -> list[Stream]:
    """The sequences of the batch: one, or a source and a target; the one that outputs stand at is last."""
    names = [*inputs.values, *accepted]
    _known("tokens", tokens, "input_ids", names)
    _known("mask", mask, "attention_mask", names)
    _known("target", target, None, [*inputs.values])
    pair = _pair(inputs, tokens, target)
    if pair is not None:
        source, target = pair
        told = mask if mask in inputs.values else _near(source, inputs, accepted)
        told = told or next((name for name in _LENGTHS if name in inputs.values), None)
        one = _stream(inputs, source, told, accepted, pad)
        # The source's positions are its encoder's; position_ids of a decoder are its own.
        other = _stream(inputs, target, _near(target, inputs, accepted), accepted, pad, prefix="decoder_")
        return [replace(one, aligned=False, beside=target), replace(other, beside=source)]
    if tokens not in inputs.values:
        tokens = next(_sequences(inputs), "")
    if not tokens:
        raise RegardError(
            f"batch: found {list(inputs.values) or 'nothing'}, wanted tokens (B, L) or (B, L, D); name them with "
            "tokens="
        )
    return [_stream(inputs, tokens, mask, accepted, pad)]


def _pair(inputs: Inputs, tokens: str, target: str | None) -> tuple[str, str] | None:
    """The names of source and target, where the batch holds both."""
    if target is None:
        return next((pair for pair in PAIRS if all(name in inputs.values for name in pair)), None)
    source = tokens if tokens in inputs.values else next((name for name in _sequences(inputs) if name != target), "")
    if source in ("", target):
        raise RegardError(
            f"target: found {target!r} and no other tokens in the batch; give the source too, and name it with tokens="
        )
    return source, target


def _sequences(inputs: Inputs) -> Iterator[str]:
    return (name for name, x in inputs.values.items() if isinstance(x, Tensor) and x.dim() >= 2)


def _known(argument: str, name: str | None, default: str | None, names: Sequence[str]) -> None:
    """A name that the caller typed must be somewhere; the default may be absent."""
    if name not in (None, default) and name not in names:
        raise unknown_name(argument, name, dict.fromkeys(names))


def _stream(
    inputs: Inputs, tokens: str, mask: str | None, accepted: Sequence[str], pad: int | None, prefix: str = ""
) -> Stream:
    at = inputs.tokens(Stream(tokens, None, None))
    positions = _positions(inputs, accepted, prefix)
    if mask is None:
        return Stream(tokens, None, positions)
    if mask == tokens:
        if at.is_floating_point() or at.dim() != 2:
            raise RegardError(
                f"mask: found {mask!r}, the tokens themselves, and they are no ids (B, L); wanted a mask or lengths"
            )
        return Stream(tokens, mask, positions, "ids", pad=pad or 0)
    held = [mask] if prefix else [mask, *_KNOWN_MASKS, "padding_mask", "mask", *_LENGTHS]
    for known in held:
        told = _told(known, inputs.values.get(known), at)
        if told is not None:
            return Stream(tokens, known, positions, told)
    name = mask if mask not in inputs.values and mask in accepted else None
    if name is None and not prefix:
        name = next((n for n in _KNOWN_MASKS if n in accepted and n not in inputs.values), None)
    return Stream(tokens, name, positions, "hidden" if name and name.endswith("padding_mask") else "real")


def _told(name: str, given: object, tokens: Tensor) -> Told | None:
    """How a tensor of that name would tell the padding of these tokens; None where its shape cannot."""
    B, L = tokens.shape[:2]
    if not isinstance(given, Tensor):
        return None
    if given.dim() == 1 and not given.is_floating_point() and given.shape[0] == B:
        return "lengths" if int(given.min()) >= 0 and int(given.max()) <= L else None
    if given.dim() >= 2 and (given.shape[0], given.shape[-1]) == (B, L) and given.numel() == B * L:
        return "hidden" if name.endswith("padding_mask") else "real"
    return None


def _positions(inputs: Inputs, accepted: Sequence[str], prefix: str) -> str | None:
    return next((prefix + n for n in _POSITIONS if prefix + n in accepted or prefix + n in inputs.values), None)


def _near(tokens: str, inputs: Inputs, accepted: Sequence[str]) -> str | None:
    """What goes by its name with these tokens and tells their padding."""
    stem = tokens.removesuffix("input_ids").rstrip("_")
    if stem == "":
        return next((n for n in ("attention_mask",) if n in inputs.values or n in accepted), None)
    masks = [f"{stem}_attention_mask", f"{stem}_key_padding_mask", f"{stem}_padding_mask", f"{stem}_mask"]
    found = next((n for n in masks if n in inputs.values or (n in accepted and not n.endswith(f"{stem}_mask"))), None)
    lengths = (f"{stem}_lengths", f"{stem}_len", f"{stem}_lens")
    return found or next((n for n in lengths if n in inputs.values), None)
