"""The page of an alignment: one file that asks nobody, holds what it was given, and runs no text as code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.align.corpus import Corpus, read
from regard.align.gold import Gold
from regard.align.links import Links
from regard.align.page import MOST, document
from regard.errors import RegardError
from regard.page import asset

LINES = [
    b"das Haus ||| the house",
    b"</script><script>alert(1)</script> & <!-- ||| <img/src=x/onerror=alert(1)> ]]>",
    "שלום می\u200cخواهم \u202eevil ||| 你好 𠮷𝒳 x\u2028y \0".encode(),
    b" ||| alone",
    b"\xff ||| b",
]
LINKS = Links.of([[(0, 0), (1, 1)], [(0, 0)], [(0, 1), (2, 2)], [], [(0, 0)]])


@pytest.fixture
def text(tmp_path: Path) -> Corpus:
    (tmp_path / "text").write_bytes(b"\n".join(LINES) + b"\n")
    return read(tmp_path / "text")


def held(page: str) -> dict[str, Any]:
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert len(found) == 1
    data: dict[str, Any] = json.loads(found[0])
    return data


def test_it_holds_the_words_and_the_links(text: Corpus) -> None:
    weights = Links.of([[(0, 0, 0.75), (1, 1, 0.0004)], [(2, 1, 1.0)], [(0, 0, 0.0006)], [], []])
    gold = Gold.of(Links.of([[(0, 1)], [], [(0, 0)]]), Links.of([[(1, 0), (0, 1)], [], []]))
    data = held(document(text, {"one": LINKS, "two": LINKS[:]}, soft={"attention": weights}, gold=gold))
    assert (data["models"], data["weights"], data["gold"]) == (["one", "two"], ["attention"], True)
    assert [pair[0] for pair in data["pairs"]] == [2, 3, 4]  # those with gold: the last
    assert data["pairs"][0][3:] == [[[0, 1, 2, 2], [0, 1, 2, 2]], [[0, 0, 1]], [[0, 1], [1, 0]]]
    data = held(document(text, {"one": LINKS}, soft={"attention": weights}, gold=gold, first=0))
    assert [pair[0] for pair in data["pairs"]] == [0, 1, 2]
    assert data["pairs"][0] == [0, ["das", "Haus"], ["the", "house"], [[0, 0, 1, 1]], [[0, 0, 750]], [[0, 1], [1, 0]]]
    data = held(document(text, {}, soft={"attention": weights}, pairs=[1, 0]))
    assert [pair[0] for pair in data["pairs"]] == [1, 0]
    assert data["pairs"][0][4] == [[2, 1, 1000]]


def test_it_is_one_file_that_asks_nobody(text: Corpus) -> None:
    page = document(text, {"one": LINKS}, soft={"w": Links.of([[(0, 0, 0.5)], [], [], [], []])})
    outside = re.sub(r'<script type="application/json".*?</script>', "", page, flags=re.S)
    assert not re.search(r"\b(src|href)\s*=|https?://|@import|url\(|\bimport\b|\bfetch\(|XMLHttp|WebSocket", outside)
    assert "default-src 'none'" in page
    assert "connect-src 'none'" in page
    for needed in ('lang="en"', 'role="status"', "aria-live", "prefers-color-scheme:dark", "<noscript>", "keydown"):
        assert needed in page


def test_no_text_is_code(text: Corpus) -> None:
    name = "<b onclick='x'>&\"</title></script>"
    gold = Gold.of(Links.of([[(0, 0)]] * 2 + [[]] * 3), name=name)
    page = document(text, {name: LINKS}, gold=gold, title=name)
    assert page.count("<script") == page.count("</script>") == 2
    assert page.count("</title>") == 1
    assert "<b onclick" not in page
    assert "<img" not in page
    assert "alert(1)</script>" not in page
    assert "\u2028" not in page
    words = [word for pair in held(page)["pairs"] for side in pair[1:3] for word in side]
    assert "</script><script>alert(1)</script>" in words
    assert "می\u200cخواهم" in words  # joiners stay, what turns the text around it does not
    assert {"\ufffdevil", "\ufffd"} <= set(words)


def test_every_part_that_the_script_asks_for_is_there() -> None:
    html, script = (asset("regard.align.page", name) for name in ("page.html", "page.js"))
    asked = set(re.findall(r'by\("(\w+)"\)', script)) - {"data"}
    assert asked
    assert asked <= set(re.findall(r'id="(\w+)"', html))
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", script)


def test_of_a_large_corpus_the_first_pairs_are_shown(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a b ||| c d\n" * (MOST + 7))
    rng = np.random.default_rng(1)
    links = Links.of([[(int(rng.integers(2)), int(rng.integers(2)))] for _ in range(MOST + 7)])
    page = document(read(tmp_path / "text"), {"one": links})
    assert len(held(page)["pairs"]) == MOST
    assert f"{MOST:,} of {MOST + 7:,} pairs of sentences" in page


def test_scores_are_said_where_there_is_gold(text: Corpus) -> None:
    page = document(text, {"one": LINKS}, gold=Gold.of(LINKS))
    assert '<th scope="row">one</th><td>0.0</td><td>100.0</td><td>100.0</td><td>100.0</td><td>6</td>' in page
    assert "AER" not in document(text, {"one": LINKS})


def test_no_pairs_at_all(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("")
    assert held(document(read(tmp_path / "text"), {"one": Links.of([])}))["pairs"] == []


def test_mistakes_are_said(text: Corpus) -> None:
    with pytest.raises(RegardError, match="hard 'one': found links of 4 pairs of sentences, the corpus has 5"):
        document(text, {"one": LINKS[:4]})
    with pytest.raises(RegardError, match="hard 'one': pair 1 has a link 2-0 to a word that is not there"):
        document(text, {"one": Links.of([[(2, 0)], [], [], [], []])})
    with pytest.raises(RegardError, match="soft 'w': these links have no probabilities"):
        document(text, {}, soft={"w": LINKS})
    with pytest.raises(RegardError, match="pairs: found 5, wanted from 0 to 4"):
        document(text, {}, pairs=[0, 5])
    with pytest.raises(RegardError, match="links 1-1, its sentences have 1 and 1 words"):
        document(text, {}, gold=Gold.of(Links.of([[(0, 0), (1, 1)]])))
