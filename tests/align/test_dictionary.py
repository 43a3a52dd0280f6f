"""A table of translations: counts and shares as a plain count gives them, in one order, written whole."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from regard.align.corpus import Corpus, read
from regard.align.dictionary import Dictionary
from regard.align.links import Links
from regard.errors import RegardError


def made(folder: Path, lines: list[str]) -> Corpus:
    (folder / "text").write_text("".join(line + "\n" for line in lines), "utf-8")
    return read(folder / "text")


def test_counts_and_shares_are_those_of_a_plain_count(tmp_path: Path) -> None:
    rng = np.random.default_rng(13)
    sides = [([f"s{rng.integers(11)}" for _ in range(7)], [f"t{rng.integers(5)}" for _ in range(3)]) for _ in range(43)]
    corpus = made(tmp_path, [" ".join(s) + " ||| " + " ".join(t) for s, t in sides])
    links = Links.of([{(int(rng.integers(7)), int(rng.integers(3))) for _ in range(5)} for _ in sides])
    pairs = Counter((s[i], t[j]) for (s, t), each in zip(sides, links, strict=True) for i, j in each)
    of_s, of_t = Counter[str](), Counter[str]()
    for (s, t), n in pairs.items():
        of_s[s] += n
        of_t[t] += n
    found = Dictionary.of(corpus, links)
    assert [(e.source, e.target, e.count) for e in found] == [
        (s, t, n) for (s, t), n in sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    ]
    for e in found:
        assert e.target_given_source == pytest.approx(e.count / of_s[e.source])
        assert e.source_given_target == pytest.approx(e.count / of_t[e.target])
    few = Dictionary.of(corpus, links, least=4)
    assert list(few) == [e for e in found if e.count >= 4]
    assert 0 < len(few) < len(found)


def test_the_file_is_a_table_in_utf8(tmp_path: Path) -> None:
    corpus = made(tmp_path, ["Haus\0 ||| 房子", "Haus\0 ||| 房子", "𝒳 ||| a\u2028b"])
    words = Dictionary.of(corpus, Links.of([[(0, 0)]] * 3))
    words.save(tmp_path / "table")
    assert (tmp_path / "table").read_bytes().decode().split("\n") == [
        "source\ttarget\tcount\tp(target|source)\tp(source|target)",
        "Haus\0\t房子\t2\t1\t1",
        "𝒳\ta\u2028b\t1\t1\t1",
        "",
    ]
    (tmp_path / "text").write_bytes(b"\xe9t\xe9 ||| summer\n")
    latin = Dictionary.of(read(tmp_path / "text"), Links.of([[(0, 0)]]))
    latin.save(tmp_path / "table")
    assert "\ufffdt\ufffd\tsummer\t1" in (tmp_path / "table").read_bytes().decode()


def test_a_place_that_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    words = Dictionary.of(made(tmp_path, ["a ||| b"]), Links.of([[(0, 0)]]))
    with pytest.raises(RegardError, match="dictionary: cannot write"):
        words.save(tmp_path / "no folder" / "table")


def test_no_links_and_no_text(tmp_path: Path) -> None:
    assert list(Dictionary.of(made(tmp_path, ["a ||| b"]), Links.of([[]]))) == []
    assert len(list(Dictionary.of(made(tmp_path, []), Links.of([])).lines())) == 1


def test_mistakes_are_said(tmp_path: Path) -> None:
    corpus = made(tmp_path, ["a b ||| c", "d ||| e"])
    with pytest.raises(RegardError, match="links: found those of 1 pairs of sentences, wanted 2"):
        Dictionary.of(corpus, Links.of([[]]))
    with pytest.raises(RegardError, match="pair 1 links target word 1, its sentence has 1; are these links of this"):
        Dictionary.of(corpus, Links.of([[(1, 1)], []]))
    with pytest.raises(RegardError, match="least: found 0"):
        Dictionary.of(corpus, Links.of([[], []]), least=0)
