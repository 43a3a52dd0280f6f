"""A Hugging Face model that regard reads gives what its own eager attention gives."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

import regard
from regard.bridge.attention import attention
from regard.bridge.predicate import Predicate
from tests.bridge.architectures import BOTH, DECODERS, ENCODERS, PRIVATE, make

B, L = 3, 13
TOKENS = torch.randint(3, 97, (B, L), generator=torch.Generator().manual_seed(7))
RIGHT = torch.ones(B, L, dtype=torch.long)
RIGHT[1, 8:] = 0
LEFT = torch.ones(B, L, dtype=torch.long)
LEFT[2, :4] = 0
MASKS = {"none": None, "right": RIGHT, "left": LEFT}


def given(name: str, mask: Tensor | None) -> dict[str, Any]:
    batch = {"input_ids": TOKENS} if mask is None else {"input_ids": TOKENS, "attention_mask": mask}
    return batch | {"decoder_input_ids": TOKENS[:, :7]} if name in BOTH else batch


def real(name: str, mask: Tensor | None) -> Tensor:
    """The positions that are no padding: what a row that sees nothing reads is each library's own choice."""
    if name in BOTH or mask is None:
        return torch.ones(B, 7 if name in BOTH else L, dtype=torch.bool)
    return mask.bool()


def run(model: Any, name: str, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """The logits at real positions, and the gradient of their squares in all parameters."""
    model.zero_grad()
    logits = model(**given(name, mask)).logits[real(name, mask)]
    logits.square().mean().backward()
    slopes = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return logits.detach(), torch.cat(slopes)


def off(one: Tensor, other: Tensor) -> float:
    """The largest difference, as a share of the largest number."""
    return ((one - other).abs().max() / other.abs().max()).item()


@pytest.mark.parametrize("engine", ["auto", "tiled"])
@pytest.mark.parametrize("name", [*DECODERS, *ENCODERS, *BOTH])
def test_logits_and_gradients_are_those_of_eager(name: str, engine: str) -> None:
    model = make(name)
    wanted = {side: run(model, name, mask) for side, mask in MASKS.items()}
    regard.use(model, engine=engine)
    for side, mask in MASKS.items():
        logits, slopes = run(model, name, mask)
        assert off(logits, wanted[side][0]) < 5e-6, side
        assert off(slopes, wanted[side][1]) < 2e-5, side


@pytest.mark.parametrize("name", DECODERS)
def test_steps_with_a_cache_are_those_of_eager(name: str) -> None:
    """A prefill of six, a chunk of five that crosses the window, and one token, with padding in front."""
    model = make(name)

    def steps() -> Tensor:
        held = {"cache": transformers.DynamicCache(config=model.config), "use_cache": True}
        parts = [(0, 6), (6, 11), (11, 12)]
        with torch.no_grad():
            seen = [model(TOKENS[:, a:b], attention_mask=LEFT[:, :b], **held).logits for a, b in parts]
        return torch.cat(seen[1:], 1)

    wanted = steps()
    regard.use(model)
    assert off(steps(), wanted) < 5e-6


@pytest.mark.parametrize("cache", [None, "static"])
@pytest.mark.parametrize("name", [*DECODERS, *BOTH])
def test_generate_writes_what_eager_writes(name: str, cache: str | None) -> None:
    model = make(name)
    asked = {"attention_mask": LEFT, "max_new_tokens": 9, "do_sample": False, "cache_implementation": cache}
    wanted = model.generate(TOKENS, **asked)
    assert torch.equal(regard.use(model).generate(TOKENS, **asked), wanted)


@pytest.mark.parametrize("name", ["llama", "mistral, window", "gemma2, cap and window", "bert"])
def test_statistics_ride_in_attentions_and_are_those_of_the_weights(name: str) -> None:
    model = make(name)
    with torch.no_grad():
        weights = model(**given(name, RIGHT), output_attentions=True).attentions
        assert regard.use(model)(**given(name, RIGHT)).attentions is None
        readings = model(**given(name, RIGHT), output_attentions=True).attentions
    shown = RIGHT.bool()[:, None].expand(B, 4, L)
    assert len(readings) == len(weights) == 2
    for w, reading in zip(weights, readings, strict=True):
        entropy = -torch.where(w > 0, w * w.clamp(min=1e-38).log(), 0.0).sum(-1)
        assert isinstance(reading, regard.Reading)
        assert reading.entropy is not None
        assert (reading.entropy - entropy)[shown].abs().max() < 2e-5
        assert ((w > 0).sum(-1) == reading.seen)[shown].all()


def test_statistics_asked_for_by_name_are_measured_by_any_engine() -> None:
    model = regard.use(make("llama"), statistics=["peak", "distance"])
    with torch.no_grad():
        w = make("llama")(TOKENS, output_attentions=True).attentions[0]
        reading = model(TOKENS, output_attentions=True).attentions[0]
    far = (torch.arange(L)[:, None] - torch.arange(L)).abs()
    assert (reading.peak - w.amax(-1)).abs().max() < 1e-5
    assert (reading.distance - (w * far).sum(-1)).abs().max() < 1e-4


def test_cross_attention_has_its_statistics() -> None:
    with torch.no_grad():
        found = regard.use(make("bart"))(**given("bart", RIGHT), output_attentions=True)
    assert found.cross_attentions[0].entropy.shape == (B, 4, 7)
    assert found.encoder_attentions[0].entropy.shape == (B, 4, L)
    assert (found.cross_attentions[0].seen == RIGHT.sum(-1)[:, None, None]).all()


@pytest.mark.parametrize("engine", ["tiled", "sdpa", "reference"])
def test_an_engine_asked_for_is_the_one_that_runs(engine: str) -> None:
    model = regard.use(make("llama"), engine=engine)
    other = copy.deepcopy(model)
    for each in (model, other):
        with torch.no_grad():
            found = each(TOKENS, output_attentions=True).attentions
        assert [reading.engine for reading in found] == [engine] * 2


def test_an_engine_that_cannot_run_the_model_raises() -> None:
    with pytest.raises(regard.RegardError, match='engine "sdpa" cannot run this'):
        regard.use(make("gpt-oss, learned sink"), engine="sdpa")(TOKENS)


def test_it_is_undone_by_the_library_itself() -> None:
    model = make("llama")
    wanted = model(TOKENS).logits
    regard.use(model)
    model.set_attn_implementation("sdpa")
    assert off(model(TOKENS).logits, wanted) < 5e-6
    assert model(TOKENS, output_attentions=False).attentions is None
    model.set_attn_implementation("eager")
    assert torch.equal(model(TOKENS).logits, wanted)


def test_a_module_that_holds_a_model_is_switched() -> None:
    inner = make("bert")
    outer = torch.nn.Sequential(inner)
    assert regard.use(outer) is outer
    assert inner.config._attn_implementation == "regard"


def test_no_boolean_for_every_pair_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(_: Predicate) -> Tensor:
        raise AssertionError("the mask was made dense")

    monkeypatch.setattr(Predicate, "booleans", made)
    for name in [*DECODERS, *ENCODERS, *BOTH]:
        model = regard.use(make(name), engine="tiled")
        for mask in MASKS.values():
            with torch.no_grad():
                model(**given(name, mask))


def test_memory_grows_with_the_length_and_not_with_its_square() -> None:
    """Twice the length costs less than three times the memory beyond the weights, padded batch and window included."""
    code = (
        "import resource, torch, regard\n"
        "from tests.bridge.architectures import make\n"
        "model = regard.use(make('mistral, window', max_position_embeddings=1 << 16), engine='tiled')\n"
        "def peak(length):\n"
        "    mask = torch.ones(2, length, dtype=torch.long)\n"
        "    mask[1, : length // 3] = 0\n"
        "    tokens = torch.randint(3, 97, (2, length))\n"
        "    with torch.no_grad():\n"
        "        model.model(tokens, attention_mask=mask)\n"
        "    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "start = peak(256)\n"
        "print(start, peak(6144), peak(12288))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    start, half, whole = map(int, done.stdout.split())
    assert whole - start < 3 * (half - start) + 20_000
    assert whole - start < 2 * 12288 * 12288 / 1024  # kilobytes of one boolean mask for both rows


def test_packed_documents_do_not_see_each_other() -> None:
    """Positions that start anew, without a mask: what transformers itself takes for packed documents."""
    places = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 2, 3, 4]])
    model = regard.use(make("mistral, window"))
    with torch.no_grad():
        packed = model(TOKENS[:1], position_ids=places, use_cache=False).logits
        for start, stop in ((0, 5), (5, 8), (8, 13)):
            alone = model(TOKENS[:1, start:stop]).logits
            assert off(packed[:, start:stop], alone) < 5e-6


