"""The trade-off: what is asked is what was told, drivers address as they say, and each figure is of what it names."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks import tradeoff
from benchmarks.harness import timing
from benchmarks.harness.panels import draw_panels
from benchmarks.harness.row import Line, Row, Spot
from benchmarks.harness.setting import Setting
from benchmarks.tradeoff import expense, generating, peers, whole
from benchmarks.tradeoff.drivers import Computer, Driver, Turing
from benchmarks.tradeoff.recall import by_age, by_load
from benchmarks.tradeoff.subjects import SUBJECTS, D, Subject
from regard.memory.differentiable import DifferentiableComputer
from regard.memory.turing import TuringMemory

QUICK = Setting(rounds=1, quick=True)
EXACT = ("KVCache", "StaticCache", "PagedCache", "8-bit KVCache", "SlidingCache", "SinkCache", "TuringMemory")
NAMES = [subject.name for subject in SUBJECTS]


@dataclass(frozen=True)
class Last(Driver):
    """The last ``kept`` pairs in a table, scaled by ``settings``: only its second setting reads at all."""

    kept: int
    settings: tuple[float, ...] = (0.0, 1.0)

    def start(self, batch: int) -> Any:
        return None

    def tell(self, state: Any, k: Tensor, v: Tensor, setting: float) -> Any:
        return k[:, :, -self.kept :], v[:, :, -self.kept :]

    def ask(self, state: Any, q: Tensor, setting: float) -> Tensor:
        k, v = state
        found: Tensor = setting * ((q @ k.mT > 0.999).float() @ v)
        return found

    def decode(self, state: Any, q: Tensor, k: Tensor, v: Tensor) -> Any:
        raise AssertionError("recall is measured by what is told and asked; nothing decodes")


@pytest.fixture(autouse=True)
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call is timed by itself, however short."""
    monkeypatch.setattr(timing, "MOST", 1)
    monkeypatch.setattr(gc, "collect", lambda: 0)


def last(kept: int) -> Subject:
    return Subject("pairs", "last", "", lambda heads, room: Last(kept), batch=2)


def pairs(n: int, batch: int = 2, heads: int = 1) -> tuple[Tensor, Tensor]:
    return F.normalize(torch.randn(batch, heads, n, D), dim=-1), torch.randn(batch, heads, n, D)


def test_age_is_counted_from_the_last_pair() -> None:
    """What keeps 20 pairs recalls ages to 20: neighbours of 12 are at most 12, those of 48 at least 45."""
    found = dict(by_age(last(20), 100, [1, 3, 12, 20, 21, 48, 96], (0, 1)))
    assert [found[age] for age in (1, 3, 12)] == [1, 1, 1]
    assert found[20] == pytest.approx(2 / 3, abs=0.02), "19 and 20 of 19, 20, 21"
    assert found[21] == pytest.approx(1 / 3, abs=0.02)
    assert max(found[48], found[96]) < 0.15


def test_load_is_all_that_was_told() -> None:
    found = dict(by_load(last(16), [4, 16, 32, 64], (0, 1)))
    assert (found[4], found[16]) == (1, 1)
    assert found[32] == pytest.approx(1 / 2, abs=0.05)
    assert found[64] == pytest.approx(1 / 4, abs=0.05)


def test_a_memory_of_nothing_is_at_chance() -> None:
    nothing = Subject("pairs", "nothing", "", lambda heads, room: Last(4, settings=(0.0,)), batch=8)
    assert all(share < 0.05 for _, share in by_load(nothing, [4, 64], (0, 1)))


@pytest.mark.parametrize("name", NAMES)
def test_every_memory_answers_for_few_pairs(name: str) -> None:
    subject = next(each for each in SUBJECTS if each.name == name)
    assert dict(by_load(replace(subject, batch=2), [3], (0,)))[3] == 1


@pytest.mark.parametrize("name", EXACT)
def test_what_keeps_pairs_gives_them_back(name: str) -> None:
    driver = next(each for each in SUBJECTS if each.name == name).make(2, 64)
    k, v = pairs(11, heads=2)
    read = driver.ask(driver.tell(driver.start(2), k, v, 1.0), k, 1.0)
    assert float((read - v).abs().max()) < (0.05 if name.startswith("8-bit") else 1e-3)


def slots(kind: str, count: int, heads: int) -> Driver:
    sizes = count, 2 * heads * D
    return Turing(TuringMemory(*sizes)) if kind == "turing" else Computer(DifferentiableComputer(*sizes))


@pytest.mark.parametrize("kind", ["turing", "computer"])
def test_slots_are_written_over_oldest_first(kind: str) -> None:
    driver = slots(kind, 7, 1)
    k, v = pairs(17)
    state = driver.start(2)
    for part in (slice(0, 7), slice(7, 8), slice(8, 17)) if kind == "turing" else (slice(0, 17),):
        state = driver.tell(state, k[:, :, part], v[:, :, part], 1.0)
    off = (driver.ask(state, k, 1.0) - v).abs().amax((0, 1, 3))
    assert float(off[10:].max()) < 1e-3
    assert float(off[:10].min()) > 0.5


