"""The cache: steps that don't add up to one pass."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.clinic.case import case, padded, whole
from tests.clinic.memory import Cache, Memory
from tests.clinic.transformer import Attention, Config, Decoder, View, transformer

ALONG = "CCH001 CCH002 CCH003 CCH004 CCH005"  # a step that is wrong on any filled cache is wrong in each of these cases


@case("CCH001", "layers.0.attention", also=ALONG, causal=True)
def positions_that_start_again(sick: bool) -> nn.Module:
    """Each call counts positions from 0, so the token after a prompt of 17 is turned as if it were the first.

    lucidrains/x-transformers#219, meta-pytorch/torchtune#959.
    """

    class Forgetful(Decoder):
        def view(self, ids: Tensor, mask: Tensor | None, positions: Tensor | None, past: int) -> View:
            view = super().view(ids, mask, positions, past)
            return replace(view, positions=view.positions - (past if sick else 0))

    return transformer(model=Forgetful)


@case("CCH001", "layers.1.attention", also=ALONG, causal=True)
def a_bias_of_the_new_tokens_alone(sick: bool) -> nn.Module:
    """ALiBi is built over the new tokens; for one token that is a single 0, which fits any row of scores.

    keras-team/keras-hub#2861. Only a row of several steps shows it: the model runs and writes fluently at first.
    """

    class Shortened(Attention):
        def slope(self, queries: Tensor, keys: Tensor) -> Tensor:
            new = super().slope(queries, queries)  # (H, L, L)
            return F.pad(new, (len(keys) - len(queries), 0))

    return transformer(Config(positions="alibi"), Shortened if sick else Attention)


@case("CCH001", "layers.0.attention", also=ALONG, causal=True)
def a_window_that_ends_with_the_prompt(sick: bool) -> nn.Module:
    """The window is honoured in the first pass and dropped in steps.

    goombalab/hnet#20, NVIDIA/TensorRT-Model-Connect#660, onnxruntime/mobius PR#371.
    """

    class Dropped(Attention):
        def reach(self, back: Tensor, causal: bool) -> Tensor:
            return back >= 0 if back.shape[0] < back.shape[1] else super().reach(back, causal)

    return transformer(Config(sliding_window=7), Dropped if sick else Attention, at=0)


class Rolling(Memory):
    """Keeps what a window of seven keys still needs for the next token."""

    keep = 6  # the token itself is the seventh

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        k, v, places = super().extend(k, v)
        self.k, self.v = k[:, :, -self.keep :], v[:, :, -self.keep :]
        return k, v, places

    def crop(self, length: int) -> None:
        raise RuntimeError("a rolling memory has thrown away what a crop would need")


@case("CCH001", "layers.0.attention", also=ALONG + " POS004", causal=True)
def a_rolling_cache_one_key_short(sick: bool) -> nn.Module:
    """Once the window is full, the key that should just stay is dropped: steps see one key less than the full pass.

    huggingface/transformers#37574, huggingface/transformers PR#45940.
    """

    class Short(Rolling):
        keep = 5

    class Patient(Decoder):
        def cache(self) -> Cache:
            return Cache([Short() if sick else Rolling() for _ in self.layers])

    return transformer(Config(sliding_window=7), model=Patient)


@case("CCH001", "layers.0.attention", also=ALONG, batch=whole(2, 31), causal=True)
def kept_rows_taken_for_the_position(sick: bool) -> nn.Module:
    """A cache that throws away old keys reports how many it keeps, and that is taken for the position: from the
    first eviction on, every new token is turned by the same angle.

    ml-explore/mlx-lm#1776, rajveer43/VeloxQuant-MLX PR#196.
    """

    class Kept(Rolling):
        def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            k, v, places = super().extend(k, v)
            self.seen = min(self.seen, self.keep)
            return k, v, places

    class Patient(Decoder):
        def cache(self) -> Cache:
            return Cache([Kept() if sick else Rolling() for _ in self.layers])

    return transformer(Config(sliding_window=7), model=Patient)


class Buffer(Memory):
    """Keys and values in a buffer of fixed capacity, of which the first ``seen`` slots are written."""

    capacity = 64

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if self.k is None or self.v is None:
            self.k, self.v = self.fresh(k), self.fresh(v)
        new = slice(self.seen, self.seen + k.shape[2])
        self.k[:, :, new], self.v[:, :, new] = k, v
        self.seen += k.shape[2]
        return self.readable(self.k), self.readable(self.v), torch.arange(self.readable(self.k).shape[2])

    def fresh(self, like: Tensor) -> Tensor:
        return like.new_zeros(*like.shape[:2], self.capacity, like.shape[3])

    def readable(self, x: Tensor) -> Tensor:
        return x[:, :, : self.seen]

    def crop(self, length: int) -> None:
        self.seen = min(self.seen, length)


def with_room(view: View) -> View:
    """A mask covers the text, not the capacity: what is beyond is no token."""
    if view.real is None:
        return view
    return replace(view, real=F.pad(view.real, (0, Buffer.capacity - view.real.shape[1])))


@case("CCH001", "layers.0.attention", also=ALONG, batch=whole(2, 29), causal=True)
def slots_nobody_wrote(sick: bool) -> nn.Module:
    """The cache has more room than the text needs, a single query "sees all keys", and so it reads the zeros of the
    empty slots. The result depends on the capacity.

    huggingface/transformers#30400, huggingface/transformers PR#45940.
    """

    class Spacious(Buffer):
        def readable(self, x: Tensor) -> Tensor:
            return x

    class Single(Attention):
        def allowed(self, view: View, places: Tensor) -> Tensor:
            if sick and len(view.places) == 1 and view.real is None:
                return torch.ones(1, 1, 1, len(places), dtype=torch.bool)
            return super().allowed(view, places)

    class Patient(Decoder):
        def cache(self) -> Cache:
            return Cache([Spacious() if sick else Buffer() for _ in self.layers])

        def view(self, ids: Tensor, mask: Tensor | None, positions: Tensor | None, past: int) -> View:
            return with_room(super().view(ids, mask, positions, past))

    return transformer(Config(), Single, healthy=Single, model=Patient)


@case("CCH001", "layers.0.attention", also=ALONG + " NUM001", batch=whole(2, 29), causal=True)
def slots_that_hold_no_number(sick: bool) -> nn.Module:
    """The empty slots are hidden, and rightly; but nobody cleared them, and a weight of 0 times NaN is NaN.

    pytorch/pytorch#101967, and the uninitialised slots of huggingface/transformers PR#45940.
    """

    class Uncleared(Buffer):
        def fresh(self, like: Tensor) -> Tensor:
            return torch.full_like(super().fresh(like), float("nan")) if sick else super().fresh(like)

        def readable(self, x: Tensor) -> Tensor:
            return x

    class Patient(Decoder):
        def cache(self) -> Cache:
            return Cache([Uncleared() for _ in self.layers])

        def view(self, ids: Tensor, mask: Tensor | None, positions: Tensor | None, past: int) -> View:
            return with_room(super().view(ids, mask, positions, past))

    return transformer(model=Patient)


@case("CCH002", "layers.1.attention", also="CCH003 CCH004 CCH005", causal=True)
def a_draft_that_reads_ahead(sick: bool) -> nn.Module:
    """Whether the triangle may be dropped is decided from the lengths: fine for one pass and for one token; but the
    tokens of a speculative draft, several on a filled cache, see each other both ways.

    huggingface/transformers PR#30311, huggingface/transformers PR#46741, ml-explore/mlx-lm PR#1673.
    """

    class Drafted(Attention):
        def allowed(self, view: View, places: Tensor) -> Tensor:
            several = 1 < len(view.places) < len(places)
            return super().allowed(replace(view, causal=not several), places)

    return transformer(Config(), Drafted if sick else Attention)


@case("CCH002", "layers.0.attention", also="CCH003 CCH004 CCH005", causal=True)
def a_chunk_that_loses_its_oldest_keys(sick: bool) -> nn.Module:
    """A rolling cache is trimmed *after* the new tokens went in: one token is fine, and the first of several has lost
    the keys that the last no longer needs.

    huggingface/transformers PR#46839, ml-explore/mlx-lm PR#1673, rasbt/LLMs-from-scratch#1008.
    """

    class Late(Rolling):
        def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            first = self.k is None
            k, v, places = super().extend(k, v)
            last = slice(None) if first else slice(-self.keep - 1, None)
            return k[:, :, last], v[:, :, last], places[last]

    class Patient(Decoder):
        def cache(self) -> Cache:
            return Cache([Late() if sick else Rolling() for _ in self.layers])

    return transformer(Config(sliding_window=7), model=Patient)


@case("CCH003", "layers.0.attention", causal=True, batch=padded(23, 13, 19, left=True))
def one_position_for_all_rows(sick: bool) -> nn.Module:
    """The first pass counts positions per row; a step takes the length of the cache for every row, pads counted.

    unslothai/unsloth#3699, unslothai/unsloth PR#3795.
    """

    class Shared(Decoder):
        def view(self, ids: Tensor, mask: Tensor | None, positions: Tensor | None, past: int) -> View:
            view = super().view(ids, mask, positions, past)
            if sick and past and positions is None:
                view = replace(view, positions=view.places.expand(ids.shape))
            return view

    return transformer(model=Shared)


@case("CCH003", "layers.0.attention", causal=True)
def a_step_that_forgets_who_is_padding(sick: bool) -> nn.Module:
    """The mask is used in the first pass. In a step "everything before is visible", the pads of the prompt too.

    TransformerLensOrg/TransformerLens#1005, huggingface/transformers#22707.
    """

    class Unmasked(Attention):
        def allowed(self, view: View, places: Tensor) -> Tensor:
            step = len(view.places) < len(places)
            return super().allowed(replace(view, real=None) if step else view, places)

    return transformer(Config(), Unmasked if sick else Attention, at=0)


@case("CCH004", "layers.0.attention", causal=True)
def a_crop_that_keeps_the_count(sick: bool) -> nn.Module:
    """Keys and values are cropped, the number of tokens seen is not: the next token stands where the draft ended.

    What is kept and what is counted part ways, as in ml-explore/mlx-lm#1776.
    """

    class Counting(Memory):
        def crop(self, length: int) -> None:
            seen = self.seen
            super().crop(length)
            self.seen = seen if sick else self.seen

        def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            k, v, _ = super().extend(k, v)
            return k, v, torch.arange(k.shape[2])

    class Patient(Decoder):
        def cache(self) -> Cache:
            return Cache([Counting() for _ in self.layers])

    return transformer(model=Patient)


@case("CCH005", "layers.1.attention", causal=True)
def a_beam_whose_values_stay_behind(sick: bool) -> nn.Module:
    """Reordering for beam search moves the keys of the last layer and leaves its values in the old rows."""

    class Split(Memory):
        def reorder(self, rows: Tensor) -> None:
            v = self.v
            super().reorder(rows)
            self.v = v if sick else self.v

    class Patient(Decoder):
        def cache(self) -> Cache:
            return Cache([Memory(), Split()])

    return transformer(model=Patient)


@case("CAU001", "layers.0.attention", also=ALONG, causal=True)
def a_triangle_that_comes_with_the_cache(sick: bool) -> nn.Module:
    """The causal mask is made when caches are set up; the pass without a cache sees the future.

    meta-pytorch/torchtune#959.
    """

    class Patient(Decoder):
        cached = False

        def cache(self) -> Cache:
            self.cached = True
            return super().cache()

        def view(self, ids: Tensor, mask: Tensor | None, positions: Tensor | None, past: int) -> View:
            cached, self.cached = self.cached or past > 0, False
            return replace(super().view(ids, mask, positions, past), causal=cached or not sick)

    return transformer(model=Patient)
