"""Hugging Face models with a fault put in from outside: a registered function, or a subclass of one of their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache, EncoderDecoderConfig
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask
from transformers.models.bart.modeling_bart import BartAttention
from transformers.models.bloom.modeling_bloom import BloomModel
from transformers.models.encoder_decoder.modeling_encoder_decoder import EncoderDecoderModel
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention
from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXForCausalLM
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm
from transformers.models.t5.modeling_t5 import T5Attention

from tests.clinic.case import Batch, case, padded, text
from tests.clinic.documents import packed, packed_and_masked
from tests.clinic.stock import STOCK

Attend = Callable[..., tuple[Tensor, Tensor | None]]


def registered(name: str, attend: Attend, mask: Callable[..., Tensor | None] | None = sdpa_mask) -> str:
    """The name under which the models find this function, and the builder of its mask."""
    AttentionInterface.register(name, attend)
    if mask is not None:
        AttentionMaskInterface.register(name, mask)
    return name


def plain(module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, **kwargs: Any) -> Any:
    return sdpa_attention_forward(module, q, k, v, mask, **kwargs)


def becomes(part: nn.Module, kind: type[nn.Module]) -> None:
    """The same module, with the same weights and at the same path, by another class."""
    part.__class__ = kind


@case("PAD001", "model.layers.0.self_attn", also="PAD002 CCH002 CCH003 API001", causal=True)
def a_function_without_its_mask_function(sick: bool) -> nn.Module:
    """Llama by a registered attention function whose name has no mask function: the library then makes no mask, the
    function is given None, and only the causal flag is left. No warning comes.
    """
    maskless = registered("clinic_without_mask", plain, mask=None)
    masked = registered("clinic_with_mask", plain)
    return STOCK["Llama, grouped heads"].build(attn_implementation=maskless if sick else masked)  # type: ignore[no-any-return]


@case("AXS002", "model.layers.0.self_attn", causal=True)
def key_heads_tiled_for_a_kernel(sick: bool) -> nn.Module:
    """Phi by a function that repeats its two key heads for a kernel of four as 0, 1, 0, 1.

    onnx/onnx PR#7274, apple/axlearn PR#842, ByteDance-Seed/VeOmni PR#162.
    """

    def tiled(module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, **kwargs: Any) -> Any:
        k, v = k.repeat(1, q.shape[1] // k.shape[1], 1, 1), v.repeat(1, q.shape[1] // v.shape[1], 1, 1)
        read = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, mask, is_causal=mask is None and q.shape[2] > 1, scale=kwargs["scaling"]
        )
        return read.transpose(1, 2).contiguous(), None

    name = registered("clinic_tiled", tiled)
    return STOCK["Phi, half-turned heads"].build(num_key_value_heads=2, attn_implementation=name if sick else "sdpa")  # type: ignore[no-any-return]


@case("POS004", "model.layers.0.self_attn", also="CCH001", causal=True)
def a_window_with_one_key_more(sick: bool) -> nn.Module:
    """Mistral's window of 7 counts the token itself; this mask function takes it for 7 neighbours.

    huggingface/transformers#39408, huggingface/transformers#29623, vllm-project/vllm#3385.
    """

    def wider(*args: Any, mask_function: Any, **kwargs: Any) -> Tensor | None:
        def seen(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            known: Tensor = mask_function(row, head, query, key)
            return known | (query - key == 7)

        return sdpa_mask(*args, **{**kwargs, "mask_function": seen, "allow_is_causal_skip": False})

    name = registered("clinic_window", plain, wider)
    return STOCK["Mistral, window"].build(attn_implementation=name if sick else "sdpa")  # type: ignore[no-any-return]


@case("CCH001", "decoder.block.0.layer.0.SelfAttention", also="CCH002 CCH003 CCH004 CCH005", causal=True)
def a_bias_that_starts_again(sick: bool) -> nn.Module:
    """T5's relative bias is computed in each step as if the new token stood at the start.

    keras-team/keras-hub#2861, told of ALiBi.
    """

    class Restarted(T5Attention):
        def compute_bias(
            self, query_length: int, key_length: int, device: Any = None, past_seen_tokens: Any = 0
        ) -> Any:
            return super().compute_bias(query_length, key_length, device, 0)  # type: ignore[no-untyped-call]

    model = STOCK["T5, relative bias"].build()
    if sick:
        becomes(model.decoder.block[0].layer[0].SelfAttention, Restarted)
    return model  # type: ignore[no-any-return]


@case("CCH001", "transformer.h.0.self_attention", also="CCH002 CCH003 CCH004 CCH005", causal=True)
def a_bias_that_ends_with_the_prompt(sick: bool) -> nn.Module:
    """Bloom with ALiBi in the first pass and none in the steps.

    keras-team/keras-hub#2861, keras-team/keras-hub PR#2862.
    """

    class Stepless(BloomModel):
        def forward(self, input_ids: Any = None, **kwargs: Any) -> Any:
            self.new = input_ids.shape[1]
            return super().forward(input_ids, **kwargs)

        def build_alibi_tensor(self, attention_mask: Any, num_heads: int, dtype: Any) -> Any:
            return super().build_alibi_tensor(attention_mask, num_heads, dtype) * (attention_mask.shape[1] == self.new)

    model = STOCK["Bloom, ALiBi"].build()
    if sick:
        becomes(model.transformer, Stepless)
    return model  # type: ignore[no-any-return]


@case("MSK001", "bert.encoder.layer.0.attention.self", also="PAD001 PAD002 BAT001 CAU002 MSK005 NUM001", causal=False)
def a_mask_inverted_on_the_way(sick: bool) -> nn.Module:
    """BERT by a function written for a kernel where True is *hide*; the library's mask says True = *may look*.

    pytorch/pytorch PR#170415, NVIDIA/TransformerEngine#614, lucidrains/x-transformers#164.
    """

    def inverted(module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, **kwargs: Any) -> Any:
        return plain(module, q, k, v, None if mask is None else ~mask, **kwargs)

    name = registered("clinic_inverted", inverted)
    return STOCK["BERT"].build(attn_implementation=name if sick else "sdpa")  # type: ignore[no-any-return]


def translated(sick: bool) -> Batch:
    return {**padded(23, 13, 19), "decoder_input_ids": text(3, 17, seed=11)}


@case("PAD004", "decoder.transformer.h.0.crossattention", batch=translated, causal=True)
def a_gpt2_that_reads_the_pads_of_bert(sick: bool) -> nn.Module:
    """GPT-2 behind BERT: in the decoder the encoder's mask is lost before the cross-attention.

    huggingface/transformers PR#47946.
    """

    class Deaf(GPT2Attention):
        def forward(self, *args: Any, encoder_attention_mask: Any = None, **kwargs: Any) -> Any:
            return super().forward(*args, encoder_attention_mask=None, **kwargs)

    encoder = STOCK["BERT"].build().bert
    decoder = STOCK["GPT-2, learned positions"].build(is_decoder=True, add_cross_attention=True)
    config = EncoderDecoderConfig.from_encoder_decoder_configs(
        encoder.config, decoder.config, pad_token_id=0, decoder_start_token_id=1
    )
    model = EncoderDecoderModel(config, encoder=encoder, decoder=decoder).eval()
    if sick:
        becomes(model.decoder.transformer.h[0].crossattention, Deaf)
    return model  # type: ignore[no-any-return]


@case("PAD004", "model.decoder.layers.1.encoder_attn", batch=translated, causal=True)
def a_bart_that_reads_the_pads_of_its_source(sick: bool) -> nn.Module:
    """One cross-attention of BART's decoder gets no mask.

    huggingface/transformers PR#47946, OpenNMT/OpenNMT-py#272.
    """

    class Deaf(BartAttention):
        def forward(self, *args: Any, attention_mask: Any = None, **kwargs: Any) -> Any:
            return super().forward(*args, attention_mask=None, **kwargs)

    model = STOCK["BART"].build()
    if sick:
        becomes(model.model.decoder.layers[1].encoder_attn, Deaf)
    return model  # type: ignore[no-any-return]


@case("API001", "model.layers.0.self_attn", causal=True)
def sinks_nobody_asked_for(sick: bool) -> nn.Module:
    """GPT-OSS by a function that takes ``**kwargs`` and looks into none of them: the learned sinks never arrive.

    huggingface/transformers#41026, vllm-project/vllm-metal#212, unslothai/unsloth#3142.
    """

    def sinkless(module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, **kwargs: Any) -> Any:
        kwargs.pop("s_aux", None)
        return plain(module, q, k, v, mask, **kwargs)

    name = registered("clinic_sinkless", sinkless)
    return STOCK["GPT-OSS, sinks"].build(attn_implementation=name if sick else "eager")  # type: ignore[no-any-return]


@case("API001", "model.layers.1.self_attn", causal=True)
def a_norm_that_is_never_called(sick: bool) -> nn.Module:
    """Qwen3's norm of the queries is configured, loaded, and passed by.

    Cerebras/modelzoo PR#85.
    """

    class Idle(Qwen3RMSNorm):
        def forward(self, hidden_states: Tensor) -> Tensor:
            return hidden_states

    model = STOCK["Qwen3, norms of queries and keys"].build()
    if sick:
        becomes(model.model.layers[1].self_attn.q_norm, Idle)
    return model  # type: ignore[no-any-return]


@case("DET002", "distilbert.transformer.layer.0.attention", also="DET001", causal=False)
def dropout_handed_on_whatever_the_mode(sick: bool) -> nn.Module:
    """DistilBERT by a function that drops with the configured probability, in eval mode too.

    pytorch/pytorch#124464, huggingface/pytorch-image-models PR#1978.
    """

    def dropping(module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, **kwargs: Any) -> Any:
        return plain(module, q, k, v, mask, **{**kwargs, "dropout": 0.1})

    name = registered("clinic_dropping", dropping)
    return STOCK["DistilBERT"].build(attn_implementation=name if sick else "sdpa")  # type: ignore[no-any-return]


@case("CCH005", "gpt_neox.layers.1.attention", causal=True)
def a_cache_that_reorders_half(sick: bool) -> nn.Module:
    """GPT-NeoX with a cache of its own that moves keys to their beams, and of the last layer no values."""

    class Half(DynamicCache):
        def reorder_cache(self, beam_idx: Any) -> None:
            last: Any = self.layers[-1]
            values = last.values
            super().reorder_cache(beam_idx)
            last.values = values

    class Patient(GPTNeoXForCausalLM):
        def forward(
            self, input_ids: Any = None, past_key_values: Any = None, use_cache: Any = None, **kwargs: Any
        ) -> Any:
            if use_cache and past_key_values is None:
                past_key_values = Half() if sick else DynamicCache()
            return super().forward(input_ids, past_key_values=past_key_values, use_cache=use_cache, **kwargs)

    return STOCK["GPT-NeoX, half-turned heads"].build(Patient)  # type: ignore[no-any-return]


@case("CCH006", "model.layers.0.self_attn", also="CCH003", causal=True)
def a_single_query_that_sees_the_empty_slots(sick: bool) -> nn.Module:
    """Llama by a function that drops the mask of a single query, "which sees all keys anyway": with a static cache
    these are also the slots that nobody has written.

    huggingface/transformers#30400, huggingface/transformers PR#45940.
    """

    def hasty(module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, **kwargs: Any) -> Any:
        return plain(module, q, k, v, None if q.shape[2] == 1 else mask, **kwargs)

    name = registered("clinic_hasty", hasty)
    return STOCK["Llama, grouped heads"].build(attn_implementation=name if sick else "sdpa")  # type: ignore[no-any-return]


@case(
    "DOC001",
    "model.layers.0.self_attn",
    batch=lambda sick: packed_and_masked(sick) if sick else packed(sick),
    causal=True,
    cache=None,
)
def packed_rows_with_a_mask_of_ones(sick: bool) -> nn.Module:
    """A stock Llama isolates documents whose positions start again where no mask is given and no cache is kept. A
    collator's mask of all ones turns that off: logits of the second document move by 0.23.

    huggingface/transformers PR#46634, huggingface/transformers PR#39194.
    """
    return STOCK["Llama, grouped heads"].build(use_cache=False)  # type: ignore[no-any-return]
