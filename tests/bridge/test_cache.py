"""This package's caches in a Hugging Face model: tokens and logits are those of transformers' own caches."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from regard.bridge.cache import cache_for
from regard.bridge.huggingface import use
from regard.errors import RegardError
from regard.memory import EightBit, KVCache, PagedCache, SinkCache, SlidingCache, StaticCache
from tests.bridge.architectures import DECODERS, make

B, L = 3, 13
TOKENS = torch.randint(3, 97, (B, L), generator=torch.Generator().manual_seed(7))
MASK = torch.ones(B, L, dtype=torch.long)
MASK[2, :4] = 0
SPLITS = ([6, 5, 1, 1], [1] * L, [2, 11])
WINDOW = 5  # that of the models with one, in architectures.py

KEEPING: dict[str, Any] = {
    "growing": KVCache,
    "static": partial(StaticCache, capacity=41),
    "paged": partial(PagedCache, page=4),
}
LOCAL = partial(SlidingCache, window=WINDOW)
WINDOWED = "mistral, window"
BY_KIND: dict[str, Any] = {"full_attention": KVCache, "sliding_attention": partial(SlidingCache, window=WINDOW)}
FEW = ("llama", WINDOWED, "qwen2, window in one layer", "gpt2")
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "beams": {"do_sample": False, "num_beams": 3},
    "sampling": {"do_sample": True},
    "prompt in chunks": {"do_sample": False, "prefill_chunk_size": 4},
}


def ready(name: str) -> Any:
    model = make(name).eval()
    model.generation_config.eos_token_id = None
    return model


def read(model: Any, cache: Any, split: Iterable[int]) -> Tensor:
    """The logits of the real tokens, the batch being read in chunks."""
    seen, stop = [], 0
    with torch.no_grad():
        for length in split:
            stop += length
            given = {"attention_mask": MASK[:, :stop], "cache": cache, "use_cache": True}
            seen.append(model(TOKENS[:, stop - length : stop], **given).logits)
    return torch.cat(seen, 1)[MASK[:, :stop].bool()]


def generate(model: Any, cache: Any, tokens: Tensor = TOKENS, mask: Tensor = MASK, **more: Any) -> Any:
    torch.manual_seed(5)
    given = {"attention_mask": mask, "max_new_tokens": 9, "cache": cache}
    return model.generate(tokens, **given, **more)


def dynamic(model: Any) -> Any:
    return transformers.DynamicCache(config=model.config)


@pytest.mark.parametrize("name", DECODERS)
def test_logits_are_those_of_the_dynamic_cache(name: str) -> None:
    model = ready(name)
    for split in SPLITS:
        wanted = read(model, dynamic(model), split)
        for memory in (KVCache, KEEPING["paged"]):
            assert (read(model, cache_for(model, memory), split) - wanted).abs().max() < 1e-5


@pytest.mark.parametrize("kept", KEEPING)
@pytest.mark.parametrize("name", FEW)
def test_what_is_generated_is_what_the_dynamic_cache_gives(name: str, kept: str) -> None:
    model = ready(name)
    for way in WAYS.values():
        ours, theirs = (generate(model, each, **way) for each in (cache_for(model, KEEPING[kept]), dynamic(model)))
        assert torch.equal(ours, theirs), way


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_a_static_cache_reads_what_transformers_static_cache_reads(name: str) -> None:
    model = ready(name)
    wanted = read(model, transformers.StaticCache(config=model.config, max_cache_len=17), SPLITS[0])
    for capacity in (13, 17, 64):
        cache = cache_for(model.config, partial(StaticCache, capacity=capacity))
        assert (read(model, cache, SPLITS[0]) - wanted).abs().max() < 1e-5
        assert cache.get_max_length() == capacity


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", [WINDOWED, "qwen2, window in one layer", "gemma3", "gpt-oss, learned sink"])
def test_a_window_reads_what_the_models_own_window_does(name: str, split: list[int]) -> None:
    model = ready(name)
    ours, theirs = cache_for(model, BY_KIND), dynamic(model)
    assert (read(model, ours, split) - read(model, theirs, split)).abs().max() < 1e-5
    held = [len(layer.keys[0, 0]) for layer in theirs.layers]  # a window of w: w − 1 pairs, the next is the w-th
    bytes_a_pair = 2 * theirs.layers[0].keys[:, :, 0].numel() * 4
    assert ours.nbytes <= bytes_a_pair * sum(min(n + 1, L) for n in held)


@pytest.mark.parametrize("way", WAYS)
def test_a_window_generates_what_the_models_own_does(way: str) -> None:
    model = ready(WINDOWED)
    ours, theirs = (generate(model, each, **WAYS[way]) for each in (cache_for(model, BY_KIND), dynamic(model)))
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize(
    ("name", "attention"),
    [("llama", "eager"), ("llama", "sdpa"), ("llama", "regard"), ("qwen3 mixture", "sdpa"), ("gpt-neox", "sdpa")],
)
def test_a_chunk_in_a_window_that_the_model_has_not_is_single_steps(name: str, attention: str) -> None:
    model = ready(name)
    use(model) if attention == "regard" else model.set_attn_implementation(attention)
    whole = read(model, dynamic(model), [L])
    wanted = read(model, cache_for(model, LOCAL), [1] * L)
    for split in ([L], *SPLITS[::2]):
        assert (read(model, cache_for(model, LOCAL), split) - wanted).abs().max() < 1e-5
    assert (whole - wanted).abs().max() > 1e-2  # what is further back would tell
    assert (read(model, dynamic(model), [6, 7]) - whole).abs().max() < 1e-5  # calls with other caches are left alone


@pytest.mark.parametrize("way", WAYS)
def test_a_prompt_in_such_a_window_is_read_as_its_tokens_one_by_one(way: str) -> None:
    model, found = ready("llama"), []
    for size in (None, 1):
        more = WAYS[way] | ({} if size is None else {"prefill_chunk_size": size})
        found.append(generate(model, cache_for(model, LOCAL), **more))
    assert torch.equal(*found)


def test_where_no_mask_can_be_given_a_chunk_is_read_with_what_is_left() -> None:
    """Sinks, a configuration without its model, another attention: it is known before drafts are made."""
    model = ready("llama")
    for cache in (cache_for(model.config, LOCAL), cache_for(model, partial(SinkCache, sinks=1, window=4))):
        assert not cache.is_croppable
        read(model, cache, SPLITS[0])
    cache = cache_for(model, LOCAL)
    assert cache.is_croppable
    model.config._attn_implementation = "flex_attention"
    assert not cache.is_croppable


DRAFTED = [(WINDOWED, KVCache), (WINDOWED, BY_KIND), ("qwen2, window in one layer", BY_KIND)]


@pytest.mark.parametrize(("name", "memory"), [*DRAFTED, (WINDOWED, KEEPING["paged"]), ("llama", LOCAL)])
def test_drafted_tokens_are_taken_back(name: str, memory: Any) -> None:
    """Assisted decoding gives what greedy decoding gives, for an assistant that is mostly wrong."""
    model, assistant = ready(name), ready("llama")
    one: dict[str, Any] = {"tokens": TOKENS[:1], "mask": MASK[:1], "do_sample": False}
    cache = cache_for(model, memory)
    found = generate(model, cache, **one, assistant_model=assistant)
    theirs = cache_for(model, memory) if memory is LOCAL else dynamic(model)
    assert torch.equal(found, generate(model, theirs, **one))
    assert cache.get_seq_length() == found.shape[1] - 1


def test_a_crop_forgets_what_it_takes_back() -> None:
    model = ready(WINDOWED)
    for memory in (KVCache, BY_KIND):
        cache: Any = cache_for(model, memory)
        cache.activate_past_recording()
        read(model, cache, [6, 5, 2])
        cache.crop(-4)  # over two chunks
        with torch.no_grad():
            again = model(TOKENS[:, 9:], attention_mask=MASK, cache=cache).logits
        whole = model(TOKENS, attention_mask=MASK).logits[:, 9:]
        assert (again - whole).abs().max() < 1e-5


def test_a_second_prompt_goes_on_where_the_first_stopped() -> None:
    model = ready("llama")
    cache = cache_for(model, KVCache)
    first = generate(model, cache)
    more = torch.cat([first, TOKENS[:, :5]], 1)
    mask = torch.cat([MASK, torch.ones(B, more.shape[1] - L, dtype=torch.long)], 1)
    assert torch.equal(generate(model, cache, more, mask), generate(model, None, more, mask))


@pytest.mark.parametrize("memory", [KVCache, KEEPING["paged"]])
def test_rows_are_repeated_chosen_and_emptied(memory: Any) -> None:
    model = ready("llama")
    cache: Any = cache_for(model, memory)
    cache.batch_select_indices(torch.tensor([0]))  # nothing yet: nothing to choose
    read(model, cache, [6])
    cache.batch_repeat_interleave(2)
    cache.batch_select_indices(torch.tensor([5, 2]))
    more = torch.stack([TOKENS[2, 6:], TOKENS[1, 6:]])
    found = model(more, attention_mask=MASK[[2, 1]], cache=cache).logits
    whole = model(TOKENS, attention_mask=MASK).logits[[2, 1], 6:]
    assert (found - whole).abs().max() < 1e-5
    cache.reset()
    assert (cache.get_seq_length(), cache.nbytes) == (0, 0)


def test_beams_share_the_pages_of_their_beginning() -> None:
    model, prompts = ready("llama"), 3 * L
    caches = [cache_for(model, each) for each in (KVCache, partial(PagedCache, page=1))]
    found = [generate(model, each, num_beams=4, do_sample=False) for each in caches]
    assert torch.equal(*found)
    pair = caches[0].nbytes // (4 * caches[0].get_seq_length() * B)
    alone = caches[0].nbytes - pair * 3 * prompts  # what the beams said, and each prompt once
    assert caches[1].nbytes <= alone


def test_eight_bits_take_a_quarter_and_a_scale_and_stay_close() -> None:
    model = ready("llama")
    full, small = cache_for(model, KVCache), cache_for(model, partial(KVCache, store=EightBit()))
    wanted, found = (read(model, cache, SPLITS[0]) for cache in (full, small))
    assert small.nbytes == full.nbytes * (8 + 4) // (4 * 8)  # vectors of 8: a byte a number, four for the scale
    assert 0 < (found - wanted).abs().max() < 0.05 * wanted.abs().max()


def test_gradients_go_through_what_is_kept() -> None:
    model = ready("llama")

    def slope(cache: Any) -> Tensor:
        model.zero_grad()
        for a, b in ((0, 6), (6, L)):
            out = model(TOKENS[:, a:b], attention_mask=MASK[:, :b], cache=cache).logits
        out[:, -1].square().sum().backward()
        return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])

    theirs = slope(dynamic(model))
    for memory in (KVCache, KEEPING["paged"]):
        assert (slope(cache_for(model, memory)) - theirs).abs().max() <= 1e-5 * theirs.abs().max()


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        (lambda *_: torch.nn.Linear(2, 2), "Linear keeps no pairs"),
        (partial(KVCache, score="cosine"), "KVCache has a score or a normaliser of its own"),
        (partial(KVCache, normalize="sparsemax"), "KVCache has a score or a normaliser of its own"),
        ({"sliding_attention": KVCache}, "layers of the type 'full_attention'"),
    ],
)
def test_memories_that_a_model_could_not_read_are_refused(memory: Any, message: str) -> None:
    with pytest.raises(RegardError, match=message):
        cache_for(ready("llama"), memory)


def test_models_that_keep_no_pairs_are_refused() -> None:
    with pytest.raises(RegardError, match="found Linear, wanted a transformers model"):
        cache_for(torch.nn.Linear(2, 2), KVCache)
    with pytest.raises(RegardError, match="is an encoder-decoder"):
        cache_for(transformers.BartConfig(), KVCache)
    with pytest.raises(RegardError, match="layer 0 is of the type 'linear_attention'"):
        cache_for(transformers.Qwen3NextConfig(num_hidden_layers=2), KVCache)


def test_a_crop_that_goes_too_far_is_refused_and_changes_nothing() -> None:
    model = ready("llama")
    cache = cache_for(model, partial(SlidingCache, window=WINDOW))
    read(model, cache, [6, 1])
    for count in (2, -8):
        with pytest.raises(RegardError, match=f"tokens_to_remove is {count}, wanted a negative number of the 7"):
            cache.crop(count)
    with pytest.raises(RegardError, match="let go"):
        cache.crop(-3)
    assert cache.get_seq_length() == 7
    with pytest.raises(ValueError, match="cache that can be cropped"):
        generate(model, cache_for(model.config, partial(SlidingCache, window=WINDOW)), TOKENS[:1], MASK[:1],
                 assistant_model=ready("llama"))  # fmt: skip


def test_a_mask_without_sinks_would_do_nothing_and_is_refused() -> None:
    with pytest.raises(RegardError, match="found one for memories without sinks"):
        cache_for(ready("llama"), KVCache, attention_mask=MASK)


def test_a_write_past_the_capacity_is_refused() -> None:
    model = ready("llama")
    cache = cache_for(model, partial(StaticCache, capacity=7))
    read(model, cache, [6])
    with pytest.raises(RegardError, match="capacity is 7"):
        model(TOKENS[:, 6:8], attention_mask=MASK[:, :8], cache=cache)
    assert cache.get_seq_length() == 6


def test_sinks_need_the_model_itself() -> None:
    with pytest.raises(RegardError, match="found a LlamaConfig, wanted the model itself"):
        cache_for(ready("llama").config, partial(SinkCache, sinks=1, window=4))


def test_transformers_waits_until_a_cache_is_asked_for() -> None:
    code = "import sys, regard.bridge.cache; print('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