@pytest.mark.parametrize("name", ["llama", "mistral, window"])
def test_packed_documents_that_transformers_overlooks_are_refused(name: str) -> None:
    places = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 2, 3, 4]])
    model = regard.use(make(name))
    for more in ({"use_cache": True}, {"use_cache": False, "attention_mask": torch.ones(1, L, dtype=torch.long)}):
        with pytest.raises(regard.RegardError, match="position_ids: row 0 starts anew at token 5"):
            model(TOKENS[:1], position_ids=places, **more)
    padded = (LEFT.cumsum(-1) - 1).masked_fill(LEFT == 0, 1)  # what generate() gives: 1, 1, 1, 1, 0, 1, 2, …
    model(TOKENS, position_ids=padded, attention_mask=LEFT)


@pytest.mark.parametrize("said", ["cu_seq_lens", "seq_idx"])
def test_packed_documents_said_by_lengths_are_honoured(said: str) -> None:
    edges = torch.tensor([0, 5, 8, 13])
    ids = torch.repeat_interleave(torch.arange(3), edges.diff())[None]
    places = torch.cat([torch.arange(n) for n in edges.diff()])[None]
    words: dict[str, Any] = {"seq_idx": ids}
    if said == "cu_seq_lens":
        words = {"cu_seq_lens_q": edges, "cu_seq_lens_k": edges, "max_length_q": 5, "max_length_k": 5}
    model = regard.use(make("llama"))
    with torch.no_grad():
        wanted = model(TOKENS[:1, 5:8]).logits
        mask = torch.ones(1, L, dtype=torch.long)  # with a mask transformers does not look at the positions
        found = model(TOKENS[:1], position_ids=places, attention_mask=mask, **words).logits[:, 5:8]
    assert off(found, wanted) < 5e-6


