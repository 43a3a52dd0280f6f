"""What the caller said about the tokens: which keys are padding, which are special, and groups of their own."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.doctor.watch.call import Call

#: Arguments that say 1 (True) = a real token, and those that say True = padding, by the side of the model they are of.
_REAL = {"attention_mask": "source", "decoder_attention_mask": "target", "encoder_attention_mask": "source"}
_PADS = {
    "key_padding_mask": "source",
    "src_key_padding_mask": "source",
    "memory_key_padding_mask": "source",
    "tgt_key_padding_mask": "target",
}
_IDS = {"input_ids": "source", "decoder_input_ids": "target"}
_CROSS = ("cross", "encoder_attn", "encdec", "multihead_attn", "encoder_attention")


@dataclass(frozen=True)
class Side:
    """One sequence of the model: which tokens are real, (B, S), and which are special."""

    real: Tensor | None = None
    special: Tensor | None = None


class Declared:
    """Reads the root's arguments by name; the caller's ``groups`` come before what they say."""

    def __init__(self, model: Any, groups: Mapping[str, Tensor]) -> None:
        self.groups = groups
        self._special = _special_ids(model)
        self._sides: dict[str, Side] = {}
        self._hook: Any = None
        self._model = model if isinstance(model, nn.Module) else None
        names = [] if self._model is None else [name for name, _ in self._model.named_modules()]
        self._two = all(any(side in name.split(".") for name in names) for side in ("encoder", "decoder"))

    def attach(self) -> None:
        if self._model is not None:
            self._hook = self._model.register_forward_pre_hook(self._hear, with_kwargs=True)

    def detach(self) -> None:
        if self._hook is not None:
            self._hook.remove()

    def _hear(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            given = inspect.signature(module.forward).bind_partial(*args, **kwargs).arguments
        except TypeError:  # the call itself will say what is wrong with it
            given = {}
        given = {**given, **given.get("kwargs", {})} if isinstance(given.get("kwargs"), dict) else given
        real: dict[str, Tensor] = {}
        special: dict[str, Tensor] = {}
        for name, value in given.items():
            if not isinstance(value, Tensor) or value.dim() != 2:
                continue
            if name in _REAL and (not value.is_floating_point() or bool(((value == 0) | (value == 1)).all())):
                real[_REAL[name]] = value != 0
            elif name in _PADS:
                real.setdefault(_PADS[name], ~value if value.dtype == torch.bool else value > -1e4)
            elif name in _IDS and self._special and not value.is_floating_point():
                special[_IDS[name]] = torch.isin(value, value.new_tensor(self._special))
        two = self._two or any(name.startswith(("decoder_", "tgt")) and x is not None for name, x in given.items())
        names = {"source", "target"} if two else {"source"}
        self._sides = {name: Side(real.get(name), special.get(name)) for name in names}

    def keys(self, call: Call) -> dict[str, Tensor]:
        """Groups of keys for one call, booleans (B|1, S); padding is missing where nothing says what it is."""
        B, _, _, S = call.shape
        side = self._side(call, keys=True)
        found: dict[str, Tensor] = {}
        if side.real is not None and _fits(side.real, B, S):
            found["padding"] = ~side.real
        if side.special is not None and _fits(side.special, B, S):
            found["special"] = side.special
        for name, group in self.groups.items():
            group = group if group.dim() == 2 else group.unsqueeze(0)
            if _fits(group, B, S):
                found[name] = group
        return {name: group.to(call.q.device) for name, group in found.items()}

    def queries(self, call: Call) -> Tensor | None:
        """Which queries are real tokens, (B|1, L); None where nothing says so."""
        B, _, L, S = call.shape
        if "padding" in self.groups:
            real: Tensor | None = ~self.groups["padding"]
            real = real if real is None or real.dim() == 2 else real.unsqueeze(0)
        else:
            real = self._side(call, keys=False).real
        if real is None or real.shape[0] not in (1, B):
            return None
        if real.shape[1] == L:
            return real.to(call.q.device)
        if real.shape[1] == S and S > L and not self.crosses(call):  # the newest tokens, on a cache
            return real[:, S - L :].to(call.q.device)
        return None

    def crosses(self, call: Call) -> bool:
        """Whether it reads another sequence than its queries', as far as names and lengths tell."""
        if any(word in call.place.path.lower() for word in _CROSS):
            return True
        return "target" in self._sides and self._in_decoder(call) and self._only_fits_source(call)

    def _only_fits_source(self, call: Call) -> bool:
        source, target = self._sides["source"].real, self._sides["target"].real
        S = call.shape[3]
        return source is not None and source.shape[1] == S and (target is None or target.shape[1] != S) and (
            call.shape[2] != S
        )  # fmt: skip

    def _in_decoder(self, call: Call) -> bool:
        return "decoder" in call.place.path

    def _side(self, call: Call, keys: bool) -> Side:
        if "target" not in self._sides:
            return self._sides.get("source", Side())
        if not self._in_decoder(call) or (keys and self.crosses(call)):
            return self._sides["source"]
        return self._sides["target"]


def _fits(group: Tensor, B: int, S: int) -> bool:
    return group.shape[1] == S and group.shape[0] in (1, B)


def _special_ids(model: Any) -> list[int]:
    """The ids of the model's special tokens, as a Hugging Face config names them."""
    config = getattr(model, "config", None)
    known = sys.modules.get("transformers")
    if config is None or known is None or not isinstance(config, known.PretrainedConfig):
        return []
    found: set[int] = set()
    for name in ("bos_token_id", "eos_token_id", "sep_token_id", "cls_token_id", "decoder_start_token_id"):
        value = getattr(config, name, None)
        found |= {x for x in (value if isinstance(value, list) else [value]) if isinstance(x, int)}
    return sorted(found)
