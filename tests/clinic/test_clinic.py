"""Every sick model gets its finding at its module, and no healthy one gets any above a note."""

from __future__ import annotations

import importlib
from collections.abc import Hashable, Iterator
from pathlib import Path

import pytest

import regard
from regard.doctor.catalogue import CATALOGUE, FAMILIES
from regard.doctor.report import Report
from tests.clinic.case import Case

WARDS = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("test_"))


def cases() -> Iterator[tuple[str, Case]]:
    for ward in WARDS:
        for one in vars(importlib.import_module(f"tests.clinic.{ward}")).values():
            if isinstance(one, Case):
                yield ward, one


CASES = list(cases())
everyone = pytest.mark.parametrize("case", [pytest.param(one, id=f"{ward}: {one.name}") for ward, one in CASES])


def examined(case: Case, sick: bool) -> Report:
    return regard.check(case.build(sick), case.batch(sick), **case.options)


def likeness(case: Case) -> Hashable:
    """Equal for twins that are the same model on the same batch, as many are."""
    twin = case.build(False)
    parts = tuple((type(part).__module__, type(part).__qualname__) for part in twin.modules())
    weights = tuple(float(weight.detach().double().sum()) for weight in twin.parameters())
    batch = tuple((name, str(tensor.tolist())) for name, tensor in case.batch(False).items())
    return parts, weights, str(getattr(twin, "config", "")), batch, str(case.options)


@everyone
def test_the_fault_is_named_where_it_is(case: Case) -> None:
    found = examined(case, sick=True).findings
    assert (case.code, case.module) in {(one.code, one.module) for one in found}
    beside = {one.code for one in found if one.severity != "note"} - {case.code}
    assert beside <= case.also


KNOWN: dict[Hashable, Report] = {}


@everyone
def test_the_healthy_twin_is_left_alone(case: Case) -> None:
    key = likeness(case)
    report = KNOWN[key] if key in KNOWN else KNOWN.setdefault(key, examined(case, sick=False))
    assert [(one.code, one.module, one.message) for one in report.findings if one.severity != "note"] == []
    assert case.code not in {one.code for one in report.findings}
    assert report.passed


def test_every_code_that_fails_a_check_has_a_patient() -> None:
    serious = {code for code, entry in CATALOGUE.items() if entry.severity != "note"}
    assert serious <= {case.code for _, case in CASES}
    assert {case.code[:3] for _, case in CASES} == set(FAMILIES)
    assert len(CASES) >= 40