@pytest.mark.parametrize("name", PRIVATE)
def test_a_model_with_attention_of_its_own_is_refused_by_name(name: str) -> None:
    model = make(name)
    with pytest.raises(regard.RegardError, match="in code of its own") as raised:
        regard.use(model)
    assert PRIVATE[name][1][:6] in str(raised.value)
    assert model.config._attn_implementation != "regard"


def test_what_is_no_model_or_no_name_is_refused() -> None:
    with pytest.raises(regard.RegardError, match="found Linear, wanted a transformers model"):
        regard.use(torch.nn.Linear(1, 1))
    model = make("bert")
    with pytest.raises(regard.RegardError, match="unknown name 'tield'; did you mean 'tiled'"):
        regard.use(model, engine="tield")
    with pytest.raises(regard.RegardError, match="unknown name 'entrop'; did you mean 'entropy'"):
        regard.use(model, statistics="entrop")
    assert model.config._attn_implementation == "eager"


class Module(torch.nn.Module):
    is_causal = True


def call(L: int = 5, S: int = 5, mask: Tensor | None = None, B: int = 2, **words: Any) -> Tensor:
    drawn = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(B, 2, n, 7, generator=drawn) for n in (L, S, S))
    out: Tensor = attention(Module(), q, k, v, mask, **words)[0]
    return out.transpose(1, 2)


def dense(L: int = 5, S: int = 5, bias: Tensor | float = 0.0) -> Tensor:
    drawn = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(2, 2, n, 7, generator=drawn) for n in (L, S, S))
    return torch.softmax(q @ k.transpose(-2, -1) * 7**-0.5 + bias, -1) @ v


