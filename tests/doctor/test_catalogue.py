"""Every code has a page, every page a code, and both say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import regard
from regard.doctor.catalogue import CATALOGUE, FAMILIES, entry
from regard.doctor.finding import SEVERITIES
from regard.doctor.pages import page

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "findings"
HEADINGS = ["What it is", "How it shows", "How to fix it", "How it is tested"]


def words(text: str) -> str:
    return " ".join(text.split())


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    assert {file.stem for file in FOLDER.glob("*.md")} - {"README"} == set(CATALOGUE)


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_a_page_says_what_the_catalogue_says_under_the_headings_of_all_pages(code: str) -> None:
    known, text = CATALOGUE[code], page(code)
    assert re.fullmatch(r"[A-Z]{3}\d{3}", code)
    assert known.severity in SEVERITIES
    lines = text.splitlines()
    assert lines[0] == f"# {code}: {known.title}"
    assert lines[2] == f"*{known.severity} · {FAMILIES[code[:3]]}*"
    headings = [line[3:] for line in lines if line.startswith("## ")]
    assert [each for each in headings if each != "Reported"] == HEADINGS
    fix = text.partition("## How to fix it")[2].partition("## ")[0]
    assert words(known.fix) in words(fix)
    shows = text.partition("## How it shows")[2].partition("## ")[0]
    assert "```python" in shows
    assert "```text" in shows
    for section in text.split("## ")[1:]:
        assert len(section.splitlines()) > 2, section
    for target in re.findall(r"\]\(([^)]+\.md)", text):
        assert (FOLDER / target).is_file(), target
    reported = text.partition("## Reported")[2].partition("## ")[0]
    assert "## Reported" not in text or re.search(r"[\w.-]+/[\w.-]+(#| PR#)\d+", reported)


def test_the_index_lists_every_code_in_its_family() -> None:
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\w+)\]\((\w+)\.md\) \| (\w+) \| (.+) \|$", index, re.MULTILINE)
    assert {row[0] for row in rows} == set(CATALOGUE)
    assert all((row[1], row[2], row[3]) == (row[0], *CATALOGUE[row[0]][:2]) for row in rows)
    for family, meaning in FAMILIES.items():
        section = index.partition(f"## {family}: {meaning}\n")[2].partition("\n## ")[0]
        assert re.findall(r"^\| \[(\w+)\]", section, re.MULTILINE) == [c for c in sorted(CATALOGUE) if c[:3] == family]


def test_a_title_and_a_fix_are_one_sentence_each() -> None:
    for known in CATALOGUE.values():
        assert not known.title.endswith(".")
        assert known.title[0].isupper()
        assert known.fix.endswith(".")
        assert len(known.title) <= 72


def test_every_code_is_given_by_some_probe_or_by_the_recorder() -> None:
    room = ROOT / "src" / "regard" / "doctor"
    given = "".join(
        file.read_text(encoding="utf-8") for part in ("probes", "watch") for file in (room / part).rglob("*.py")
    )
    assert [code for code in CATALOGUE if f'"{code}"' not in given] == []


def test_an_unknown_code_is_refused_with_the_nearest() -> None:
    with pytest.raises(regard.RegardError, match="did you mean 'CAU001'"):
        entry("CAU0001")
