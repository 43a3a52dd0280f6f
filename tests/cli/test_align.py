"""`regard align` as a person runs it: a line out for each pair in, and every option what it says."""

from __future__ import annotations

import gzip
import inspect
import itertools
import re
from pathlib import Path

import pytest

from regard.cli.align import align as command
from tests.align.exhaustive import TRAINED
from tests.cli.align_runs import SOURCE, TARGET, align, put, refused, rows, six


@pytest.fixture
def text(tmp_path: Path) -> tuple[Path, Path]:
    return six(tmp_path)


def test_a_line_for_each_pair(text: tuple[Path, Path]) -> None:
    found = align(*text)
    assert rows(found)[:4] == [[(0, 0), (1, 1)], [(0, 0), (1, 1)], [], [(0, 0), (1, 1)]]
    assert len(rows(found)) == 6
    told = [line.split()[0] for line in found.stderr.splitlines() if "log p a word" in line]
    assert told == [f"{k}/8" for k in range(1, 9)]
    assert align(*text, "--quiet").stderr == ""


@pytest.mark.parametrize(
    ("model", "symmetrize"),
    [
        *itertools.product(TRAINED, ["soft", "intersection", "grow-diag-final-and", "forward", "reverse"]),
        ("sample", "soft"),
    ],
)
def test_models_and_methods(text: tuple[Path, Path], model: str, symmetrize: str) -> None:
    links = rows(align(*text, "--model", model, "--symmetrize", symmetrize, "--quiet"))
    for s, each in enumerate(links):
        assert all(i < len(SOURCE[s].split()) and j < len(TARGET[s].split()) for i, j in each)
        if symmetrize == "forward":
            assert len({j for _, j in each}) == len(each)
        if symmetrize == "reverse":
            assert len({i for i, _ in each}) == len(each)
    assert sum(map(len, links)) >= 8


def test_stages_of_your_own(text: tuple[Path, Path]) -> None:
    found = align(*text, "--stages", "ibm1:2:mean, hmm:1")
    assert [line.split()[:2] for line in found.stderr.splitlines() if "log p" in line] == [
        ["1/3", "ibm1"], ["2/3", "ibm1"], ["3/3", "hmm"]
    ]  # fmt: skip


def test_one_file_and_gzip_are_the_same(text: tuple[Path, Path], tmp_path: Path) -> None:
    whole = align(*text, "--quiet").stdout
    pairs = [f"{s} ||| {t}" if s else "" for s, t in zip(SOURCE, TARGET, strict=True)]
    one = put(tmp_path / "both", pairs)
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(one.read_bytes()))
    crlf = tmp_path / "crlf"
    crlf.write_bytes(one.read_bytes().replace(b"\n", b"\r\n").removesuffix(b"\r\n"))
    for path in (one, packed, crlf):
        assert align(path, "--quiet").stdout == whole
    assert align(*text, "--quiet", "--spool", tmp_path / "spool").stdout == whole


def test_probabilities(text: tuple[Path, Path]) -> None:
    plain = align(*text, "--quiet").stdout
    found = align(*text, "--quiet", "--probabilities").stdout
    assert re.sub(r":[\d.]+", "", found) == plain
    assert all(0.5 < float(p) <= 1 for p in re.findall(r":([\d.]+)", found))
    for one in ("forward", "reverse", "union"):
        links = align(*text, "--quiet", "--probabilities", "--symmetrize", one).stdout
        assert re.sub(r":[\d.]+", "", links) == align(*text, "--quiet", "--symmetrize", one).stdout
        assert links.count(":") == links.count("-")


def test_both_directions(text: tuple[Path, Path], tmp_path: Path) -> None:
    align(*text, "--quiet", "--both", tmp_path / "links")
    for one in ("forward", "reverse"):
        expected = align(*text, "--quiet", "--symmetrize", one).stdout
        assert (tmp_path / f"links.{one}").read_text() == expected


def test_gold_scores_every_direction_and_whatever_stands_beside(text: tuple[Path, Path], tmp_path: Path) -> None:
    gold = put(tmp_path / "gold", ["0-0 1-1", "0-0 1-1 2-2", "0-0 1-1 2-2 3-3 4-4"])
    beside = put(tmp_path / "others.links", ["", "", "", *gold.read_text().splitlines()])
    links = tmp_path / "links"
    links.write_text(beside.read_text())
    found = align(*text, "--quiet", "--gold", gold, "--beside", beside, "--beside", links)
    told = dict(line.split(None, 1) for line in found.stderr.splitlines())
    assert list(told) == [str(beside), str(links), "links", "forward", "reverse"]
    assert told[str(beside)].startswith("AER 0.0 %, precision 100.0 %, recall 100.0 %")
    assert all("10 sure" in line and "3 pairs of sentences" in line for line in told.values())


