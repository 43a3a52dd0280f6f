"""One layer of a transformers cache: the state of a memory, and what of it the layer's attention is handed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers.cache_utils import CacheLayerMixin

from regard.bridge.cache import Factory
from regard.bridge.cache.band import Band
from regard.bridge.cache.padding import Padding, flush
from regard.bridge.cache.turning import Turn
from regard.errors import RegardError
from regard.memory import PairMemory
from regard.normalize import Softmax
from regard.score import ScaledDot

__all__ = ["MemoryLayer", "Place"]


class Place(NamedTuple):
    """Which layer of the model it is, whether the model's own mask there is not plain causal, and its own window."""

    number: int
    masked: bool
    window: int | None


class Past(NamedTuple):
    """A state of before, the slots it had seen, and what was written to it then: what a crop goes back to."""

    state: Any
    seen: int
    k: Tensor
    v: Tensor


class MemoryLayer(CacheLayerMixin):
    """What transformers calls: `update` writes a chunk and gives the keys and values that its queries may see.

    transformers counts slots, padding among them, and hides what its own mask hides. Every pair a row kept lies flush
    with the end of the slots before the chunk, so that this mask, made for as many slots, hides what a row lacks.
    """

    def __init__(self, factory: Factory, place: Place, padding: Padding | None) -> None:
        self.factory, self.place, self.padding = factory, place, padding
        self.memory: PairMemory[Any] = self._built(1, 2, 2)  # its parts are known before the widths are
        self.state: Any = None
        self.turn: Turn | None = None
        self.is_initialized = False
        self.record_past = False
        #: What gives the model a mask for chunks, and whether it gave one for the chunk that comes.
        self.band: Band | None = None
        self.banded = False
        self.seen = 0
        self.past: list[Past] = []

    def __repr__(self) -> str:
        return f"MemoryLayer({type(self.memory).__name__}, {self.seen} seen)"

    @property
    def is_sliding(self) -> bool:
        """transformers sizes the masks of its full and of its windowed layers after a layer of each kind."""
        return self.place.masked

    @property
    def is_croppable(self) -> bool:  # type: ignore[override]  # transformers' own layers do so too
        """Whether a step of many tokens gives what the steps one by one give, so that some can be taken back."""
        return self.reach is None or self._exact or (self.band is not None and self.band.read)

    @property
    def sinks(self) -> int:
        return int(getattr(self.memory, "sinks", 0))

    @property
    def reach(self) -> int | None:
        """How many pairs a token sees, itself and the sinks among them; None is all."""
        window = getattr(self.memory, "window", None)
        return None if window is None else self.sinks + int(window)

    @property
    def nbytes(self) -> int:
        return 0 if self.state is None else self.memory.nbytes(self.state)

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        B, G, _, D = key_states.shape
        self.memory = self._built(G, D, value_states.shape[-1])
        self.padding = None if self.padding is None else self.padding.rows(B)
        self.state = self.memory.reset(B, dtype=key_states.dtype, device=key_states.device)
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Writes a chunk; the keys and values that it sees, (B, G, S, ·) with S as `get_mask_sizes` said."""
        if not self.is_initialized:
            self._refuse_padding(kwargs.get("kwargs", {}).get("position_ids"))
            self.lazy_initialization(key_states, value_states)
        L = key_states.shape[2]
        found: tuple[Tensor, Tensor]
        valid = None if self.padding is None else self.padding.valid(self.seen, L)
        valid = None if valid is None else valid.to(key_states.device)
        before = self.state
        after = self.memory.write(before, key_states, value_states, valid=valid)
        if self.reach is None:
            found = self.memory.pairs(after)  # type: ignore[attr-defined]  # _built made sure
        else:
            kept = self.get_mask_sizes(L)[0] - L
            k, v = self._before(kept)
            found = torch.cat([k, key_states], 2), torch.cat([v, value_states], 2)
        if self.record_past and self.reach is not None:
            self.past.append(Past(before, self.seen, key_states, value_states))
        self.state, self.seen, self.banded = after, self.seen + L, False
        return found

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """How many keys a chunk of this length is handed, and the slot of the first of them."""
        if self.reach is None:
            return self.seen + query_length, 0
        if self._exact:
            assert self.place.window is not None
            kept = min(self.seen, self.place.window - 1)
        elif self.banded:
            kept = min(self.seen, self.reach - 1)
        else:
            # Room is made for the chunk. The first prompt finds nothing to make it of, and is read whole.
            kept = min(self.seen, max(self.reach - query_length, self.sinks))
        return kept + query_length, self.seen - kept

    def get_seq_length(self) -> int:
        return self.seen

    def get_max_length(self) -> int:
        return int(getattr(self.memory, "capacity", -1))

    def reset(self) -> None:
        self.state, self.seen, self.is_initialized, self.past = None, 0, False, []

    def reorder_cache(self, beam_idx: Tensor) -> None:
        if self.state is not None:
            self.state = self.memory.reorder(self.state, beam_idx)
            self.padding = None if self.padding is None else self.padding.select(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        if self.state is not None:
            self.reorder_cache(torch.arange(len(self.state.seen)).repeat_interleave(repeats))

    def batch_select_indices(self, indices: Tensor) -> None:
        rows = indices.nonzero().flatten() if indices.dtype == torch.bool else indices
        self.reorder_cache(rows)

    def activate_past_recording(self) -> None:
        """From now on states of before are kept till the next crop."""
        self.record_past = True

    def crop(self, tokens_to_remove: int) -> None:
        """Takes the last tokens back; 0, or a negative number of them, as transformers has it.

        Raises:
            RegardError: a positive number; more than was seen; pairs that were let go and not recorded.
        """
        count = -int(tokens_to_remove)
        if not 0 <= count <= self.seen:
            raise RegardError(
                f"crop: tokens_to_remove is {tokens_to_remove}, wanted a negative number of the "
                f"{self.seen} tokens, or 0"
            )
        length = self.seen - count
        past, self.past = self.past, []
        if not count:
            return
        back = next((each for each in reversed(past) if each.seen <= length), None)
        if back is None:
            self.state = self._cropped(length)
        else:
            more = length - back.seen
            valid = None if self.padding is None else self.padding.valid(back.seen, more)
            self.state = self.memory.write(back.state, back.k[:, :, :more], back.v[:, :, :more], valid=valid)
        self.seen = length

    def _cropped(self, length: int) -> Any:
        crop = getattr(self.memory, "crop", None)
        if crop is None:
            raise RegardError(f"crop: {type(self.memory).__name__} cannot give pairs back; take a memory that can")
        if self.padding is None:
            return crop(self.state, length)
        return crop(self.state, (length - self.padding.front).clamp(min=0))

    @property
    def _exact(self) -> bool:
        """Whether the model's own mask hides what lies before the window, so that every chunk sees what it should."""
        own = self.place.window
        return own is not None and not self.sinks and self.reach is not None and own <= self.reach

    def _before(self, kept: int) -> tuple[Tensor, Tensor]:
        """Of what is held, ``kept`` slots: the first ones are sinks, turned to stand right before the rest."""
        k, v = (torch.cat([flush(row, kept, self.sinks) for row in rows]) for rows in zip(*self._rows(), strict=True))
        # Rows that let something go have sinks in the first slots; the others turn by nothing.
        by = (torch.tensor(self.state.seen) - kept).clamp(min=0)
        if self.turn is None or not int(by.max()):
            return k, v
        return torch.cat([self.turn(k[:, :, : self.sinks], by), k[:, :, self.sinks :]], 2), v

    def _rows(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Keys and values as they are held: of all rows together where they hold equally many, else one by one."""
        memory: Any = self.memory
        if len(set(self.state.held)) == 1:
            yield memory.pairs(self.state)
            return
        for b in range(len(self.state.held)):
            yield memory.pairs(memory.reorder(self.state, torch.tensor([b])))

    def _built(self, *sizes: int) -> PairMemory[Any]:
        """The memory, refused where the model's attention could not read it."""
        found = self.factory(*sizes)
        who = type(found).__name__
        if not isinstance(found, PairMemory) or not hasattr(found, "pairs"):
            raise RegardError(
                f"memory: {who} keeps no pairs that a model's own attention could read, wanted KVCache, StaticCache, "
                "PagedCache, SlidingCache or SinkCache, or a partial of one"
            )
        if not _plain(found):
            raise RegardError(
                f"memory: {who} has a score or a normaliser of its own, wanted none: the model reads by its own"
            )
        if self.place.masked and self._hidden_sinks(found):
            raise RegardError(
                f"memory: layer {self.place.number} sees {self.place.window} tokens by the model's own mask, fewer "
                f"than sinks and window of {who} together, so its sinks would be hidden; wanted fewer"
            )
        return found

    def _hidden_sinks(self, memory: Any) -> bool:
        sinks = getattr(memory, "sinks", 0)
        return bool(sinks) and (self.place.window is None or self.place.window < sinks + memory.window)

    def _refuse_padding(self, position_ids: Any) -> None:
        """Raises where the first prompt is seen to be padded and nobody said so: padding would be kept as sinks."""
        if not self.sinks or self.padding is not None or not isinstance(position_ids, Tensor):
            return
        if position_ids.dim() == 2 and bool((position_ids.diff(dim=-1) != 1).any()):
            raise RegardError(
                "attention_mask: found none for prompts whose positions say that they are padded; give cache_for the "
                "mask that goes with them, or padding would be kept as sinks"
            )


def _plain(memory: Any) -> bool:
    """Whether a memory's own reading is what attention has where nothing is said."""
    given = memory.normalize
    plain = type(given) is Softmax and given.sink is None and given.temperature == 1.0
    return type(memory.score) is ScaledDot and plain