@pytest.mark.parametrize("kind", ["turing", "computer"])
def test_heads_of_keys_are_one_row(kind: str) -> None:
    driver = slots(kind, 7, 3)
    k, v = pairs(5, heads=3)
    assert float((driver.ask(driver.tell(driver.start(2), k, v, 1.0), k, 1.0) - v).abs().max()) < 1e-3


def test_asking_leaves_the_state() -> None:
    for subject in SUBJECTS:
        driver = subject.make(1, 16)
        k, v = pairs(5)
        state = driver.tell(driver.start(2), k, v, driver.settings[0])
        first = driver.ask(state, k, driver.settings[0])
        assert torch.equal(first, driver.ask(state, k, driver.settings[0])), subject.name


def test_expense_is_of_what_was_told() -> None:
    """Pairs take 2 · 8 · 64 · 4 bytes each; what is a sum or a slot takes the same at any length."""
    found = [each for each in expense.spent(QUICK, [16, 64]) if isinstance(each, Spot)]
    kept = {(spot.series, spot.x): spot.y * 2**20 for spot in found if spot.panel == expense.KEPT}
    for name in NAMES:
        assert (name, 16) in kept, name
        assert (name, 64) in kept, name
        if name in ("KVCache", "PagedCache"):
            assert kept[name, 64] >= 64 * 4096
        if next(each.kind for each in SUBJECTS if each.name == name) != "pairs":
            assert kept[name, 16] == kept[name, 64]
    assert kept["8-bit KVCache", 64] < 0.4 * kept["KVCache", 64]
    assert all(spot.y > 0 for spot in found)
    assert {spot.series for spot in found if spot.peer} <= set(peers.PEERS)


def test_a_peer_that_is_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("fla.ops.linear_attn.naive", "fla.ops.delta_rule.naive", "mambapy.mamba", "performer_pytorch"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(expense, "SUBJECTS", SUBJECTS[:1])
    lines = [each for each in expense.spent(QUICK, [16]) if isinstance(each, Line)]
    said = {line.cells["memory"]: line.cells["what it keeps"] for line in lines}
    assert said["FLA naive delta rule"] == "fla: not installed; pip install 'regard[bench]'"
    assert said["mambapy ssm_step"] == "mambapy: not installed; pip install 'regard[bench]'"
    rows = list(whole.at_once(QUICK))
    assert [row.problem.partition(":")[0] for row in rows] == ["fla", "performer-pytorch", "fla", "mambapy"]
    assert all(row.ours is not None for row in rows)


def test_what_computes_the_same_agrees() -> None:
    """Linear attention, the delta rule and the scan equal the peers' own, where those are there."""
    for row in whole.at_once(QUICK):
        assert not row.problem or "not installed" in row.problem, row.problem


def test_a_memory_that_fails_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(heads: int, room: int) -> Driver:
        raise ValueError("no room")

    for module in (tradeoff, expense):
        monkeypatch.setattr(module, "SUBJECTS", (Subject("pairs", "broken", "", broken), last(2)))
    monkeypatch.setattr(expense, "PEERS", {})
    monkeypatch.setattr(tradeoff, "at_once", lambda setting: iter(()))
    monkeypatch.setattr(tradeoff, "generated", lambda setting: iter(()))
    found = list(tradeoff.rows(QUICK))
    assert [each.problem for each in found if isinstance(each, Row)] == ["broken failed: ValueError: no room"] * 2
    assert {each.series for each in found if isinstance(each, Spot)} == {"last"}


def test_generate_is_timed_with_each_cache() -> None:
    pytest.importorskip("transformers")
    lines = list(generating.generated(QUICK))
    assert [line.cells["cache"] for line in lines] == ["HF DynamicCache", "HF StaticCache", "regard KVCache"]
    assert all("ms a token" in line.cells for line in lines)


def test_panels_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.figure import Figure

    seen: list[Figure] = []
    save: Callable[..., None] = Figure.savefig

    def saved(figure: Figure, *given: Any, **named: Any) -> None:
        seen.append(figure)
        save(figure, *given, **named)

    monkeypatch.setattr(Figure, "savefig", saved)
    spots = [
        Spot(panel, series, x, y, ("tokens", panel), panel == "b", series == "theirs", by_powers=panel != "c")
        for panel in "abc"
        for series, y in (("ours", 1.0), ("theirs", 2.0))
        for x in (1024.0, 512.0)
    ]
    draw_panels(spots, tmp_path / "found.svg")
    assert (tmp_path / "found.svg").stat().st_size > 0
    plots = seen[0].axes
    assert [plot.get_title() for plot in plots if plot.get_visible()] == ["a", "b", "c"]
    assert [plot.get_yscale() for plot in plots[:3]] == ["linear", "log", "linear"]
    assert [plot.get_xscale() for plot in plots[:3]] == ["log", "log", "linear"]
    assert [line.get_linestyle() for line in plots[0].lines] == ["-", "--"]
    assert torch.as_tensor(plots[0].lines[0].get_xdata()).tolist() == [512, 1024]
