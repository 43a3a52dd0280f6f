"""Hugging Face models: the same numbers as their own eager weights, and nothing above a note on a stock model."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import regard

transformers = pytest.importorskip("transformers")

TINY = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
TINY |= {"intermediate_size": 64, "max_position_embeddings": 64}
GROUPED = {**TINY, "num_key_value_heads": 2}
TWO = {"vocab_size": 97, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4}
TWO |= {"decoder_attention_heads": 4, "encoder_ffn_dim": 37, "decoder_ffn_dim": 37, "max_position_embeddings": 64}
GPT = {"vocab_size": 97, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}

STOCK: dict[str, tuple[str, dict[str, Any]]] = {
    "LlamaForCausalLM": ("LlamaConfig", GROUPED),
    "MistralForCausalLM": ("MistralConfig", {**GROUPED, "sliding_window": 4}),
    "Qwen2ForCausalLM": ("Qwen2Config", GROUPED),
    "Qwen3ForCausalLM": ("Qwen3Config", {**GROUPED, "head_dim": 8}),
    "Gemma2ForCausalLM": ("Gemma2Config", {**GROUPED, "head_dim": 8, "sliding_window": 4, "query_pre_attn_scalar": 8}),
    "GPT2LMHeadModel": ("GPT2Config", GPT),
    "GPTNeoXForCausalLM": ("GPTNeoXConfig", TINY),
    "GptOssForCausalLM": (
        "GptOssConfig",
        {**GROUPED, "head_dim": 8, "sliding_window": 4, "num_local_experts": 2, "num_experts_per_tok": 1},
    ),
    "BloomForCausalLM": ("BloomConfig", {"vocab_size": 97, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "FalconForCausalLM": ("FalconConfig", {k: TINY[k] for k in list(TINY)[:4]}),
    "OPTForCausalLM": ("OPTConfig", {**TINY, "ffn_dim": 37, "word_embed_proj_dim": 32}),
    "XGLMForCausalLM": (
        "XGLMConfig",
        {"vocab_size": 97, "d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 37},
    ),
    "BertModel": ("BertConfig", TINY),
    "RobertaModel": ("RobertaConfig", TINY),
    "ElectraModel": ("ElectraConfig", {**TINY, "embedding_size": 32}),
    "DistilBertModel": (
        "DistilBertConfig",
        {"vocab_size": 97, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 37},
    ),
    "DebertaV2Model": ("DebertaV2Config", {**TINY, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
    "T5ForConditionalGeneration": (
        "T5Config",
        {"vocab_size": 97, "d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 2, "num_heads": 4},
    ),
    "BartForConditionalGeneration": ("BartConfig", TWO),
}


def model(name: str, implementation: str, size: float = 0.3) -> Any:
    """A tiny model of random weights, large enough that heads differ."""
    config = getattr(transformers, STOCK[name][0])(**STOCK[name][1])
    try:
        made = getattr(transformers, name)._from_config(config, attn_implementation=implementation)
    except ValueError as error:
        pytest.skip(str(error)[:80])
    for p in made.parameters():
        if p.dim() > 1:
            torch.nn.init.normal_(p, std=size)
    return made.eval()


def batch(made: Any, padded: str) -> dict[str, torch.Tensor]:
    mask = torch.ones(3, 12, dtype=torch.long)
    for row, pads in ((1, 3), (2, 7)):
        mask[row, slice(0, pads) if padded == "left" else slice(12 - pads, 12)] = 0
    pad = made.config.pad_token_id or 0
    given = {"input_ids": torch.where(mask == 1, torch.randint(5, 97, (3, 12)), pad), "attention_mask": mask}
    if made.config.is_encoder_decoder:
        given["decoder_input_ids"] = torch.randint(5, 97, (3, 8))
    return given


@pytest.mark.parametrize("name", STOCK)
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_a_stock_model_has_nothing_above_a_note(name: str, implementation: str) -> None:
    made = model(name, implementation)
    for padded in ("left", "right"):
        given = batch(made, padded)
        with torch.no_grad():
            plain = made(**given)[0]
            with regard.watch(made) as seen:
                watched = made(**given)[0]
        assert torch.equal(plain, watched)
        assert not seen.untested
        assert [found for found in seen.findings() if found.severity != "note"] == []
        heads = seen.compute()
        attentions = 6 if made.config.is_encoder_decoder else 2
        assert len(heads) == 4 * attentions
        assert len(heads.layers) == attentions
        assert all(head.mass.get("padding", 0.0) == 0.0 for head in heads)


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "GPT2LMHeadModel", "BertModel", "Gemma2ForCausalLM"])
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_it_measures_the_weights_that_eager_returns(name: str, implementation: str) -> None:
    made = model(name, "eager")
    given = {"input_ids": torch.randint(5, 97, (3, 12))}
    with torch.no_grad():
        weights = made(**given, output_attentions=True).attentions
        try:
            made.set_attn_implementation(implementation)
        except ValueError as error:
            pytest.skip(str(error)[:80])
        with regard.watch(made) as seen:
            made(**given)
    for w, heads in zip(weights, seen.compute().layers.values(), strict=True):
        w = w.double()
        n = (w > 0).sum(-1)
        evenness = torch.where(n > 1, torch.special.entr(w).sum(-1) / n.clamp(min=2).log(), 0.0)
        shares = evenness.sum((0, 2)) / (n > 1).sum((0, 2))
        assert [head.entropy for head in heads] == pytest.approx(shares.tolist(), abs=1e-4)
        assert [head.peak for head in heads] == pytest.approx(w.amax(-1).mean((0, 2)).tolist(), abs=1e-4)
        assert [head.mass["first"] for head in heads] == pytest.approx(w[..., 0].mean((0, 2)).tolist(), abs=1e-4)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_generating_with_a_cache_is_seen_step_by_step(implementation: str, cache: str) -> None:
    made = model("LlamaForCausalLM", implementation)
    given = batch(made, "left")
    wanted: dict[str, Any] = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    if cache == "static":
        wanted["cache_implementation"] = "static"
    plain = made.generate(**given, **wanted)
    with regard.watch(made) as seen:
        watched = made.generate(**given, **wanted)
    assert torch.equal(plain, watched)
    heads = seen.compute()
    assert [head.head for head in heads] == [0, 1, 2, 3] * 2
    assert {head.calls for head in heads} == {4}
    if cache == "dynamic":  # 12 + 9 + 5 tokens, then three steps of three rows
        assert {head.rows for head in heads} == {26 + 9}
    assert [found for found in seen.findings() if found.severity != "note"] == []


def test_a_batch_without_its_mask_on_the_way_is_caught() -> None:
    """The mask is declared to the model and lost before attention."""
    made = model("BertModel", "sdpa")
    inner = made.encoder.forward
    made.encoder.forward = lambda hidden, attention_mask=None, **rest: inner(hidden, attention_mask=None, **rest)
    with torch.no_grad(), regard.watch(made) as seen:
        made(**batch(made, "right"))
    assert {one.code for one in seen.findings() if one.severity == "error"} == {"PAD001"}


def test_special_tokens_come_from_the_config() -> None:
    made = model("BertModel", "sdpa")
    made.config.bos_token_id, made.config.eos_token_id = 1, 2
    ids = torch.randint(5, 97, (2, 9))
    ids[:, 0], ids[:, -1] = 1, 2
    with torch.no_grad():
        weights = model_weights(made, ids)
        with regard.watch(made) as seen:
            made(input_ids=ids)
    first = seen.compute().layers["encoder.layer.0.attention.self"]
    wanted = (weights[..., 0] + weights[..., -1]).mean((0, 2))
    assert [head.mass["special"] for head in first] == pytest.approx(wanted.tolist(), abs=1e-5)


def model_weights(made: Any, ids: torch.Tensor) -> torch.Tensor:
    made.set_attn_implementation("eager")
    weights: torch.Tensor = made(input_ids=ids, output_attentions=True).attentions[0]
    made.set_attn_implementation("sdpa")
    return weights
