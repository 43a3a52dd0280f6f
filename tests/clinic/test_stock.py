"""What people download: nothing above a note on any architecture, but for faults that are there."""

from __future__ import annotations

import pytest

from regard.doctor.check import check
from tests.clinic.case import padded
from tests.clinic.stock import STOCK, Stock


@pytest.mark.parametrize("stock", [pytest.param(stock, id=name) for name, stock in STOCK.items()])
def test_a_stock_model_is_left_alone(stock: Stock) -> None:
    model = stock.build()
    batch = padded(29, 13, 19, pad=getattr(model.config, "pad_token_id", None) or 0)
    report = check(model, batch, causal=stock.causal)
    serious = {(one.code, one.module) for one in report.findings if one.severity != "note"}
    assert serious == stock.faults
    assert len(report.passed) >= 15
    notes = {one.code for one in report.findings if one.severity == "note"}
    assert {code for code in notes if code.startswith("POS")} == {stock.note} - {""}


def test_many_kinds_of_attention_are_tried() -> None:
    assert len({stock.family for stock in STOCK.values()}) >= 12
