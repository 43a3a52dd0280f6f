"""The table of heads: what it holds, how it sorts, how it prints; and the memory that making it takes."""

from __future__ import annotations

import json
import math
import pickle
from io import StringIO
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import regard
from regard.doctor.watch import Head, Heads
from tests.doctor.watch import models
from tests.doctor.watch.models import B, H, L, Stack, W, causal


def heads() -> Heads:
    model = Stack(models.sdpa).eval()
    with torch.no_grad():
        model.get_parameter("layers.1.q.weight")[: models.D] *= 100  # a head of one-hot rows
        with regard.watch(model) as seen:
            model(torch.randn(B, L, W), causal())
    return seen.compute()


def test_it_is_a_sequence_with_the_worst_first_on_demand() -> None:
    table = heads()
    assert len(table) == 2 * H
    assert isinstance(table[0], Head)
    assert [row.head for row in table] == [0, 1, 2] * 2
    assert (table.worst()[0].module, table.worst()[0].head) == ("layers.1", 0)
    assert table.worst()[0].saturated > 0.5
    concerns = [row.concern for row in table.worst()]
    assert concerns == sorted(concerns, reverse=True)


def test_it_becomes_json() -> None:
    table = heads()
    again = json.loads(json.dumps(table.to_dict()))
    assert again["groups"] == ["first", "self", "previous"]
    assert [row["module"] for row in again["heads"]] == [row.module for row in table]
    assert again["heads"][0]["mass"]["first"] == table[0].mass["first"]


def test_it_prints_a_line_a_head_and_a_sparkline_a_layer() -> None:
    pytest.importorskip("rich")
    from rich.console import Console

    table = heads()
    console = Console(width=80, file=StringIO())
    console.print(table)
    assert isinstance(console.file, StringIO)
    text = console.file.getvalue()
    assert text.index("layers.1") < text.index("layers.0")
    for module, line in table.sparklines().items():
        assert len(line) == H
        assert f"{module}  {line}" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "layers.1" in str(table)
    assert "<td>layers.1</td>" in table._repr_html_()


def test_rows_of_one_key_choose_nothing_and_are_not_saturated() -> None:
    q = torch.randn(1, 2, 1, 4)
    with regard.watch(None) as seen:
        F.scaled_dot_product_attention(q, q, q)
    row = seen.compute()[0]
    assert math.isnan(row.entropy)
    assert math.isnan(row.saturated)
    assert row.peak == pytest.approx(1.0)
    assert row.concern <= 0.5
    assert "—" in str(seen.compute())


class Largest(TorchDispatchMode):
    """Remembers the most numbers that any operation gave out."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.numel, self.by = 0, ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = func(*args, **(kwargs or {}))
        for x in given if isinstance(given, tuple | list) else (given,):
            if isinstance(x, Tensor) and x.numel() > self.numel:
                self.numel, self.by = x.numel(), str(func)
        return given


@pytest.mark.parametrize("way", ["sdpa", "tiled"])
def test_watching_never_holds_a_number_for_every_pair(way: str) -> None:
    long = 3001

    class Long(nn.Module):
        def forward(self, q: Tensor) -> Tensor:
            if way == "sdpa":
                return F.scaled_dot_product_attention(q, q, q, is_causal=True)
            return regard.attend(q, q, q, mask=regard.mask.causal(), engine="tiled")

    model, q = Long(), torch.randn(1, 2, long, 8)
    with torch.no_grad(), Largest() as largest, regard.watch(model) as seen:
        model(q)
    assert len(seen.compute()) == 2
    assert largest.numel < long * long // 8, largest.by


def test_what_is_kept_does_not_grow_with_the_batches() -> None:
    model = Stack(models.sdpa).eval()
    sizes = []
    with torch.no_grad(), regard.watch(model) as seen:
        for _ in range(4):
            model(torch.randn(B, L, W), causal())
            sizes.append(len(pickle.dumps(seen)))
    assert max(sizes) - min(sizes) < 64  # the counts themselves