@pytest.mark.parametrize("word", ["indices", "sinks", "head_mask", "cache"])
def test_a_keyword_that_is_not_honoured_is_refused_by_name(word: str) -> None:
    with pytest.raises(regard.RegardError, match=f"^{word}: .* not honour") as raised:
        call(mask=None, **{word: torch.ones(1)})  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)
    words: dict[str, Any] = {word: None, "use_cache": True, "position_ids": torch.arange(5)}
    call(**words)


def test_without_a_mask_the_module_says_whether_it_is_causal() -> None:
    causal = torch.full((5, 5), -torch.inf).triu(1)
    assert (call() - dense(bias=causal)).abs().max() < 1e-6
    assert (call(is_causal=False) - dense()).abs().max() < 1e-6
    assert (call(is_causal=False, L=3) - dense(L=3)).abs().max() < 1e-6
    assert (call(L=1) - dense(L=1)).abs().max() < 1e-6
    near = causal + torch.full((5, 5), -torch.inf).tril(-2)
    assert (call(sliding_window=2) - dense(bias=near)).abs().max() < 1e-6
    with pytest.raises(regard.RegardError, match="does not say where the queries stand"):
        call(L=3)


def test_a_float_mask_is_a_mask_and_a_bias() -> None:
    bias = torch.randn(2, 1, 5, 5, generator=torch.Generator().manual_seed(5))
    assert (call(mask=bias) - dense(bias=bias)).abs().max() < 1e-6
    hidden = torch.full((5, 5), torch.finfo(torch.float32).min).triu(1)
    assert (call(mask=bias + hidden) - dense(bias=bias + hidden)).abs().max() < 1e-6
    assert (call(mask=hidden.expand(2, 1, 5, 5)) - dense(bias=hidden)).abs().max() < 1e-6
    learnt = bias.clone().requires_grad_()
    call(mask=learnt).sum().backward()
    assert learnt.grad is not None
    assert learnt.grad.abs().max() > 0


@pytest.mark.parametrize(
    ("mask", "says"),
    [
        (torch.ones(2, 5, dtype=torch.bool), r"found \(2, 5\), wanted \(B, 1, L, S\) = \(2, 1, 5, 5\)"),
        (torch.ones(2, 1, 5, 7, dtype=torch.bool), r"found \(2, 1, 5, 7\)"),
        (torch.ones(2, 1, 5, 5, dtype=torch.long), "int64 of four axes"),
    ],
)
def test_a_mask_that_cannot_be_read_is_refused(mask: Tensor, says: str) -> None:
    with pytest.raises(regard.RegardError, match=says):
        call(mask=mask)


def test_half_of_the_documents_is_refused() -> None:
    edges = torch.tensor([0, 5])
    with pytest.raises(regard.RegardError, match="wanted both or none"):
        call(cu_seq_lens_q=edges)
    with pytest.raises(regard.RegardError, match="found B = 2 rows"):
        call(cu_seq_lens_q=edges, cu_seq_lens_k=edges)
    with pytest.raises(regard.RegardError, match="seq_idx: found"):
        call(seq_idx=torch.zeros(2, 3, dtype=torch.long))


def test_dropout_is_applied_in_training_only() -> None:
    model = regard.use(make("bert", attention_probs_dropout_prob=0.5, hidden_dropout_prob=0.0))
    with torch.no_grad():
        assert torch.equal(model(TOKENS).logits, model(TOKENS).logits)
        model.train()
        assert not torch.equal(model(TOKENS).logits, model(TOKENS).logits)


def test_a_compiled_model_gives_the_same() -> None:
    model = regard.use(make("llama"))
    with torch.no_grad():
        wanted = model(TOKENS, attention_mask=RIGHT).logits
        compiled: Any = torch.compile(model, backend="eager")
        found = compiled(TOKENS, attention_mask=RIGHT).logits
    assert off(found[RIGHT.bool()], wanted[RIGHT.bool()]) < 5e-6
