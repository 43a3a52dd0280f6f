"""The aligners' harness: what a command took, what corpora are made of, and what links are worth."""

from __future__ import annotations

import sys
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.harness.aligners import noise, programs
from benchmarks.harness.aligners.corpora import Text, lay
from benchmarks.harness.aligners.process import Step, run
from benchmarks.harness.peers import Missing
from benchmarks.harness.setting import Setting

if TYPE_CHECKING:
    pass

FULL = Setting()


def python(code: str, out: str = "") -> Step:
    return Step((sys.executable, "-I", "-S", "-c", code), out)


def test_memory_is_the_largest_process_even_a_child_and_not_ours(tmp_path: Path) -> None:
    ballast = bytearray(300 * 2**20)
    fill = "x = bytearray(60 * 2**20)"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-I', '-S', '-c', {fill!r}])"
    small, large = (run([python(code), python("")], tmp_path).mib for code in ("", child))
    assert small < 25
    assert small + 55 < large < small + 75
    assert len(ballast)


def test_time_is_wall_and_cpu_of_all_steps_and_what_they_waited_for(tmp_path: Path) -> None:
    burn = "import time; end = time.process_time() + .3\nwhile time.process_time() < end: pass"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    used = run([python("import time; time.sleep(0.3)"), python(child), Step(("sleep", "0.1"))], tmp_path)
    assert 0.3 <= used.cpu < used.seconds
    assert used.seconds >= 0.7
    assert used.programs.keys() == {Path(sys.executable).name, "sleep"}
    assert sum(used.programs.values()) == pytest.approx(used.seconds)


def test_a_step_that_fails_says_its_last_word_and_ends_the_rest(tmp_path: Path) -> None:
    bad = python("import sys; print('one', file=sys.stderr); sys.exit('two')")
    with pytest.raises(RuntimeError, match=r"python\S* ended with status 1: two"):
        run([bad, python("", "after")], tmp_path)
    assert not (tmp_path / "after").exists()
    with pytest.raises(RuntimeError, match="No such file"):
        run([Step(("regard-no-such-program",))], tmp_path)


def test_a_step_that_takes_too_long_is_stopped_with_its_children(tmp_path: Path) -> None:
    start = time.perf_counter()
    code = "import subprocess; subprocess.run(['sh', '-c', 'echo $$ > child; exec sleep 60'])"
    with pytest.raises(RuntimeError, match="all together took longer than 1 s"):
        run([python(code)], tmp_path, limit=1)
    assert time.perf_counter() - start < 20
    child = int((tmp_path / "child").read_text())
    for _ in range(100):  # a killed process is there until whoever inherits it has looked
        state = Path(f"/proc/{child}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.05)
    else:
        pytest.fail("the child still runs")


def test_a_text_is_its_training_lines_then_its_test_in_lower_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    for name, lines in {"a.de": "Ä\n2\n3\n", "a.en": "A\u2028\rX\nb\nc\n", "t.de": "Uns\n", "t.en": "Us\n"}.items():
        (tmp_path / name).write_bytes(lines.encode())
    (tmp_path / "t.de-en.gold").write_text("0-0\n")
    text = Text("x", "de", "en", ("a",), ("t",), 2)
    place = tmp_path / "place"
    place.mkdir()
    corpus = lay(text, place)
    assert corpus.source.read_text() == "ä\n2\nuns\n"
    assert corpus.target.read_bytes() == "a\u2028\rx\nb\nus\n".encode()
    assert corpus.joined.read_bytes() == "ä ||| a\u2028\rx\n2 ||| b\nuns ||| us\n".encode()
    assert (corpus.gold.read_text(), corpus.pairs, corpus.name) == ("0-0\n", 3, "x")
    (tmp_path / "t.en").unlink()
    with pytest.raises(Missing, match=f"corpus 't' is not in {tmp_path}; REGARD_DATA names the folder"):
        lay(text, place)


def test_made_links_join_words_that_translate_each_other() -> None:
    for source, target, links in islice(noise.made(3), 200):
        words = source.split(), target.split()
        joined = [tuple(map(int, link.split("-"))) for link in links.split()]
        assert [j for _, j in joined] == list(range(len(words[1])))
        assert all(words[0][i][1:] == words[1][j][1:].rstrip("b") for i, j in joined)


def test_noise_leaves_the_first_copy_and_replaces_a_twentieth_of_the_others() -> None:
    pairs = [(" ".join(f"s{k * n % 97}" for n in range(11)) + "\n", f"t{k} u v w x y z\n") for k in range(500)]
    pairs[7] = ("\n", "t\n")
    found = list(noise.repeated(pairs, 10_003))
    assert found[:500] == pairs
    assert found == list(noise.repeated(pairs, 10_003))
    for side, each in enumerate(zip(*found, strict=True)):
        old = [word for k in range(500, len(found)) for word in pairs[k % 500][side].split()]
        new = [word for line in each[500:] for word in line.split()]
        assert len(old) == len(new)
        fresh, changed = sum("~" in word for word in new), sum(a != b for a, b in zip(old, new, strict=True))
        assert fresh / len(old) == pytest.approx(noise.REPLACED * noise.NEW, rel=0.1)
        if side == 0:  # of 97 words as frequent as each other, of which one may take its own place
            assert changed / len(old) == pytest.approx(noise.REPLACED * (1 - (1 - noise.NEW) / 97), rel=0.03)
        assert all(line.endswith("\n") for line in each)


def test_peers_are_looked_for_on_the_path_and_beside_the_named_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv(programs.VARIABLE, raising=False)
    with pytest.raises(Missing, match=r"^my-aligner: not on the PATH; build it$"):
        programs.program("my-aligner", "build it")
    (tmp_path / "my-aligner").write_text("#!/bin/sh\n")
    (tmp_path / "my-aligner").chmod(0o755)
    monkeypatch.setenv(programs.VARIABLE, str(tmp_path / "python"))
    assert programs.program("my-aligner", "build it") == str(tmp_path / "my-aligner")
    with pytest.raises(Missing, match=f"{programs.VARIABLE}: found '{tmp_path}/python', wanted the path of a Python"):
        programs.package("no_such_package", "pip install no-such-package")
    monkeypatch.setenv(programs.VARIABLE, sys.executable)
    assert programs.package("json", "") == sys.executable
    with pytest.raises(Missing, match=r"^no-such-package: not installed; pip install no-such-package, or name another"):
        programs.package("no_such_package", "pip install no-such-package")
