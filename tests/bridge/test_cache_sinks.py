"""Sinks in a Hugging Face model: the first pairs are kept, and stand right before the window whatever was let go.

The oracle counts places inside the cache and reads densely, in float64, with keys that were never turned by their
absolute places. For one layer it is the model itself, read anew over the tokens that are kept. With more layers that
would be another function: what a kept token says in layer 2 was read while tokens were there that are gone since, and
recomputation forgets them. There the oracle gives every token of the whole stream what the cache lets it see.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.bridge.cache import cache_for
from regard.bridge.cache.turning import Turn, turns
from regard.errors import RegardError
from regard.memory import KVCache, SinkCache, SlidingCache
from tests.bridge.architectures import DECODERS, make

SINKS, WHOLE, L = 2, 7, 29  # sinks, what a token sees in all, the stream
STREAM = torch.randint(3, 97, (2, L), generator=torch.Generator().manual_seed(11))
MEMORY = partial(SinkCache, sinks=SINKS, window=WHOLE - SINKS)
NO_ROTARY = ("gpt2", "gpt-j", "opt")
LATENT = "deepseek3, latent"
#: Their first layer sees less by the model's own mask than sinks and window together.
NARROW = (
    "mistral, window",
    "gemma2, cap and window",
    "llama4, chunks",
    "qwen2, window in one layer",
    "gemma3",
    "gpt-oss, learned sink",
)


def ready(name: str = "llama", dtype: torch.dtype = torch.float64, **changed: Any) -> Any:
    model = make(name, **changed).eval().to(dtype)
    if dtype == torch.float64:
        model.set_attn_implementation("sdpa")  # eager's softmax is float32's, in which float64's least number is −∞
    model.generation_config.eos_token_id = None
    return model


def read(model: Any, cache: Any, split: list[int], tokens: Tensor = STREAM, mask: Tensor | None = None) -> Tensor:
    seen, stop = [], 0
    with torch.no_grad():
        for length in split:
            stop += length
            given = {} if mask is None else {"attention_mask": mask[:, :stop]}
            seen.append(model(tokens[:, stop - length : stop], cache=cache, use_cache=True, **given).logits)
    return torch.cat(seen, 1)


def places(split: list[int]) -> Tensor:
    """How far before token i token j stands for it, counted inside the cache, (L, L); −1 where i does not see j."""
    total = sum(split)
    far = torch.full((total, total), -1)
    start = 0
    for length in split:
        kept = list(range(start))
        room = max(WHOLE - length, SINKS)
        if len(kept) > room:
            kept = kept[:SINKS] + kept[len(kept) - (room - SINKS) :]
        inside = [*kept, *range(start, start + length)]
        for i in range(start, start + length):
            for place, j in enumerate(inside[: len(kept) + i - start + 1]):
                far[i, j] = len(kept) + i - start - place
        start += length
    return far


def oracle(model: Any, tokens: Tensor, far: Tensor) -> Tensor:
    """A llama whose token i reads key j as ``far[i, j]`` places before it, every pair of them turned by itself."""
    inner, x = model.model, model.model.embed_tokens(tokens)
    seen = far >= 0
    phase = far.clamp(min=0)[..., None] * inner.rotary_emb.inv_freq.double()
    cos, sin = (torch.cat([each, each], -1) for each in (phase.cos(), phase.sin()))
    for layer in inner.layers:
        h, attention = layer.input_layernorm(x), layer.self_attn
        q, k, v = (
            part(h).unflatten(-1, (-1, attention.head_dim)).transpose(1, 2)
            for part in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        k, v = (each.repeat_interleave(attention.num_key_value_groups, 1) for each in (k, v))
        a, b = q.chunk(2, -1)
        asked = q[:, :, :, None] * cos + torch.cat([-b, a], -1)[:, :, :, None] * sin  # (B, H, L, L, D)
        scores = (asked * k[:, :, None]).sum(-1) * attention.scaling
        weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        x = x + attention.o_proj((weights @ v).transpose(1, 2).flatten(-2))
        x = x + layer.mlp(layer.post_attention_layernorm(x))
    found: Tensor = model.lm_head(inner.norm(x))
    return found


@pytest.mark.parametrize("split", [[1] * L, [5, *[1] * 24], [3, 4, 5, 1, 2, 3, 1, 1, 4, 5], [17, 9, 1, 1, 1]])
@pytest.mark.parametrize("layers", [1, 3])
def test_sinks_equal_a_dense_reading_with_places_counted_inside_the_cache(layers: int, split: list[int]) -> None:
    model = ready(num_hidden_layers=layers)
    wanted = oracle(model, STREAM, places(split)).detach()
    assert (read(model, cache_for(model, MEMORY), split) - wanted).abs().max() < 1e-5  # the model's phases are float32


def test_the_oracle_is_the_model_where_nothing_is_let_go() -> None:
    model = ready(num_hidden_layers=2)
    far = torch.arange(L)[:, None] - torch.arange(L)
    assert (oracle(model, STREAM, far.clamp(min=-1)) - model(STREAM).logits).abs().max() < 1e-5


@pytest.mark.parametrize("name", [name for name in DECODERS if name not in (*NO_ROTARY, *NARROW, LATENT)])
def test_one_layer_equals_the_model_read_anew_over_what_is_kept(name: str) -> None:
    model = ready(name, torch.float32, num_hidden_layers=1)
    found = read(model, cache_for(model, MEMORY), [1] * L)
    for stop in range(1, L + 1):
        kept = list(range(stop))
        kept = kept if stop <= WHOLE else kept[:SINKS] + kept[SINKS - WHOLE :]
        with torch.no_grad():
            wanted = model(STREAM[:, kept]).logits[:, -1]
        assert (found[:, stop - 1] - wanted).abs().max() < 1e-4, stop


def test_sinks_that_are_not_turned_give_something_else() -> None:
    """The mistake that the oracle is for: sinks left at their absolute places."""
    model = ready(num_hidden_layers=1)
    cache = cache_for(model, MEMORY)
    for layer in cache.layers:
        layer.turn = None
    wanted = oracle(model, STREAM, places([1] * L)).detach()
    off = (read(model, cache, [1] * L) - wanted).abs().amax((0, 2))
    assert off[:WHOLE].max() < 1e-5
    assert off[WHOLE:].max() > 1e-2


@pytest.mark.parametrize("split", [[12, *[1] * 17], [4, 4, 4, *[1] * 17]])
def test_rows_with_padding_in_front_read_what_they_read_alone(split: list[int]) -> None:
    model, front = ready(), 10
    mask = torch.ones(2, L, dtype=torch.long)
    mask[1, :front] = 0
    cache = cache_for(model, MEMORY, attention_mask=mask[:, : split[0]] if split[0] == 12 else mask[:, :12])
    found = read(model, cache, split, mask=mask)
    alone = [min(max(0, stop - front), length) for length, stop in zip(split, itertools.accumulate(split), strict=True)]
    alone = [n for n in alone if n]
    wanted = oracle(model, STREAM[1:, front:], places(alone)).detach()
    assert (found[1:, front:] - wanted).abs().max() < 1e-5
    assert (found[:1] - oracle(model, STREAM[:1], places(split)).detach()).abs().max() < 1e-5


@pytest.mark.parametrize("way", [{"do_sample": False}, {"do_sample": False, "num_beams": 3}, {"do_sample": True}])
def test_generate_with_sinks(way: dict[str, Any]) -> None:
    """A batch with padding gives each row what it gives alone; where nothing is let go, what the dynamic cache does."""
    model = ready()
    tokens, mask = STREAM[:, :6], torch.ones(2, 6, dtype=torch.long)
    mask[1, :3] = 0

    def run(cache: Any, rows: slice = slice(None), front: int = 0, count: int = 17) -> Tensor:
        torch.manual_seed(3)
        given = {"attention_mask": mask[rows, front:], "max_new_tokens": count, "cache": cache}
        found: Tensor = model.generate(tokens[rows, front:], **given, **way)
        return found[:, 6 - front :]

    both = run(cache_for(model, MEMORY, attention_mask=mask))
    if not way["do_sample"]:
        assert torch.equal(both[:1], run(cache_for(model, MEMORY), slice(1)))
        assert torch.equal(both[1:], run(cache_for(model, MEMORY), slice(1, 2), 3))
    assert not torch.equal(both, run(None))
    roomy = cache_for(model, partial(SinkCache, sinks=SINKS, window=21), attention_mask=mask)
    assert torch.equal(run(roomy), run(None))


def test_bytes_stop_growing() -> None:
    model = ready(dtype=torch.float32)
    sinks, every = cache_for(model, MEMORY), cache_for(model, KVCache)
    for cache in (sinks, every):
        read(model, cache, [1] * L)
    assert sinks.nbytes * L == every.nbytes * WHOLE
    assert sinks.get_seq_length() == every.get_seq_length() == L


def test_a_stream_longer_than_the_model_was_made_for_goes_on() -> None:
    """Only differences of places count, so that token 300 of a model of 64 places reads as the first ones do."""
    model = ready(num_hidden_layers=1)
    stream = STREAM[:, torch.arange(300) % L]
    found = read(model, cache_for(model, MEMORY), [1] * 300, stream)[:, -1]
    kept = [0, 1, *range(300 - WHOLE + SINKS, 300)]
    assert (found - model(stream[:, kept]).logits[:, -1]).abs().max() < 1e-4


def test_half_precision_turns_in_float32() -> None:
    model = ready(num_hidden_layers=1)
    wanted = read(model, cache_for(model, MEMORY), [1] * L)
    half = model.bfloat16()
    found = read(half, cache_for(half, MEMORY), [1] * L)
    assert (found - wanted).abs().max() < 0.05 * wanted.abs().max()


@pytest.mark.parametrize("name", NO_ROTARY)
def test_positions_that_are_not_rotary_are_refused(name: str) -> None:
    model = ready(name, torch.float32)
    with pytest.raises(RegardError, match="no rotary frequencies"):
        cache_for(model, MEMORY)
    cache_for(model, partial(SlidingCache, window=WHOLE))  # without sinks nothing has to be moved


def test_keys_that_do_not_turn_as_the_frequencies_say_are_refused() -> None:
    with pytest.raises(RegardError, match="layer 0 of DeepseekV3ForCausalLM do not turn"):
        cache_for(ready(LATENT), MEMORY)
    model = ready()
    model.model.rotary_emb.inv_freq.data.mul_(1.5)  # as a model would that turns by something else
    true = model.model.rotary_emb.inv_freq
    model.model.rotary_emb.inv_freq = true.data.div(1.5)
    assert len(turns(model)) == 2
    model.model.layers[1].self_attn.k_proj.register_forward_hook(lambda _m, _i, out: out + torch.randn_like(out))
    with pytest.raises(RegardError, match="the keys of layer 1"):
        turns(model)


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_frequencies_that_change_with_the_length_are_refused(kind: str) -> None:
    model = ready()
    model.config.rope_parameters = {"rope_type": kind, "rope_theta": 1e4, "factor": 2.0}
    with pytest.raises(RegardError, match=f"rotary scaling '{kind}'"):
        cache_for(model, MEMORY)


@pytest.mark.parametrize(
    "scaling",
    [
        {"rope_type": "linear", "factor": 2.0},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
        {
            "rope_type": "llama3",
            "factor": 4.0,
            "original_max_position_embeddings": 16,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
        },
    ],
)
def test_scalings_that_stay_the_same_are_turned_by(scaling: dict[str, Any]) -> None:
    model = ready(num_hidden_layers=1, rope_parameters={"rope_theta": 1e4, **scaling})
    found = read(model, cache_for(model, MEMORY), [1] * L)[:, -1]
    kept = [0, 1, *range(L - WHOLE + SINKS, L)]
    assert (found - model(STREAM[:, kept]).logits[:, -1]).abs().max() < 1e-4


def test_turns_compose_and_undo() -> None:
    for interleaved in (False, True):
        turn = Turn(torch.rand(3), interleaved)
        k = torch.randn(2, 5, 7, 8, dtype=torch.float64)
        one, two = torch.tensor([3, 11]), torch.tensor([2, -11])
        assert torch.allclose(turn(turn(k, one), two), turn(k, one + two), atol=1e-12)
        assert torch.equal(turn(k, torch.tensor([0, 0])), k)
        assert torch.equal(turn(k, one)[..., 6:], k[..., 6:])


def test_the_model_is_left_as_it_was() -> None:
    model = ready()
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    turns(model)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_padding_that_nobody_told_of_is_refused() -> None:
    model, mask = ready(), torch.ones(2, 6, dtype=torch.long)
    mask[1, :3] = 0
    with pytest.raises(RegardError, match="found none for prompts whose positions say"):
        model.generate(STREAM[:, :6], attention_mask=mask, max_new_tokens=2, cache=cache_for(model, MEMORY))


def test_masks_that_no_row_of_tokens_can_have_are_refused() -> None:
    model = ready()
    with pytest.raises(RegardError, match="row 1 has padding behind a token"):
        cache_for(model, MEMORY, attention_mask=torch.tensor([[1, 1, 1], [1, 0, 1]]))
    with pytest.raises(RegardError, match=r"found \(3,\), wanted \(B, S\)"):
        cache_for(model, MEMORY, attention_mask=torch.ones(3))
    cache = cache_for(model, MEMORY, attention_mask=torch.tensor([[0, 1], [0, 1], [1, 1]]))
    with pytest.raises(RegardError, match="found 3 rows, the model reads 2"):
        model(STREAM[:, :2], cache=cache)


def test_sinks_that_the_models_own_window_would_hide_are_refused() -> None:
    with pytest.raises(RegardError, match="layer 0 sees 5 tokens by the model's own mask"):
        cache_for(ready("mistral, window"), MEMORY)
    cache_for(ready("mistral, window"), partial(SinkCache, sinks=1, window=4))
    with pytest.raises(RegardError, match="layer 0"):
        cache_for(ready("llama4, chunks"), MEMORY)
