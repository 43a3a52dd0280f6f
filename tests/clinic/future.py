"""The future: a later token reaches an earlier output, or an earlier one cannot be seen."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.clinic.case import case, whole
from tests.clinic.memory import Memory
from tests.clinic.pytorch import Speaker
from tests.clinic.transformer import Attention, Config, Fused, Layer, Plain, View, transformer


@case("CAU001", "layers.1.attention", batch=whole(), also="CCH001", causal=True)
def a_triangle_only_beside_a_mask(sick: bool) -> nn.Module:
    """The triangle is merged into the caller's mask, and nobody merges it when there is none.

    facebookresearch/xformers#103, huggingface/transformers#48748.
    """

    class Merged(Attention):
        def allowed(self, view: View, places: Tensor) -> Tensor:
            return super().allowed(replace(view, causal=view.real is not None), places)

    return transformer(Config(), Merged if sick else Attention)


@case("CAU001", "layers.0.attention", batch=whole(), also="CCH001", causal=True)
def a_mask_in_place_of_the_triangle(sick: bool) -> nn.Module:
    """Without a mask the model is causal; any mask, all ones included, takes the triangle's place. Single prompts
    are fine and a batch scores 100 %.

    huggingface/candle#3567.
    """

    class Replaced(Attention):
        def allowed(self, view: View, places: Tensor) -> Tensor:
            return super().allowed(replace(view, causal=view.real is None), places)

    return transformer(Config(), Replaced if sick else Attention, at=0)


@case("CAU001", "layers.1.attention", also="PTH003", causal=True)
def weights_asked_for(sick: bool) -> nn.Module:
    """Asking for the weights leaves the fused kernel, which had been relied on for the triangle.

    keras-team/keras#23038, huggingface/transformers PR#30652.
    """

    class Curious(Fused):
        def allowed(self, view: View, places: Tensor) -> Tensor:
            return super().allowed(replace(view, causal=not view.weights), places)

    return transformer(Config(), Curious if sick else Fused, healthy=Fused)


@case("CAU001", "layers.1.attention", also="CCH001", causal=True)
def dropout_configured(sick: bool) -> nn.Module:
    """With dropout in the configuration the causal kernel is not taken, in eval mode too; the other path has no
    triangle.

    keras-team/keras#23038.
    """

    class Configured(Attention):
        def allowed(self, view: View, places: Tensor) -> Tensor:
            return super().allowed(replace(view, causal=self.config.dropout == 0), places)

    return transformer(Config(dropout=0.1), Configured if sick else Attention)


@case("CAU001", "layers.1.attention", causal=True)
def training_only(sick: bool) -> nn.Module:
    """Eval mode is causal. In training, with dropout, the path without a triangle runs: a splendid loss, and no model.

    keras-team/keras#23038, as training met it.
    """

    class Trained(Attention):
        def allowed(self, view: View, places: Tensor) -> Tensor:
            return super().allowed(replace(view, causal=not self.training), places)

    return transformer(Config(dropout=0.1), Trained if sick else Attention)


class Blocks(Layer):
    """A layer that adds a mean over the block of 16 its token stands in, up to the token."""

    size = 16

    def forward(self, x: Tensor, view: View, memory: Memory | None) -> tuple[Tensor, Tensor | None]:
        return super().forward(x + self.summary(x), view, memory)

    def summary(self, x: Tensor) -> Tensor:
        blocks: Tensor = F.pad(x, (0, 0, 0, -x.shape[1] % self.size)).unflatten(1, (-1, self.size))
        counts = torch.arange(1, self.size + 1)[:, None]
        return (blocks.cumsum(2) / counts).flatten(1, 2)[:, : x.shape[1]]


@case("CAU001", "layers.0", batch=whole(2, 41), causal=True)
def a_mean_over_whole_blocks(sick: bool) -> nn.Module:
    """No mask is wrong: the mean of each *complete* block of 16 is given back to its tokens, so token 15 reaches
    token 3. A last, incomplete block is left alone, and a short example shows nothing.

    karpathy/nanochat#844, karpathy/nanochat PR#845.
    """

    class Complete(Blocks):
        def summary(self, x: Tensor) -> Tensor:
            full = x.shape[1] // self.size * self.size
            mean = x[:, :full].unflatten(1, (-1, self.size)).mean(2, keepdim=True)
            return F.pad(mean.expand(-1, -1, self.size, -1).flatten(1, 2), (0, 0, 0, x.shape[1] - full))

    class Patient(Plain):
        layer = Complete if sick else Blocks

    return transformer(Config(), model=Patient)


class Filtered(Layer):
    """A layer with a long filter over the tokens, as a convolution by Fourier transform."""

    room = 2  # the transform is this many times as long as the row: with 2 the filter's tail doesn't come round

    def forward(self, x: Tensor, view: View, memory: Memory | None) -> tuple[Tensor, Tensor | None]:
        size, decay = self.room * x.shape[1], 0.8 ** torch.arange(x.shape[1])[:, None]
        spectrum = torch.fft.rfft(x.float(), size, dim=1) * torch.fft.rfft(decay, size, dim=0)
        mixed = torch.fft.irfft(spectrum, size, dim=1)[:, : x.shape[1]].to(x.dtype)
        return super().forward(x + mixed, view, memory)


@case("CAU001", "layers.0", batch=whole(2, 37), causal=True)
def a_filter_that_comes_round(sick: bool) -> nn.Module:
    """A convolution by Fourier transform without room for its tail: the end of the row comes round to its start.

    HomebrewML/Olmax#78.
    """

    class Circular(Filtered):
        room = 1

    class Patient(Plain):
        layer = Circular if sick else Filtered

    return transformer(Config(), model=Patient)


@case("CAU001", "layers.1.attention", batch=whole(2, 31), also="CCH001 POS005", causal=True)
def a_triangle_drawn_once_in_four_rows(sick: bool) -> nn.Module:
    """Queries go four at a time, and the limit of the last of the four serves them all.

    pytorch/pytorch#195910.
    """

    class Fours(Attention):
        def allowed(self, view: View, places: Tensor) -> Tensor:
            own, last = view.places[:, None], view.places[:, None] // 4 * 4 + 3
            ahead = (own < places) & (places <= last)
            if view.real is not None:
                ahead = ahead & view.real[:, None, None, places]
            return super().allowed(view, places) | ahead

    return transformer(Config(), Fours if sick else Attention)


@case("CAU001", "encoder.layers.0.self_attn", batch=whole(), causal=True)
def a_triangle_one_to_the_right(sick: bool) -> nn.Module:
    """``triu(2)`` for ``triu(1)`` in ``nn.TransformerEncoder``: every token sees the next one, its own label.

    The doubt in karpathy/nanoGPT#170 and kzl/decision-transformer#30: which diagonal is it?
    """

    class Patient(Speaker):
        def triangle(self, x: Tensor) -> Tensor:
            return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(2 if sick else 1)

    return Patient.seeded()


@case("CAU002", "layers.0.attention", batch=whole(2, 29), causal=True, prefix=11)
def a_prefix_that_is_read_one_way(sick: bool) -> nn.Module:
    """The prefix is said to be read both ways; the triangle was drawn over all of it.

    The other side of huggingface/transformers#48745: the mask builder ignored what the model is.
    """
    return transformer(Config(prefix=0 if sick else 11), model=Plain)


@case("CAU002", "layers.0.attention", causal=False)
def an_encoder_that_stayed_causal(sick: bool) -> nn.Module:
    """A decoder was made an encoder, and the flag in one place was forgotten: no token sees to its right.

    huggingface/sentence-transformers#3387, huggingface/transformers PR#44777, ContextualAI/gritlm#15.
    """
    return transformer(Config(causal=sick))


@case("CAU003", "layers.1.attention", also="CAU001 CCH001")
def causal_in_some_cases(sick: bool) -> nn.Module:
    """Nothing is claimed. With a mask the model is causal and without one it isn't: it can't be both.

    facebookresearch/xformers#103, huggingface/candle#3567.
    """

    class Merged(Attention):
        def allowed(self, view: View, places: Tensor) -> Tensor:
            return super().allowed(replace(view, causal=view.real is not None), places)

    return transformer(Config(), Merged if sick else Attention)


@case(
    "CAU004",
    "layers.1.attention",
    also="CCH001 CCH002 CCH003 CCH004 CCH005",
    batch=whole(),
    causal=True,
)
def one_query_under_a_triangle_drawn_from_the_start(sick: bool) -> nn.Module:
    """``is_causal=True`` with one query and many keys: the triangle hangs at the top left, and the query sees one key.

    pytorch/pytorch#103082, pytorch/pytorch#108108, pytorch/pytorch#126873, lucidrains/x-transformers#187.
    """

    class TopLeft(Fused):
        def attend(self, q: Tensor, k: Tensor, v: Tensor, view: View, places: Tensor) -> tuple[Tensor, Tensor | None]:
            if sick and view.real is None:
                return F.scaled_dot_product_attention(q, k, v, is_causal=True), None
            return super().attend(q, k, v, view, places)

    return transformer(Config(), TopLeft, healthy=Fused)