def test_dictionary_and_page(text: tuple[Path, Path], tmp_path: Path) -> None:
    words, page = tmp_path / "words.tsv", tmp_path / "look.html"
    align(*text, "--quiet", "--dictionary", words, "--html", page)
    lines = [line.split("\t") for line in words.read_text().splitlines()]
    assert ["Buch", "book", "3"] in [line[:3] for line in lines]
    assert "://" not in re.sub(r"http://www.w3.org/\S+", "", page.read_text())
    assert "kleines" in page.read_text()


def test_a_prior_says_what_the_text_cannot(tmp_path: Path) -> None:
    path = put(tmp_path / "both", ["a b ||| x y"] * 3)
    known = put(tmp_path / "known", ["a y 5", "b x 5", "q x 1", "a a 1"])
    straight, crossed = align(path), align(path, "--prior", known)
    assert rows(straight) == [[(0, 0), (1, 1)]] * 3
    assert rows(crossed) == [[(0, 1), (1, 0)]] * 3
    assert "--prior: 2 of its pairs of words never meet" in crossed.stderr
    assert "line 2" in refused(path, "--prior", put(tmp_path / "bad", ["a y 5", "a y"]))
    assert refused(path, "--prior", tmp_path / "nowhere") == f"{tmp_path / 'nowhere'}: No such file or directory"


def test_raw_text_comes_back_as_spans(tmp_path: Path) -> None:
    source = put(tmp_path / "en", ["The cat sleeps.", "𝒜 cat, the dog!", "", "The dog sleeps."] * 5)
    target = put(tmp_path / "zh", ["猫睡了。", "𝒜猫，狗！", "", "狗睡了。"] * 5)
    found = align(source, target, "--tokenize", "words", "--spans", "--quiet")
    links = align(source, target, "--tokenize", "words", "--quiet")
    assert found.stdout.count("\n") == links.stdout.count("\n") == 20
    assert len(found.stdout.split()) == len(links.stdout.split()) > 30
    words = set()
    for line, s, t in zip(
        found.stdout.split("\n"), source.read_text().split("\n"), target.read_text().split("\n"), strict=True
    ):
        for a, b, c, d in re.findall(r"(\d+):(\d+)-(\d+):(\d+)", line):
            words.add((s[int(a) : int(b)], t[int(c) : int(d)]))
    assert {("cat", "猫"), ("dog", "狗"), ("𝒜", "𝒜")} <= words


@pytest.mark.parametrize("model", [*TRAINED, "sample"])
def test_loaded_it_aligns_as_it_was_trained(text: tuple[Path, Path], tmp_path: Path, model: str) -> None:
    how = () if model != "sample" else ("--symmetrize", "intersection")
    trained = align(*text, "--quiet", "--model", model, "--save", tmp_path / "model", *how)
    words = tmp_path / "words"
    loaded = align(*text, "--load", tmp_path / "model", "--dictionary", words, *how)
    if model != "sample":  # its chains' average and their HMM are not the same
        assert loaded.stdout == trained.stdout
    assert len(rows(loaded)) == 6
    assert words.read_text().count("\n") > 5


def test_a_batch_knows_its_lines(text: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is aligned a few sentences at a time is what is aligned at once, and lines count from the file's first."""
    align(*text, "--quiet", "--save", tmp_path / "model")
    load = ("--load", tmp_path / "model", "--longest", 3, "--probabilities", "--both", tmp_path / "both")
    whole = align(*text, *load)
    expected = (tmp_path / "both.forward").read_text()
    monkeypatch.setattr("regard.cli.aligning._BATCH", 2)
    found = align(*text, *load)
    assert found.stdout == whole.stdout
    assert found.stderr == whole.stderr
    assert "1 pair has a sentence of more than 3 words and an empty line, the first is line 6" in found.stderr
    assert (tmp_path / "both.forward").read_text() == expected


def test_help_has_every_option_with_its_default() -> None:
    found = re.sub(r"[│\s]+", " ", align("--help").output)
    parameters = inspect.signature(command).parameters
    for name, parameter in parameters.items():
        if name in ("context", "source", "target"):
            continue
        assert f"--{name}" in found, name
        if isinstance(parameter.default, str | int | float) and not isinstance(parameter.default, bool):
            (part,) = re.findall(rf"--{name} <[^>]*>(.*?) (?:--|╰)", found)
            assert f"[default: {parameter.default}]" in part, (name, part)
    for model in ("best", "sample", "ibm1 to ibm5", "diagonal", "hmm"):
        assert model in found
