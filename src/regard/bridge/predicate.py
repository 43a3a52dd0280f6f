"""A Hugging Face mask without its booleans.

Transformers describes a mask by a function of four indices and asks a registered function to make of it what an
attention understands. Here that is a :class:`Predicate`: a tensor of no storage to the model that carries it, a
composition of causal, window, padding and segments to the attention that reads it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.bridge.masks import Call, Function, packed, recover
from regard.errors import RegardError
from regard.grid import Grid
from regard.mask import Mask

__all__ = ["Predicate", "made_predicate"]


class Predicate(Tensor):
    """A mask (B, 1, L, S) of booleans, True = may look, that holds no booleans.

    ``allowed`` says what they would be; None allows everything. A model that computes with it gets the booleans, made
    then and kept.
    """

    call: Call
    allowed: Mask | None
    _dense: Tensor | None
    _looked_at: bool

    @staticmethod
    def __new__(cls: type[Predicate], call: Call, allowed: Mask | None) -> Predicate:
        shape = (call.B, 1, call.L, call.S)
        made: Predicate = Tensor._make_wrapper_subclass(cls, shape, dtype=torch.bool, device=call.device)
        made.call, made.allowed, made._dense, made._looked_at = call, allowed, None, False
        return made

    def __init__(self, *_: Any) -> None:
        super().__init__()

    # A subclass that only dispatches is told to torch so; its stubs do not know either hook.
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        if func in _SAME or (func is torch.ops.aten.slice.Tensor and _whole(*args)):
            again = Predicate(args[0].call, args[0].allowed)
            again._dense, again._looked_at = args[0]._dense, args[0]._looked_at
            return again
        plain = [x.booleans() if isinstance(x, Predicate) else x for x in args]
        named = {key: x.booleans() if isinstance(x, Predicate) else x for key, x in (kwargs or {}).items()}
        plain = [
            [y.booleans() if isinstance(y, Predicate) else y for y in x] if isinstance(x, list) else x for x in plain
        ]
        return func(*plain, **named)

    def booleans(self) -> Tensor:
        """The mask as booleans (B, 1, L, S)."""
        if self._dense is None:
            B, _, L, S = self.shape
            grid = Grid.of(B, 1, L, S, self.device)
            made = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=self.device)
            made = made if self.allowed is None else self.allowed.allows(grid)
            self._dense = made.expand(B, 1, L, S).contiguous()
        return self._dense

    def refuse_unseen_documents(self, places: Tensor | None) -> None:
        """Raises where positions start anew inside a row, and the mask does not keep what lies before apart.

        Transformers takes such positions for packed documents where there is neither a mask (B, S) nor a cache, and
        says nothing where there is one. Positions of padding do not count.
        """
        B, _, L, _ = self.shape
        if self._looked_at or places is None or places.shape not in ((B, L), (1, L)) or packed(self.call.function):
            return
        self._looked_at = True
        real = torch.ones(1, L, dtype=torch.bool, device=places.device)
        if self.call.padding is not None:
            start = self.call.q_offset
            real = self.call.padding.to(places.device)[:, start : start + L].bool()
        anew = (places.diff(dim=-1) < 0) & real[:, 1:] & real[:, :-1] if real.shape[1] == L else places[:, :0]
        if bool(anew.any()):
            row, token = (int(n) for n in anew.nonzero()[0])
            raise RegardError(
                f"position_ids: row {row} starts anew at token {token + 1}, as packed documents do, but the mask lets "
                "it see what lies before; call the model with use_cache=False and no attention_mask, or give it "
                "cu_seq_lens_q and cu_seq_lens_k"
            )

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"Predicate({self.allowed!r}, {tuple(self.shape)})"


_SAME = (torch.ops.aten.detach.default, torch.ops.aten.alias.default)


def _whole(x: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> bool:
    """Whether a slice takes the whole axis, as models do to be safe."""
    return step == 1 and start in (0, None) and (end is None or end >= x.shape[dim])


def made_predicate(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int | Tensor = 0,
    mask_function: Function | None = None,
    attention_mask: Tensor | None = None,
    use_vmap: bool = False,
    device: torch.device | str = "cpu",
    **rest: Any,
) -> Tensor | None:
    """What transformers' AttentionMaskInterface calls. It keeps its contract, and its own mask while compiling."""
    from transformers.masking_utils import causal_mask_function, sdpa_mask

    # transformers annotates its own callable more narrowly than it calls it, and offsets as int where tensors come too.
    function: Function = causal_mask_function if mask_function is None else mask_function  # type: ignore[assignment]
    if torch.compiler.is_compiling():
        rest |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False, "use_vmap": use_vmap}
        return sdpa_mask(
            batch_size,
            q_length,
            kv_length,
            q_offset=q_offset,  # type: ignore[arg-type,unused-ignore]
            kv_offset=kv_offset,  # type: ignore[arg-type,unused-ignore]
            mask_function=function,
            attention_mask=attention_mask,
            device=device,
            **rest,
        )
    where = torch.device(device)
    call = Call(
        function, attention_mask, batch_size, q_length, kv_length, int(q_offset), int(kv_offset), where, use_vmap
    )
    return Predicate(call, recover(call))
