"""The recorder as a thing that is entered, left, entered again, merged and forgotten, whatever happens inside."""

from __future__ import annotations

import pickle
import threading
import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import regard
from regard.doctor.watch import Watch
from regard.errors import RegardError
from tests.doctor.watch.models import WAYS, B, H, L, Stack, W, causal


def hooks(model: nn.Module) -> int:
    return sum(len(m._forward_pre_hooks) + len(m._forward_hooks) for m in model.modules())


def modes() -> int:
    return int(torch._C._len_torch_function_stack())


def same(one: Watch, other: Watch) -> None:
    for a, b in zip(one.compute(), other.compute(), strict=True):
        mine, theirs = a.to_dict(), b.to_dict()
        assert mine.pop("mass") == pytest.approx(theirs.pop("mass"), abs=1e-9)
        assert mine == pytest.approx(theirs, abs=1e-9)


def test_nothing_stays_behind_when_the_model_raises() -> None:
    class Raises(nn.Module):
        def forward(self, q: Tensor) -> Tensor:
            F.scaled_dot_product_attention(q, q, q)
            raise ValueError("no")

    model = nn.Sequential(Raises())
    seen = regard.watch(model)
    with pytest.raises(ValueError, match=r"^no$"), seen:
        model(torch.randn(1, 2, 5, 4))
    assert (hooks(model), modes()) == (0, 0)
    assert [head.module for head in seen.compute()] == ["0", "0"]
    with seen, pytest.raises(ValueError, match=r"^no$"):
        model(torch.randn(1, 2, 5, 4))
    assert (hooks(model), modes()) == (0, 0)
    assert seen.compute()[0].calls == 2


def test_a_module_that_raised_is_not_taken_for_the_one_that_runs() -> None:
    class Tries(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bad, self.good = nn.Linear(3, 4), nn.Identity()

        def forward(self, q: Tensor) -> Tensor:
            try:
                self.bad(q)
            except RuntimeError:
                q = self.good(q)
            return F.scaled_dot_product_attention(q, q, q)

    model = nn.ModuleDict({"tries": Tries()})
    with regard.watch(model) as seen:
        model["tries"](torch.randn(1, 2, 5, 4))
    assert list(seen.compute().layers) == ["tries"]


def test_two_recorders_at_once_both_see_and_not_each_other() -> None:
    model = Stack(WAYS["sdpa"])
    x = torch.randn(B, L, W)
    with regard.watch(model) as outer, regard.watch(model) as inner:
        model(x, causal())
    assert len(outer.compute()) == len(inner.compute()) == 2 * H
    assert {head.calls for head in outer.compute()} == {1}
    same(outer, inner)
    own = Stack(WAYS["tiled"])
    with regard.watch(own) as outer, regard.watch(own) as inner:
        own(x, causal())
    assert {head.calls for head in outer.compute()} == {1} == {head.calls for head in inner.compute()}


def test_it_cannot_be_entered_twice_at_once() -> None:
    seen = regard.watch(None)
    with seen, pytest.raises(RegardError, match="already recording"), seen:
        pass
    assert modes() == 0


def test_another_thread_is_not_seen() -> None:
    model = Stack(WAYS["sdpa"])
    x = torch.randn(B, L, W)
    results: list[Tensor] = []
    with regard.watch(model) as seen:
        thread = threading.Thread(target=lambda: results.append(model(x, causal())))
        thread.start()
        thread.join()
        assert len(seen.compute()) == 0
        model(x, causal())
    assert {head.calls for head in seen.compute()} == {1}
    assert torch.equal(results[0], model(x, causal()))


def test_batches_apart_and_merged_are_as_batches_together() -> None:
    model = Stack(WAYS["sdpa"])
    one, two = torch.randn(B, L, W), torch.randn(3, L, W)
    with regard.watch(model) as both:
        model(one, causal())
        model(two, causal())
    parts = []
    for x in (one, two):
        with regard.watch(model) as seen:
            model(x, causal())
        parts.append(pickle.loads(pickle.dumps(seen)))
    merged = parts[0].merge(parts[1])
    same(both, merged)
    assert {head.calls for head in merged.compute()} == {2}
    assert [f.to_dict() for f in both.findings()] == [f.to_dict() for f in merged.findings()]


def test_another_number_of_heads_is_another_call() -> None:
    def run(heads: int) -> Watch:
        with regard.watch(None) as seen:
            q, k, v = (torch.randn(1, heads, 5, 4) for _ in range(3))
            F.scaled_dot_product_attention(q, k, v)
        return seen

    one = run(2).merge(run(3))
    assert len(one.compute()) == 5


def test_reset_forgets() -> None:
    seen = regard.watch(None)
    with seen:
        q, k, v = (torch.randn(1, 2, 5, 4) for _ in range(3))
        F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    seen.reset()
    assert len(seen.compute()) == 0
    assert seen.findings() == []
    assert "No attention was seen" in str(seen.compute())


def test_training_mode_draws_the_same_dropout() -> None:
    model = nn.TransformerEncoderLayer(W, H, 8, dropout=0.4, batch_first=True)
    x = torch.randn(B, L, W)
    torch.manual_seed(3)
    plain = model(x)
    torch.manual_seed(3)
    with regard.watch(model) as seen:
        watched = model(x)
    assert torch.equal(plain, watched)
    assert not [found for found in seen.findings() if found.severity != "note"]


def test_a_compiled_module_runs_as_written_and_it_is_said() -> None:
    model = Stack(WAYS["sdpa"]).eval()
    compiled = torch.compile(model, backend="eager")
    x = torch.randn(B, L, W)
    with torch.no_grad():
        plain = compiled(x, causal())
        with regard.watch(compiled) as seen:
            watched = compiled(x, causal())
        assert torch.equal(plain, watched)
        assert torch.equal(plain, compiled(x, causal()))
    assert len(seen.compute()) == 2 * H
    assert "PTH002" in [found.code for found in seen.findings()]
    torch._dynamo.reset()


def test_flex_attention_is_seen_with_its_mask_and_score_change() -> None:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q, k, v = (torch.randn(1, 2, 128, 16) for _ in range(3))
    slope = torch.tensor([0.1, 0.4])
    block = create_block_mask(lambda b, h, i, j: j <= i, None, None, 128, 128, device="cpu")
    with regard.watch(None) as seen, torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says once a process that it was not compiled
        flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s - slope[h] * (i - j), block_mask=block)
    assert not seen.untested
    bias = -slope.view(2, 1, 1) * (torch.arange(128)[:, None] - torch.arange(128))
    scores = (q @ k.mT / 4 + bias).double().masked_fill(~causal(128), -torch.inf)
    w = scores.softmax(-1)
    assert [head.peak for head in seen.compute()] == pytest.approx(w.amax(-1).mean((0, 2)).tolist(), abs=1e-5)


def test_groups_must_be_booleans() -> None:
    with pytest.raises(RegardError, match=r"groups\['x'\]: found \(3,\) of torch.int64"):
        regard.watch(None, groups={"x": torch.tensor([1, 0, 1])})


def test_what_cannot_be_measured_is_said_and_the_model_runs_on() -> None:
    q = torch.randn(1, 2, 5, 4, device="meta")
    with regard.watch(None) as seen:
        out = F.scaled_dot_product_attention(q, q, q)
    assert out.shape == q.shape
    assert seen.untested
    assert len(seen.compute()) == 0
