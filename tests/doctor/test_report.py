"""A report sorts, counts, accepts, and comes back from JSON as it went."""

from __future__ import annotations

import json
import math

import pytest

import regard
from regard.doctor import Fact, Finding, Passed, Report, Untested
from regard.doctor.finding import Observation

ERROR = Finding("CAU001", "token 9 moves the output at 4 by 0.31", "layers.10.attn", "toy.py:41", {"moved": 0.31})
WARNING = Finding("SCL001", "scores spread by 8.1", "layers.2.attn")
NOTE = Finding("POS001", "left padding moves 4 of 5 outputs", evidence={"moved": math.nan})
PASSED = Passed("future", "cut at 3", {"moved": 0.0})
UNTESTED = Untested("cache", "the model takes no cache")


def test_findings_come_worst_first_and_places_as_they_ran() -> None:
    later = Finding("CAU001", "again", "layers.2.attn")
    report = Report.of("toy", [NOTE, PASSED, WARNING, ERROR, later, UNTESTED, Fact("causal", "yes")])
    assert report.findings == [ERROR, later, WARNING, NOTE]  # by name, layers.10 would stand before layers.2 anyway
    assert (report.facts, report.passed, report.untested) == ([Fact("causal", "yes")], [PASSED], [UNTESTED])
    swapped = Report.of("toy", [later, ERROR])
    assert swapped.findings == [later, ERROR]


@pytest.mark.parametrize(
    ("observed", "status"),
    [
        ([PASSED], 0),
        ([PASSED, NOTE, UNTESTED], 0),
        ([NOTE], 0),
        ([PASSED, WARNING], 1),
        ([ERROR], 1),
        ([], 2),
        ([UNTESTED, Fact("causal", "yes")], 2),
    ],
)
def test_the_exit_status_is_0_clean_1_found_2_nothing_ran(observed: list[Observation], status: int) -> None:
    report = Report.of("toy", observed)
    assert report.exit_status == status
    assert report.clean == (status != 1)


def test_an_accepted_finding_is_a_note_that_says_so_and_all_else_stays() -> None:
    report = Report.of("toy", [WARNING, NOTE], 2.5, "toy.py:1").accepting(["SCL001", "POS001", "CAU001"])
    assert [(one.code, one.severity) for one in report.findings] == [("POS001", "note"), ("SCL001", "note")]
    assert report.findings[1].message == f"accepted (warning): {WARNING.message}"
    assert report.findings[0] == NOTE
    assert (report.seconds, report.source, report.exit_status) == (2.5, "toy.py:1", 0)
    with pytest.raises(regard.RegardError, match="unknown name 'SCL01'; did you mean 'SCL001'"):
        report.accepting(["SCL01"])


def test_a_report_comes_back_from_json() -> None:
    report = Report.of("toy", [ERROR, NOTE, PASSED, UNTESTED, Fact("causal", "yes")], 1.25, "toy.py:3")
    there = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert (there["clean"], there["exit_status"], there["findings"][1]["evidence"]) == (False, 1, {"moved": "nan"})
    back = Report.from_dict(there)
    assert back.to_dict() == report.to_dict()
    assert back.findings[0] == ERROR
