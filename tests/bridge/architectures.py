"""Tiny Hugging Face models, one of each kind of attention, with random weights large enough to look somewhere."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

SMALL = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
}
GROUPED = SMALL | {"num_key_value_heads": 2}
SEQUENCE = {
    "vocab_size": 97,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "eos_token_id": None,
    "forced_eos_token_id": None,
    "decoder_start_token_id": 1,
}
GPT2 = {"vocab_size": 97, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "eos_token_id": None}

#: name: (class of the configuration, class of the model, what the configuration says)
DECODERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", "LlamaForCausalLM", GROUPED),
    "mistral, window": ("MistralConfig", "MistralForCausalLM", GROUPED | {"sliding_window": 5}),
    "qwen2, window in one layer": (
        "Qwen2Config",
        "Qwen2ForCausalLM",
        GROUPED | {"sliding_window": 5, "use_sliding_window": True, "max_window_layers": 1},
    ),
    "qwen3 mixture": (
        "Qwen3MoeConfig",
        "Qwen3MoeForCausalLM",
        GROUPED | {"head_dim": 8, "num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    ),
    "gemma2, cap and window": (
        "Gemma2Config",
        "Gemma2ForCausalLM",
        GROUPED | {"head_dim": 8, "sliding_window": 5, "query_pre_attn_scalar": 8, "attn_logit_softcapping": 2.0},
    ),
    "gemma3": (
        "Gemma3TextConfig",
        "Gemma3ForCausalLM",
        GROUPED
        | {
            "head_dim": 8,
            "sliding_window": 5,
            "query_pre_attn_scalar": 8,
            "layer_types": ["sliding_attention", "full_attention"],
        },
    ),
    "gpt-oss, learned sink": (
        "GptOssConfig",
        "GptOssForCausalLM",
        GROUPED | {"head_dim": 8, "sliding_window": 5, "num_local_experts": 5},
    ),
    "llama4, chunks": (
        "Llama4TextConfig",
        "Llama4ForCausalLM",
        GROUPED | {"head_dim": 8, "num_local_experts": 2, "attention_chunk_size": 5, "intermediate_size_mlp": 32},
    ),
    "deepseek3, latent": (
        "DeepseekV3Config",
        "DeepseekV3ForCausalLM",
        SMALL
        | {
            "num_key_value_heads": 4,
            "q_lora_rank": 8,
            "kv_lora_rank": 8,
            "qk_rope_head_dim": 4,
            "qk_nope_head_dim": 8,
            "v_head_dim": 6,
            "first_k_dense_replace": 2,
        },
    ),
    "granite, scale of its own": ("GraniteConfig", "GraniteForCausalLM", GROUPED | {"attention_multiplier": 0.5}),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", GPT2),
    "gpt-j": ("GPTJConfig", "GPTJForCausalLM", GPT2 | {"rotary_dim": 4}),
    "gpt-neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", SMALL),
    "opt": (
        "OPTConfig",
        "OPTForCausalLM",
        {
            "vocab_size": 97,
            "hidden_size": 32,
            "ffn_dim": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "word_embed_proj_dim": 32,
            "eos_token_id": None,
        },
    ),
    "phi": ("PhiConfig", "PhiForCausalLM", GROUPED),
}
ENCODERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertConfig", "BertForMaskedLM", SMALL),
    "distilbert": (
        "DistilBertConfig",
        "DistilBertForMaskedLM",
        {"vocab_size": 97, "dim": 32, "hidden_dim": 32, "n_layers": 2, "n_heads": 4},
    ),
    "modernbert, window": (
        "ModernBertConfig",
        "ModernBertForMaskedLM",
        SMALL | {"local_attention": 6, "global_attn_every_n_layers": 2, "cls_token_id": 1, "sep_token_id": 2},
    ),
    "albert": ("AlbertConfig", "AlbertForMaskedLM", SMALL | {"embedding_size": 16}),
}
BOTH: dict[str, tuple[str, str, dict[str, Any]]] = {
    "t5, bias": (
        "T5Config",
        "T5ForConditionalGeneration",
        {
            "vocab_size": 97,
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 32,
            "num_layers": 2,
            "num_heads": 4,
            "decoder_start_token_id": 0,
            "eos_token_id": None,
            "pad_token_id": 0,
        },
    ),
    "bart": ("BartConfig", "BartForConditionalGeneration", SEQUENCE),
    "marian": ("MarianConfig", "MarianMTModel", SEQUENCE),
}
PRIVATE: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bloom": ("BloomConfig", "BloomForCausalLM", {"vocab_size": 97, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "deberta": ("DebertaV2Config", "DebertaV2ForMaskedLM", SMALL),
    "longt5": (
        "LongT5Config",
        "LongT5ForConditionalGeneration",
        {"vocab_size": 97, "d_model": 32, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 4},
    ),
}
ALL = DECODERS | ENCODERS | BOTH | PRIVATE


def make(name: str, **more: Any) -> Any:
    """The model of that name, in evaluation mode, running transformers' own eager attention.

    Its weights are five times as large as it starts with, so that heads look at some keys more than at others: where
    every weight is alike, a wrong scale changes nothing. T5, which starts large and does not scale its scores, is left.
    """
    import transformers

    config, model, said = ALL[name]
    torch.manual_seed(0)
    made: nn.Module = getattr(transformers, model)(getattr(transformers, config)(**(said | more)))
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() > 1:
                parameter.mul_(1.0 if "T5" in model else 5.0)
            elif parameter.abs().max() == 0 or "sink" in name:
                parameter.add_(torch.randn_like(parameter))
    made.eval()
    if name not in PRIVATE:
        made.set_attn_implementation("eager")  # type: ignore[operator]
    return made
