"""`import regard` is cheap, and shows its public names and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

HEAVY = ["matplotlib", "numba", "sentencepiece", "transformers", "triton"]

ROOMS = ["check", "use", "watch"]  # verbs of other people's models; who only reads does not pay for them

PROBE = f"""
import gc, json, sys, time
import torch
gc.freeze()  # a collection of torch's own objects falls on whoever imports next, and takes longer than all of regard
before = set(sys.modules)

def seconds_of(names):
    start = time.process_time()  # of this process alone: what else the machine does is not ours
    import regard
    for name in names or [name for name in regard.__all__ if name not in {ROOMS!r}]:
        getattr(regard, name)
    return time.process_time() - start

seconds = [seconds_of([])] + [seconds_of([name]) for name in {ROOMS!r}]
import regard
loaded = set(sys.modules) - before
visible = [name for name in dir(regard) if not name.startswith("_")]
kind = type(sys)
print(json.dumps({{
    "seconds": seconds,  # of the core, then of each room behind it
    "heavy": [name for name in {HEAVY!r} if name in loaded],
    "all": list(regard.__all__),
    "objects": [name for name in visible if not isinstance(getattr(regard, name), kind)],
    "modules": {{name: getattr(regard, name).__name__
                for name in visible if isinstance(getattr(regard, name), kind)}},
}}))
"""


def probe() -> dict[str, Any]:
    """What a fresh interpreter sees that imports torch, then regard, and touches every public name."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    return probe()


def test_import_loads_nothing_heavy(seen: dict[str, Any]) -> None:
    assert seen["heavy"] == []


@pytest.mark.alone
def test_import_adds_under_a_tenth_of_a_second_to_torch() -> None:
    core, *rooms = (min(times) for times in zip(*(probe()["seconds"] for _ in range(3)), strict=True))
    assert core < 0.1
    assert all(seconds < 0.1 for seconds in rooms)


def test_all_is_sorted_and_is_what_is_visible(seen: dict[str, Any]) -> None:
    assert seen["all"] == sorted(set(seen["all"]))
    # A submodule becomes an attribute when it's imported; anything else that shows has been made public.
    foreign = {name for name, module in seen["modules"].items() if module != f"regard.{name}"}
    assert foreign == set()
    public = {name for name in seen["all"] if not name.startswith("_")}
    assert set(seen["objects"]) == public - set(seen["modules"])


def test_import_alone_waits_for_no_torch() -> None:
    script = "import sys, regard; print([n for n in ('torch', 'numpy') if n in sys.modules], len(dir(regard)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[] ")


def test_a_name_that_is_not_there_is_refused() -> None:
    import regard

    with pytest.raises(AttributeError, match="tention"):
        _ = regard.tention
