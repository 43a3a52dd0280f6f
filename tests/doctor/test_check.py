"""`regard.check` on awkward models: what can be judged is, what cannot is said, and nothing is left changed."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import regard
from regard.doctor import Report
from regard.doctor.probes import PROBES

V, D, H = 41, 24, 3


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x: Tensor, real: Tensor | None, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Any]:
        B, L, _ = x.shape
        q, k, v = (y.view(B, L, H, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        S = k.shape[2]
        allowed = (torch.arange(S) <= torch.arange(S - L, S)[:, None]).expand(B, 1, L, S)
        if real is not None:
            allowed = allowed & real.bool()[:, None, None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        return x + self.out(y.transpose(1, 2).reshape(B, L, D)), (k, v)


class Decoder(nn.Module):
    """A healthy decoder with relative nothing: no positions at all, a padding mask, a cache that is a list."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(V, D)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.head = nn.Linear(D, V)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, past: Any = None) -> Any:
        x = self.embed(input_ids)
        kept = []
        for i, block in enumerate(self.blocks):
            x, kv = block(x, attention_mask, past and past[i])
            kept.append(kv)
        return self.head(x), kept


def batch(B: int = 3, L: int = 19) -> dict[str, Tensor]:
    mask = torch.ones(B, L, dtype=torch.long)
    mask[-1, -4:] = 0
    return {"input_ids": torch.randint(1, V, (B, L)) * mask, "attention_mask": mask}


def codes(report: Report, *severities: str) -> list[str]:
    return [one.code for one in report.findings if one.severity in (severities or ("error", "warning"))]


def test_a_healthy_decoder_has_no_findings_and_its_cache_is_tested() -> None:
    report = regard.check(Decoder(), batch(), causal=True, pad_id=0)
    assert codes(report) == []
    assert report.clean
    assert report.exit_status == 0
    probes = {one.probe for one in report.passed}
    wanted = {"determinism", "future", "padding content", "padding length", "company", "cache", "precision", "gradient"}
    assert wanted <= probes


def test_weights_modes_and_the_random_state_are_as_before() -> None:
    model = Decoder()
    model.blocks[0].eval()
    modes = {name: m.training for name, m in model.named_modules()}
    weights = {name: p.clone() for name, p in model.named_parameters()}
    given = batch()
    before = {name: x.clone() for name, x in given.items()}
    torch.manual_seed(5)
    state = torch.get_rng_state()
    regard.check(model, given, causal=True)
    assert torch.equal(torch.get_rng_state(), state)
    assert {name: m.training for name, m in model.named_modules()} == modes
    assert all(torch.equal(p, weights[name]) for name, p in model.named_parameters())
    assert all(torch.equal(x, before[name]) for name, x in given.items())
    assert all(p.grad is None for p in model.parameters())


def test_a_model_that_cannot_run_is_said_and_nothing_counts_as_passed() -> None:
    report = regard.check(Decoder(), {"input_ids": torch.full((2, 9), V)}, causal=True)
    assert report.exit_status == 2
    assert report.passed == []
    (why,) = report.untested
    assert "IndexError" in why.why
    assert "(2, 9)" in why.why


def test_an_output_without_places_leaves_the_future_untested_and_the_rest_tested() -> None:
    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Decoder()

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            x = self.inner(input_ids, attention_mask)[0] * attention_mask[..., None]
            mean: Tensor = x.sum(1) / attention_mask.sum(1, keepdim=True).clamp(min=1)
            return mean

    report = regard.check(Classifier(), batch(), pad_id=0)
    assert codes(report) == []
    assert "future" in {one.probe for one in report.untested}
    assert {"company", "padding content", "padding length"} <= {one.probe for one in report.passed}


def test_a_model_that_last_bits_upset_is_said_to_be_and_nothing_else_is_judged() -> None:
    """It gives the same twice, but amplifies the rounding of its weights: no change can be told from that."""

    class Shaky(nn.Embedding):
        def forward(self, input_ids: Tensor) -> Tensor:
            return torch.sin(1e7 * super().forward(input_ids))

    torch.manual_seed(0)
    report = regard.check(Shaky(50, 8), {"input_ids": torch.randint(50, (2, 7))})
    assert report.findings == []
    (why,) = [one.why for one in report.untested if one.probe == "future"]
    assert re.match(r"outputs move by [0-9.]+ already when weights change by their last bits, and nothing", why)


def test_no_mask_is_known_so_padding_is_untested() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Decoder()

        def forward(self, x: Tensor) -> Any:
            return self.inner(x)[0]

    report = regard.check(Plain(), (torch.randint(V, (2, 11)),), causal=True)
    assert codes(report) == []
    (why,) = [one.why for one in report.untested if one.probe == "padding"]
    assert "mask=" in why
    assert not [one for one in report.passed if one.probe.startswith("padding")]


def test_a_stochastic_model_is_said_to_be_and_nothing_else_is_judged() -> None:
    class Noisy(Decoder):
        def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, past: Any = None) -> Any:
            out, kept = super().forward(input_ids, attention_mask, past)
            return F.dropout(out, 0.3, training=True), kept

    report = regard.check(Noisy(), batch(), causal=True)
    assert codes(report) == ["DET001"]
    assert {one.probe for one in report.passed} <= {"determinism", "finite", "inside"}
    assert "future" in {one.probe for one in report.untested}


