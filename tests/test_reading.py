"""Reading: what it measures, how it merges, how it draws itself."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard import Reading, RegardError, mask
from regard.normalize import Softmax

F64 = torch.float64


def tensors(*shapes: tuple[int, ...]) -> list[Tensor]:
    return [torch.randn(*shape, dtype=F64) for shape in shapes]


def measured(engine: str = "reference", **more: Any) -> Reading:
    q, k, v = tensors((2, 6, 5, 11), (2, 3, 7, 11), (2, 3, 7, 13))
    return regard.read(q, k, v, engine=engine, **({"groups": {"first": torch.arange(7) == 0}} | more))


def test_evenness_is_entropy_as_a_share_of_the_keys_that_may_be_seen() -> None:
    x = torch.zeros(1, 1, 5, 3, dtype=F64)
    r = regard.read(x, x, x, mask=mask.causal())
    assert r.entropy is not None
    assert r.entropy[0, 0].tolist() == pytest.approx([math.log(n) for n in range(1, 6)])
    assert r.evenness[0, 0].tolist() == pytest.approx([0.0, 1.0, 1.0, 1.0, 1.0])  # one key alone is no spread
    with pytest.raises(
        RegardError, match=r'evenness: this reading has no entropy; read\(…, telemetry=\("entropy",\)\)'
    ):
        _ = regard.read(x, x, x, telemetry=False).evenness


@pytest.mark.parametrize("engine", ["reference", "sdpa"])
def test_only_what_was_asked_for_is_measured(engine: str) -> None:
    fields = {"entropy", "bound", "peak", "distance", "spread"}
    for name in fields:
        r = measured(engine, telemetry=name, groups=None)
        assert getattr(r, name) is not None
        for other in fields - {name}:
            if other not in {"bound": {"peak"}, "peak": {"bound"}, "spread": {"peak"}}.get(name, set()):
                assert getattr(r, other) is None, (name, other)
    silent = measured(engine, telemetry=False, groups=None)
    assert all(getattr(silent, name) is None for name in fields)
    assert silent.mass == {}
    assert measured(engine, telemetry=["entropy", "spread"]).spread is not None


@pytest.mark.parametrize("engine", ["reference", "sdpa"])
def test_mass_adds_up_over_groups_that_share_out_the_keys(engine: str) -> None:
    q, k, v = tensors((2, 6, 5, 11), (2, 3, 7, 11), (2, 3, 7, 13))
    start = torch.arange(7) < 2
    r = regard.read(q, k, v, engine=engine, groups={"start": start, "rest": ~start}, mask=mask.causal("end"))
    assert (r.mass["start"] + r.mass["rest"] - 1).abs().max() < 1e-12


@pytest.mark.parametrize("engine", ["reference", "sdpa"])
def test_weight_on_padding_is_exactly_0(engine: str) -> None:
    q, k, v = tensors((2, 6, 5, 11), (2, 3, 7, 11), (2, 3, 7, 13))
    pads = torch.tensor([[False] * 4 + [True] * 3, [False] * 7])
    r = regard.read(q, k, v, engine=engine, mask=mask.dense(~pads[:, None, None]), groups={"padding": pads})
    assert (r.mass["padding"] == 0).all()


def test_a_group_that_does_not_fit_is_refused_by_name() -> None:
    q = torch.zeros(2, 1, 3, 4)
    for group, words in (
        (
            torch.ones(5, dtype=torch.bool),
            r"groups\['g'\]: found \(5,\) of torch.bool, wanted a mask, or booleans .*S = 3",
        ),
        (torch.ones(3), r"found \(3,\) of torch.float32"),
        ("first", "found str, wanted a mask"),
    ):
        strange: Any = group
        with pytest.raises(RegardError, match=words):
            regard.read(q, q, q, groups={"g": strange})


def test_unknown_telemetry_lists_what_there_is() -> None:
    q = torch.zeros(2, 1, 3, 4)
    with pytest.raises(RegardError, match=r"telemetry: unknown name 'entropi'; did you mean 'entropy'\? Known: bound"):
        regard.read(q, q, q, telemetry=["entropi"])


@pytest.mark.parametrize("lead", [(), (6,), (2, 6), (3, 2, 6), (1, 3, 2, 6)])
@pytest.mark.parametrize("engine", ["reference", "sdpa"])
def test_everything_comes_back_with_the_leading_axes_that_were_given(lead: tuple[int, ...], engine: str) -> None:
    keys = (*lead[:-1], 3) if lead else ()
    q, k, v = tensors((*lead, 5, 11), (*keys, 7, 11), (*keys, 7, 13))
    r = regard.read(
        q,
        k,
        v,
        engine=engine,
        telemetry=["entropy", "peak", "distance", "spread", "bound"],
        groups={"first": torch.arange(7) == 0},
    )
    assert r.output.shape == (*lead, 5, 13)
    for name in ("lse", "seen", "entropy", "peak", "peak_at", "bound", "distance"):
        assert getattr(r, name).shape == (*lead, 5), name
    assert r.mass["first"].shape == (*lead, 5)
    assert r.spread is not None
    assert r.spread.shape == lead
    assert "head" in repr(r)


def test_leading_axes_that_a_memory_lacks_are_shared_by_the_batch() -> None:
    q, k, v = tensors((3, 2, 6, 5, 11), (3, 7, 11), (1, 3, 7, 13))
    whole = regard.attend(q, k.expand(3, 2, 3, 7, 11), v.expand(3, 2, 3, 7, 13))
    assert torch.equal(regard.attend(q, k, v), whole)


def test_a_sink_leaves_room_in_the_merged_reading_too() -> None:
    q, k, v = tensors((1, 2, 5, 11), (1, 2, 7, 11), (1, 2, 7, 13))
    part = Softmax(sink=torch.tensor([0.5, 2.0]))
    whole = regard.read(q, k, v, normalize=part)
    merged = Reading.merge(*(regard.read(q, k[:, :, s], v[:, :, s], normalize=part) for s in (slice(3), slice(3, 7))))
    assert (merged.output - whole.output).abs().max() < 1e-7
    assert merged.sink is not None
    again = Reading.merge(merged, regard.read(q, k[:, :, :0], v[:, :, :0], normalize=part))
    assert (again.output - whole.output).abs().max() < 1e-7


def test_merging_nothing_or_other_queries_is_refused() -> None:
    with pytest.raises(RegardError, match="merge: no readings given"):
        Reading.merge()
    q, k = torch.zeros(1, 1, 3, 4), torch.zeros(1, 1, 5, 4)
    with pytest.raises(RegardError, match=r"outputs are \(1, 1, 2, 4\) and \(1, 1, 3, 4\), wanted the same queries"):
        Reading.merge(regard.read(q, k, k), regard.read(q[:, :, :2], k, k))


def test_a_statistic_that_one_part_lacks_is_not_made_up() -> None:
    q, k = torch.randn(1, 1, 3, 4), torch.randn(1, 1, 5, 4)
    with_entropy, without = (regard.read(q, k, k, telemetry=t) for t in ("entropy", False))
    merged = Reading.merge(with_entropy, without)
    assert merged.entropy is None
    assert merged.distance is None
    assert merged.engine == "sdpa"
    mixed = Reading.merge(regard.read(q, k, k, engine="reference"), regard.read(q, k, k, engine="sdpa"))
    assert mixed.engine == "reference+sdpa"


def test_scores_far_apart_merge_without_overflow() -> None:
    q, v = torch.ones(1, 1, 1, 1, dtype=F64), torch.tensor([[[[1.0], [2.0], [3.0]]]], dtype=F64)
    k = torch.tensor([[[[-2000.0], [2000.0], [1999.0]]]], dtype=F64)
    parts = [regard.read(q, k[:, :, [j]], v[:, :, [j]], score="dot") for j in range(3)]
    merged = Reading.merge(*parts)
    assert merged.output.item() == pytest.approx((2 + 3 * math.exp(-1)) / (1 + math.exp(-1)), rel=1e-6)
    assert merged.lse.item() == pytest.approx(2000 + math.log(1 + math.exp(-1)))


@pytest.mark.parametrize("engine", ["reference", "sdpa"])
def test_a_reading_becomes_plain_numbers_and_draws_itself(engine: str) -> None:
    from rich.console import Console

    r = measured(engine)
    plain = r.to_dict()
    assert json.loads(json.dumps(plain))["engine"] == engine
    assert r.entropy is not None
    assert plain["entropy"] == r.entropy.tolist()
    assert plain["mass"]["first"] == r.mass["first"].tolist()
    assert "output" not in plain
    rows = r.by_head()
    assert len(rows) == 6
    assert rows[2]["entropy"] == pytest.approx(r.entropy[:, 2].mean().item())
    assert rows[5]["mass first"] == pytest.approx(r.mass["first"][:, 5].mean().item())
    console = Console(width=120, record=True, file=None, quiet=False, force_terminal=False)
    with console.capture() as captured:
        console.print(r)
    for text in (captured.get(), repr(r), r._repr_html_()):
        assert "mass first" in text
        assert f"{rows[3]['entropy']:.3f}" in text
        assert "Weight is not explanation" in " ".join(text.split())


def test_means_by_head_leave_out_queries_that_see_nothing() -> None:
    q = torch.zeros(2, 1, 3, 4)
    r = regard.read(q, q, q, mask=mask.padding([0, 3]))
    assert r.by_head()[0]["entropy"] == pytest.approx(math.log(3), abs=1e-6)
    assert r.by_head()[0]["of log n"] == pytest.approx(1.0, abs=1e-6)
