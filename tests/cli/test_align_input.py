"""Whatever `regard align` is given: the text it can read it aligns, and what it cannot it refuses in one line."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from tests.cli.align_runs import TARGET, align, put, refused, rows, six


@pytest.fixture
def text(tmp_path: Path) -> tuple[Path, Path]:
    return six(tmp_path)


def test_bytes_that_are_no_utf8(tmp_path: Path) -> None:
    """Fine as they are; cutting them into words needs them to be text."""
    path = tmp_path / "both"
    path.write_bytes(b"caf\xe9 \x00 ||| coffee \xff\n" * 3)
    assert len(rows(align(path, "--quiet"))) == 3
    words, page = tmp_path / "words", tmp_path / "page"
    assert len(rows(align(path, "--quiet", "--dictionary", words, "--html", page))) == 3
    assert "caf\ufffd" in words.read_text()
    assert "is not UTF-8 (0xe9)" in refused(path, "--tokenize", "words")


def test_files_with_nothing_in_them(tmp_path: Path) -> None:
    empty = put(tmp_path / "empty", [])
    words, page, both = tmp_path / "words", tmp_path / "page", tmp_path / "both"
    outputs = ("--dictionary", words, "--html", page, "--both", both, "--probabilities", "--save", tmp_path / "model")
    for model in ("best", "ibm2", "diagonal"):
        found = align(empty, empty, "--quiet", "--model", model, *outputs[:-1], tmp_path / model)
        assert (found.exit_code, found.stdout) == (0, ""), found.output
    assert words.read_text().count("\n") == 1
    assert rows(align(put(tmp_path / "blank", ["", ""]), empty.parent / "blank", "--quiet")) == [[], []]
    found = align(empty, "--load", tmp_path / "best", "--probabilities", "--html", page, "--dictionary", words)
    assert (found.exit_code, found.stdout) == (0, "")


def test_sides_that_do_not_fit(text: tuple[Path, Path], tmp_path: Path) -> None:
    short = put(tmp_path / "short", TARGET[:4])
    assert "ends after line 4" in refused(text[0], short)
    assert "goes on with line 5" in refused(short, text[1])
    assert "line 1 of" in refused(text[0])
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(text[0].read_bytes())[:-9])
    assert "the gzip file is cut or damaged after line" in refused(cut, text[1])
    assert refused(tmp_path / "nowhere", text[1]).endswith("nowhere is not there")
    assert "is no file that can be read twice" in refused(text[0], "/dev/null")


def test_sentences_that_are_too_long(tmp_path: Path) -> None:
    lines = ["a b ||| x y", "a b c ||| x", "a ||| x", "c ||| x y z"]
    found = align(put(tmp_path / "both", lines), "--longest", 2, "--quiet")
    assert rows(found)[1::2] == [[], []]
    assert rows(found)[0] == [(0, 0), (1, 1)]
    assert found.stderr == (
        "regard: 2 pairs have a sentence of more than 2 words and an empty line, the first is line 2; "
        "--longest sets the limit\n"
    )


@pytest.mark.slow
def test_a_sentence_of_a_thousand_words(tmp_path: Path) -> None:
    long = " ".join(f"w{k % 701}" for k in range(1000))
    path = put(tmp_path / "both", [f"{long} ||| {long}", *(f"w{k} ||| w{k}" for k in range(701))])
    found = align(path, "--stages", "ibm1:1:mean hmm:1:product", "--quiet")
    first, *others = rows(found)
    assert len([1 for i, j in first if i == j]) > 600  # the words from 0 to 298 stand twice
    assert others == [[(0, 0)]] * 701


def test_gold_that_does_not_fit(text: tuple[Path, Path], tmp_path: Path) -> None:
    align(*text, "--quiet", "--save", tmp_path / "model")
    for more in ((), ("--load", tmp_path / "model")):
        one = put(tmp_path / "one", ["1-1 2-2 3-3", "1-1 2-2 5-5"])
        many = put(tmp_path / "many", ["0-0"] * 7)
        for gold, said in ((one, "so it counts from 1"), (many, "has 7 lines")):
            found = align(*text, "--quiet", "--gold", gold, *more)
            assert found.exit_code == 2
            assert said in found.stderr
            assert found.stderr.count("\n") == 1
    assert refused(*text, "--gold", put(tmp_path / "out", ["0-0 9-0"])).startswith("gold: line 1 of")
    assert "gold" in refused(*text, "--gold", put(tmp_path / "bad", ["0-0 x"]))


def test_options_that_do_not_go_together(text: tuple[Path, Path], tmp_path: Path) -> None:
    align(*text, "--quiet", "--save", tmp_path / "model")
    load = ("--load", tmp_path / "model")
    cases: list[tuple[tuple[Any, ...], str]] = [
        (("--symmetrize", "grow"), "symmetrize: unknown name 'grow'"),
        (("--model", "ibm6"), "model: unknown name 'ibm6'"),
        (("--threshold", 1), "--threshold: found 1.0"),
        (("--threshold", "nan"), "--threshold: found nan"),
        (("--threshold", 0.4, "--symmetrize", "union"), "--threshold: union asks for none"),
        (("--threshold", 0.4, "--model", "hmm"), "--threshold: grow-diag-final-and asks for none"),
        (("--tokenize", "words", "--spans", "--probabilities"), "--probabilities: "),
        (("--spans",), "--spans: "),
        (("--tokenize", "word"), "--tokenize: found 'word'"),
        (("--tokenize", "words,words,words"), "--tokenize: found"),
        (("--stages", ""), "--stages: found none"),
        (("--stages", "hmm"), "stages: found 'hmm'"),
        (("--alpha", -1), "alpha: found -1.0"),
        (("--model", "ibm1", "--variational"), "variational: found alpha 0.0"),
        (("--spelling", -1), "--spelling: found -1.0"),
        (("--spelling", "nan"), "--spelling: found nan"),
        (("--model", "sample", "--stages", "hmm:1"), "--stages: sample draws links"),
        (("--beside", text[0]), "--beside: nothing shows these links"),
        (("--beside", put(tmp_path / "few", ["0-0"]), "--html", tmp_path / "x.html"), "--beside: "),
        (("--html", tmp_path / "no" / "x.html"), "--html: there is no folder"),
        (("--both", tmp_path / "no" / "x"), "--both: there is no folder"),
        (("--dictionary", tmp_path / "no" / "x"), "--dictionary: there is no folder"),
        ((*load, "--save", tmp_path / "x"), "--save: --load trains nothing"),
        ((*load, "--model", "best"), "--model: --load trains nothing"),
        ((*load, "--stages", "hmm:1"), "--stages: --load trains nothing"),
        ((*load, "--spool", tmp_path), "--spool: --load trains nothing"),
        ((*load, "--peg", 0.1), "--peg: --load trains nothing"),
        ((*load, "--variational"), "--variational: --load trains nothing"),
        (("--load", tmp_path / "no"), "--load: there is no aligner in"),
        (("--longest", 0), "Invalid value for '--longest'"),
    ]
    for args, said in cases:
        if args[:1] == ("--beside",) and "--html" in args:
            assert said in align(*text, "--quiet", *args).stderr
        else:
            assert said in refused(*text, *args), args
    assert "- is read with --load alone" in refused("-")
    assert "with - as SRC both sides" in refused("-", text[1], *load)


def test_a_folder_of_another_text_recipe_or_prior_is_refused(text: tuple[Path, Path], tmp_path: Path) -> None:
    model = tmp_path / "model"
    first = align(*text, "--quiet", "--save", model).stdout
    kept = next(model.iterdir()).read_bytes()
    assert align(*text, "--quiet", "--save", model).stdout == first
    assert "--save: " in refused(text[1], text[0], "--save", model)
    found = refused(*text, "--save", model, "--spelling", 0)
    assert 'was trained as {"spelling": 1.0}, and this is {"spelling": 0.0}; ' in found
    assert "was trained as" in refused(*text, "--save", model, "--alpha", 0.5)
    assert "was trained as" in refused(*text, "--save", model, "--model", "sample")
    known = put(tmp_path / "known", ["das the 5"])
    assert "or of another --prior" in refused(*text, "--save", model, "--prior", known)
    assert next(model.iterdir()).read_bytes() == kept
    next(model.iterdir()).write_bytes(kept[:-9])
    assert "is no model or is damaged" in refused(*text, "--save", model)
    assert "is no model or is damaged" in refused(*text, "--load", model)
