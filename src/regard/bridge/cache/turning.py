"""How a layer's keys turn with their places, measured on the model itself, so that a kept key can be moved."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import RegardError

__all__ = ["Turn", "turns"]

Pair = tuple[Tensor, Tensor]

#: Frequencies that depend on the length: a key that was turned by one set stands nowhere among those of another.
CHANGING = ("dynamic", "longrope")
PLACE, STEP = 3, 37
TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}


@dataclass(frozen=True, eq=False)
class Turn:
    """R(e): columns (c, c + n), or (2c, 2c + 1) where ``interleaved``, turn by e · f_c; the columns behind stay.

    ``frequencies`` (n,) are f in float64; n = 0 for a layer whose keys do not depend on their places. Turning a key of
    place p by e gives the key of place p + e, because R(e) R(p) = R(e + p).

    >>> turn = Turn(torch.tensor([torch.pi / 2]), interleaved=False)
    >>> (turn(torch.tensor([[[[1.0, 0.0, 5.0]]]]), torch.tensor([1])).round() + 0).tolist()
    [[[[0.0, 1.0, 5.0]]]]
    """

    frequencies: Tensor
    interleaved: bool

    def __call__(self, keys: Tensor, by: Tensor) -> Tensor:
        """Keys (B, G, S, D), those of row b ``by[b]`` places further on."""
        n = self.frequencies.numel()
        if not n:
            return keys
        phase = by.to(keys.device, torch.float64)[:, None, None, None] * self.frequencies.to(keys.device, torch.float64)
        wide = torch.float64 if keys.dtype == torch.float64 else torch.float32
        cos, sin = phase.cos().to(wide), phase.sin().to(wide)
        x, rest = keys[..., : 2 * n].to(wide), keys[..., 2 * n :]
        a, b = (x[..., 0::2], x[..., 1::2]) if self.interleaved else (x[..., :n], x[..., n:])
        parts = (a * cos - b * sin, b * cos + a * sin)
        turned = torch.stack(parts, -1).flatten(-2) if self.interleaved else torch.cat(parts, -1)
        return torch.cat([turned.to(keys.dtype), rest], -1)


def turns(model: Any) -> tuple[Turn, ...]:
    """One turn a layer. The model reads one token at two places; a token alone sees itself only, so that nothing but
    the turn tells the keys of a layer apart.

    Raises:
        RegardError: keys that differ otherwise (positions that are learnt and added), or frequencies that change.
    """
    _refuse_changing(model.config)
    found = [buffer for name, buffer in model.named_buffers() if name.endswith("inv_freq") and "original" not in name]
    if not found:
        raise RegardError(
            f"model: {type(model).__name__} has no rotary frequencies (inv_freq), wanted rotary positions: sinks are "
            "kept beside the window by turning their keys; take a memory without sinks"
        )
    here, there = _pairs(model, PLACE), _pairs(model, PLACE + STEP)
    turning = tuple(_turn(model, n, found, *pair) for n, pair in enumerate(zip(here, there, strict=True)))
    if not any(turn.frequencies.numel() for turn in turning):
        raise _still(model, 0)  # what it knows of places is not in its keys
    return turning


def _turn(model: Any, layer: int, frequencies: list[Tensor], here: Pair, there: Pair) -> Turn:
    if _alike(*(values for _, values in (here, there))):
        by = torch.full((here[0].shape[0],), STEP)
        for turn in _candidates(frequencies, here[0].shape[-1]):
            if _alike(turn(here[0], by), there[0]):
                return turn
    raise _still(model, layer)


def _still(model: Any, layer: int) -> RegardError:
    return RegardError(
        f"model: the keys of layer {layer} of {type(model).__name__} do not turn with their places by its rotary "
        "frequencies (learnt positions do not, latent attention keeps them elsewhere), so sinks cannot be kept beside "
        "the window; take a memory without sinks"
    )


def _alike(one: Tensor, other: Tensor) -> bool:
    return float((one - other).abs().max()) <= TOLERANCE[other.dtype] * float(other.abs().max())


def _candidates(frequencies: list[Tensor], width: int) -> Iterator[Turn]:
    yield Turn(torch.empty(0), False)
    for each in frequencies:
        if 2 * each.numel() <= width:
            yield Turn(each.detach().double(), False)
            yield Turn(each.detach().double(), True)


def _pairs(model: Any, place: int) -> list[Pair]:
    """Keys and values of every layer, (3, G, 1, ·), of three tokens that are alone in their rows, at ``place``."""
    from transformers import DynamicCache

    held = DynamicCache()
    config = model.config.get_text_config(decoder=True)
    pad = getattr(config, "pad_token_id", None)
    tokens = [n for n in range(min(config.vocab_size, 8)) if n != pad][-3:]
    given = torch.tensor(tokens, device=model.device)[:, None]
    name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            model(input_ids=given, position_ids=torch.full_like(given, place), use_cache=True, **{name: held})
    finally:
        model.train(training)
    layers: Any = held.layers  # all of one kind, but typed as any kind
    return [(layer.keys, layer.values) for layer in layers]


def _refuse_changing(config: Any) -> None:
    for kind in _kinds(getattr(config.get_text_config(decoder=True), "rope_parameters", None)):
        if kind in CHANGING:
            raise RegardError(
                f"model: rotary scaling {kind!r} turns keys by frequencies that change with the length, so a kept key "
                "cannot be moved; take a memory without sinks"
            )


def _kinds(parameters: Any) -> Iterator[str]:
    """The kinds of rotary scaling, of all layers together or of each type of layer."""
    if isinstance(parameters, dict):
        if isinstance(kind := parameters.get("rope_type"), str):
            yield kind
        for value in parameters.values():
            yield from _kinds(value)
