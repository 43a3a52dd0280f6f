"""What a report looks like in a terminal, on a page and in SARIF; nothing in it can escape from its place."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from regard.doctor import Fact, Finding, Passed, Report, Untested
from regard.doctor.catalogue import CATALOGUE
from regard.doctor.formats import page, sarif
from regard.doctor.formats.place import Place, place
from regard.doctor.formats.words import safe

EVIL = '<script>alert("&")</script>\x1b[31m\n\u202ereversed [bold]markup[/bold] {brace} \ud800'


def sick() -> Report:
    return Report.of(
        "Decoder",
        [
            Finding("CAU001", "token 9 moves the output at 4 by 0.31", "layers.3.attn", str(Path.cwd() / "toy.py:41")),
            *(Finding("HED003", f"head {h}: 0.9 on the first token", f"layers.{h // 4}") for h in range(11)),
            Finding("SCL001", "scores spread by 8.1", "layers.0.attn", evidence={"spread": 8.1, "worst": float("inf")}),
            Fact("causal", "yes"),
            Passed("padding content", "right"),
            Passed("determinism", "two runs"),
            Passed("padding content", "left"),
            Untested("cache", "the model takes no cache"),
        ],
        3.42,
        str(Path.cwd() / "toy.py:7"),
    )


def evil() -> Report:
    found = Finding("NUM001", EVIL, EVIL, f"{EVIL}:3", {EVIL: EVIL}, fix=EVIL)
    return Report.of(EVIL, [found, Fact(EVIL, EVIL), Passed(EVIL, EVIL, {EVIL: EVIL}), Untested(EVIL, EVIL)])


def test_the_terminal_says_all_of_it_in_order() -> None:
    text = str(sick())
    order = [
        "Decoder",
        "error     CAU001  Later tokens reach earlier outputs",
        "layers.3.attn (toy.py:41)",
        "token 9 moves the output at 4 by 0.31",
        "fix: Apply the causal mask",
        "warning   SCL001",
        "note      HED003",
        "head 0:",
        "and 10 more, in layers.0, layers.1, layers.2",
        "facts     causal: yes",
        "passed    padding content (2), determinism (1)",
        "untested  cache: the model takes no cache",
        "1 error, 1 warning, 11 notes; 3 checks passed; 1 could not be tested; 3.4 s",
    ]
    at = [text.index(part) for part in order]
    assert at == sorted(at)
    assert "head 1:" not in text


def test_probes_that_could_not_look_for_one_reason_are_told_together() -> None:
    why = "the model takes no cache"
    report = Report.of("m", [Untested("cache", why), Untested("future", "no places"), Untested("window", why)])
    assert f"untested  cache, window: {why}" in str(report)
    assert "          future: no places" in str(report)
    assert "3 could not be tested" in str(report)
    assert '<dt class="untested">' in report.to_html()
    assert report.to_html().count(why) == 1
    assert [one["probe"] for one in report.to_dict()["untested"]] == ["cache", "future", "window"]


def test_a_few_places_of_a_code_are_shown_in_full_and_many_as_one_block() -> None:
    few = Report.of("m", [Finding("SCL001", f"spread {n}", f"layers.{n}") for n in range(3)])
    assert "more, in" not in str(few)
    assert str(few).count("fix:") == 1
    many = Report.of("m", [Finding("SCL001", f"spread {n}", f"layers.{n}") for n in range(12)])
    assert "and 11 more, in layers.1, layers.2, " in str(many)
    assert "layers.8, …" in str(many)
    assert len(many.to_dict()["findings"]) == len(many.to_sarif()["runs"][0]["results"]) == 12
    assert all(f"spread {n}<" in many.to_html() for n in range(12))


def test_what_could_not_be_tested_is_never_among_what_passed() -> None:
    alone = Report.of("Model", [Untested("cache", "the model takes no cache")])
    text = str(alone)
    assert "passed" not in text.replace("0 checks passed", "")
    assert "nothing could be tested; 0 checks passed; 1 could not be tested" in text
    assert ">Passed<" not in alone.to_html()
    assert alone.to_sarif()["runs"][0]["invocations"][0]["executionSuccessful"] is False


@pytest.mark.parametrize("width", [40, 80, 137])
def test_no_line_is_wider_than_the_console(width: int) -> None:
    console = Console(width=width, record=True, file=None, force_terminal=False)
    with console.capture() as capture:
        console.print(sick())
    lines = capture.get().splitlines()
    assert max(cell_len(line) for line in lines) <= width
    assert [line.rstrip() for line in lines] == "\n".join(map(str.rstrip, lines)).splitlines()
    assert "CAU001" in capture.get()


def test_plain_and_rich_print_the_same_words() -> None:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(sick())
    assert capture.get().split() == str(sick()).split()


def test_nothing_in_a_report_commands_the_terminal() -> None:
    console = Console(width=200, force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(evil())
    for text in (str(evil()), capture.get()):
        text.encode()  # no half of a surrogate pair
        assert "\u202e" not in text
        assert "\x1b[31m" not in text
        assert "[bold]markup[/bold]" in text  # shown, not obeyed


class Tags(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))


@pytest.mark.parametrize("report", [sick(), evil(), Report("nothing")], ids=["sick", "evil", "nothing"])
def test_the_page_needs_no_network_and_runs_nothing(report: Report) -> None:
    html = report.to_html()
    html.encode()
    tags = Tags()
    tags.feed(html)
    names = {name for name, _ in tags.found}
    assert not names & {"script", "link", "img", "iframe", "a", "object", "form", "base"}
    assert {key for _, attributes in tags.found for key in attributes} <= {
        "lang", "charset", "name", "content", "class", "scope",
    }  # fmt: skip
    assert not re.search(r"https?:|url\(|@import", html)
    assert "prefers-color-scheme:dark" in html
    assert "@media print" in html


def test_the_page_holds_every_finding_and_its_evidence() -> None:
    html = sick().to_html()
    assert '<dt class="">padding content</dt><dd>right; left</dd>' in html
    for words in ["CAU001", "layers.3.attn · toy.py:41", "head 10: 0.9", "inf", "padding content", "takes no cache"]:
        assert words in html
    assert "Could not be tested" in html
    notebook = sick()._repr_html_()
    assert "body{" not in notebook
    assert "<html" not in notebook
    assert page.document([sick(), evil()]).count("<section") == 2


def checked(log: dict[str, Any]) -> dict[str, Any]:
    """The one run of a log, after what the SARIF 2.1.0 schema requires was seen to be there."""
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "regard"
    for rule in driver["rules"]:
        assert rule["id"] in CATALOGUE
        assert rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error")
        assert rule["shortDescription"]["text"]
        assert rule["help"]["text"]
    assert len({rule["id"] for rule in driver["rules"]}) == len(driver["rules"])
    for result in run["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("none", "note", "warning", "error")
        assert result["message"]["text"]
        for location in result["locations"]:
            assert location["logicalLocations"][0]["fullyQualifiedName"]
            physical = location.get("physicalLocation")
            if physical is not None:
                assert re.fullmatch(r"[A-Za-z0-9_.~/:%-]+", physical["artifactLocation"]["uri"])  # a URI reference
                assert physical.get("region", {"startLine": 1})["startLine"] >= 1
    for invocation in run["invocations"]:
        assert isinstance(invocation["executionSuccessful"], bool)
        assert all(note["message"]["text"] for note in invocation["toolExecutionNotifications"])
    found: dict[str, Any] = run
    return found


def test_sarif_has_a_rule_a_result_and_a_place_for_every_finding() -> None:
    run = checked(sick().to_sarif())
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["CAU001", "SCL001", "HED003"]
    first, second = run["results"][:2]
    assert (first["ruleId"], first["level"]) == ("CAU001", "error")
    assert first["message"]["text"].startswith("layers.3.attn: token 9 moves the output at 4 by 0.31. Apply the")
    assert first["locations"] == [
        {
            "logicalLocations": [{"fullyQualifiedName": "Decoder.layers.3.attn", "kind": "object"}],
            "physicalLocation": {
                "artifactLocation": {"uri": "toy.py", "uriBaseId": "%SRCROOT%"},
                "region": {"startLine": 41},
            },
        }
    ]
    assert second["locations"][0]["physicalLocation"]["region"] == {"startLine": 7}  # where the model is written
    assert second["properties"]["evidence"] == {"spread": 8.1, "worst": "inf"}
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert (note["level"], note["descriptor"]["id"]) == ("note", "untested/cache")
    assert run["invocations"][0]["executionSuccessful"] is True


def test_sarif_of_several_reports_is_one_run_and_each_place_has_its_own_fingerprint() -> None:
    run = checked(sarif.document([sick(), evil(), Report("nothing")]))
    assert len(run["results"]) == 14
    logical = [each["locations"][0]["logicalLocations"][0] for each in run["results"]]
    places = {(each["ruleId"], at["fullyQualifiedName"]) for each, at in zip(run["results"], logical, strict=True)}
    prints = {each["partialFingerprints"]["regardCodeModelModule/v1"] for each in run["results"]}
    assert len(places) == len(prints)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("", None),
        ("toy.py:41", Place("toy.py", 41, "SRCROOT")),
        ("toy.py", Place("toy.py", 0, "SRCROOT")),
        ("/home/me/work/a/toy.py:41", Place("a/toy.py", 41, "SRCROOT")),
        ("/home/me/work/.venv/lib/python3.11/site-packages/torch/nn/x.py:4", Place("torch/nn/x.py", 4, "PYTHONPATH")),
        ("/imports/other/x.py:4", Place("other/x.py", 4, "PYTHONPATH")),
        ("/elsewhere/x.py:4", Place("/elsewhere/x.py", 4, "")),
    ],
)
def test_a_place_is_said_without_naming_the_machine_where_that_can_be(
    source: str, found: Place | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", ["", "/", "/imports"])
    assert place(source, Path("/home/me/work")) == found


def test_a_space_or_an_accent_in_a_path_is_quoted_in_sarif() -> None:
    report = Report.of("m", [Finding("NUM001", "x", source="a b/é.py:3"), Finding("NUM001", "x", source="/far/é.py:3")])
    uris = [
        each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for each in checked(report.to_sarif())["results"]
    ]
    assert uris == ["a%20b/%C3%A9.py", "file:///far/%C3%A9.py"]


def test_safe_keeps_words_of_every_language() -> None:
    assert safe("naïve 注意 ∞ −1 é") == "naïve 注意 ∞ −1 é"