def test_outputs_that_are_no_numbers_are_told_with_their_module_and_nothing_else_is_judged() -> None:
    class Overflown(Block):
        def forward(self, x: Tensor, real: Tensor | None, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Any]:
            y, kept = super().forward(x, real, past)
            return y * torch.inf, kept

    model = Decoder()
    model.blocks[1] = Overflown()
    report = regard.check(model, batch(), causal=True)
    assert ("NUM001", "blocks.1") in {(one.code, one.module) for one in report.findings}
    assert {one.probe for one in report.passed} <= {"determinism", "inside"}
    assert any(fact.value.startswith("unknown") for fact in report.facts)


def test_a_model_that_remembers_the_last_call_is_found() -> None:
    class Stateful(Decoder):
        last: Tensor | None = None

        def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, past: Any = None) -> Any:
            out, kept = super().forward(input_ids, attention_mask, past)
            if self.last is not None:
                out = out + 0.1 * self.last
            self.last = out.mean().detach()
            return out, kept

    assert "DET003" in codes(regard.check(Stateful(), batch(), causal=True))


def test_a_probe_that_fails_is_untested_and_the_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(subject: Any) -> Any:
        raise TypeError("no such thing")
        yield

    monkeypatch.setattr("regard.doctor.check.PROBES", (broken, *PROBES[:2]))
    report = regard.check(Decoder(), batch(), causal=True)
    (why,) = [one.why for one in report.untested if one.probe == "broken"]
    assert "a fault in regard: TypeError: no such thing" in why
    assert {"finite", "determinism"} <= {one.probe for one in report.passed}


@pytest.mark.parametrize("causal", [True, False, None])
def test_causal_is_a_claim_or_a_fact(causal: bool | None) -> None:
    report = regard.check(Decoder(), batch(), causal=causal)
    found = codes(report)
    assert found == (["CAU002"] if causal is False else [])
    if causal is None:
        assert any(fact.value.startswith("causal") for fact in report.facts)


def test_a_prefix_may_see_itself() -> None:
    class Prefix(Decoder):
        """Tokens before place 6 are averaged together, the rest is causal."""

        def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, past: Any = None) -> Any:
            out, kept = super().forward(input_ids, attention_mask, past)
            mean = out[:, :6].mean(1, keepdim=True)
            return torch.cat([out[:, :6] + mean, out[:, 6:]], 1), kept

    ids = torch.randint(V, (2, 17))
    assert "CAU001" in codes(regard.check(Prefix(), (ids,), causal=True, mask=None, cache=None))
    assert codes(regard.check(Prefix(), (ids,), causal=True, prefix=6, mask=None, cache=None)) == []


def test_forward_gives_the_outputs_of_an_unusual_model() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Decoder()

        def forward(self, deep: dict[str, Tensor]) -> Any:
            return {"result": [self.inner(**deep)[0]]}

    report = regard.check(Odd(), batch(), causal=True, forward=lambda model, given: model(given)["result"][0], pad_id=0)
    assert codes(report) == []
    assert "future" in {one.probe for one in report.passed}


def test_a_step_of_the_callers_own_is_tried() -> None:
    def step(model: nn.Module, given: dict[str, Tensor], state: Any) -> tuple[Tensor, Any]:
        out: tuple[Tensor, Any] = model(**given, past=state)
        return out

    def forgetful(model: nn.Module, given: dict[str, Tensor], state: Any) -> tuple[Tensor, Any]:
        out, kept = step(model, given, state)
        return out, [(k[:, :, 1:], v[:, :, 1:]) for k, v in kept] if state else kept

    model = Decoder()
    given = {"input_ids": torch.randint(V, (2, 13))}
    assert codes(regard.check(model, given, causal=True, cache=step)) == []
    assert "CCH001" in codes(regard.check(model, given, causal=True, mask=None, cache=forgetful))


def test_half_precision_is_judged_in_float32_and_said() -> None:
    report = regard.check(Decoder().bfloat16(), batch(), causal=True)
    assert codes(report) == []
    assert any("float32" in fact.value for fact in report.facts)


def test_a_compiled_model_is_checked_as_it_is() -> None:
    class Leaky(Decoder):
        def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, past: Any = None) -> Any:
            out, kept = super().forward(input_ids, attention_mask, past)
            return out + out.mean(1, keepdim=True), kept

    compiled = torch.compile(Leaky(), backend="eager")
    given = {"input_ids": torch.randint(V, (2, 9))}
    assert "CAU001" in codes(regard.check(compiled, given, causal=True, mask=None, cache=None))  # type: ignore[arg-type]


def test_progress_goes_from_nothing_to_all() -> None:
    seen: list[tuple[int, int, str]] = []
    regard.check(Decoder(), batch(), causal=True, progress=lambda *one: seen.append(one))
    assert [done for done, _, _ in seen] == list(range(len(seen)))
    assert seen[-1][0] == seen[-1][1]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("text", "batch: found str"),
        ({}, "batch: found nothing"),
        ({1: torch.ones(2, 3)}, "wanted argument names"),
        ({"flag": True}, "wanted tokens"),
    ],
)
def test_a_batch_of_the_wrong_kind_is_refused_in_one_line(given: Any, said: str) -> None:
    with pytest.raises(regard.RegardError, match=said):
        regard.check(Decoder(), given)


def test_a_model_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(regard.RegardError, match="model: found function"):
        regard.check(lambda x: x, batch())  # type: ignore[arg-type]


def test_six_layers_at_128_tokens_take_under_30_seconds() -> None:
    regard.check(Decoder(1), batch(2, 9), causal=True, pad_id=0)  # what the first check of a process imports
    began = time.process_time()
    report = regard.check(Decoder(6), batch(4, 128), causal=True, pad_id=0)
    assert report.clean
    assert time.process_time() - began < 2 * 30  # of two cores: what they do beside this test must not count
