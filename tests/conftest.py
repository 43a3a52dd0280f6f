"""What every test gets: a seed of its own, torch left as it was found, a way to the corpora, and company or none."""

from __future__ import annotations

import os
import random
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import hypothesis
import pytest
import torch

from tests.alone import Room

ROOT = Path(__file__).resolve().parents[1]


class TorchRandom:
    """torch's generator as Hypothesis wants it, so that a failing example fails again."""

    seed = staticmethod(torch.manual_seed)
    getstate = staticmethod(torch.get_rng_state)
    setstate = staticmethod(torch.set_rng_state)


TORCH_RANDOM = TorchRandom()  # Hypothesis keeps a weak reference
hypothesis.register_random(TORCH_RANDOM)
hypothesis.settings.register_profile("here", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "here")


ROOM = pytest.StashKey[Room]()


def pytest_configure(config: pytest.Config) -> None:
    """From a source tree that is not installed, the project's own plugin is there all the same.

    One worker of several (``pytest -n``) has one thread, and so has what its tests start: they share the cores.
    """
    if not config.pluginmanager.hasplugin("regard"):
        config.pluginmanager.import_plugin("regard.doctor.plugin")
    if hasattr(config, "workerinput"):
        torch.set_num_threads(1)
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        config.stash[ROOM] = Room(Path(config.option.basetemp).parent)  # each worker's own is a folder in it


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A test that is marked `alone` has the machine to itself."""
    room = item.config.stash.get(ROOM, None)
    if room is None:
        return (yield)
    with room.entered(alone=item.get_closest_marker("alone") is not None):
        return (yield)


@pytest.fixture(autouse=True)
def _same_every_time(request: pytest.FixtureRequest) -> Iterator[None]:
    """Seed by the test's name, so a test alone sees what it sees among others; restore torch's settings."""
    seed = zlib.crc32(request.node.nodeid.encode())
    random.seed(seed)
    torch.manual_seed(seed)
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    deterministic, grad = torch.are_deterministic_algorithms_enabled(), torch.is_grad_enabled()
    yield
    torch.set_default_dtype(dtype)
    torch.set_num_threads(threads)
    if torch.are_deterministic_algorithms_enabled() != deterministic:  # setting it imports the compiler, for seconds
        torch.use_deterministic_algorithms(deterministic)
    torch.set_grad_enabled(grad)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of corpora: `REGARD_DATA`, or `../shared/data` beside the checkout. It may not be there."""
    named = os.environ.get("REGARD_DATA")
    return Path(named) if named else ROOT.parent / "shared" / "data"


@pytest.fixture(scope="session")
def corpus(data_dir: Path) -> Callable[[str], Path]:
    """`corpus("tatoeba-en-fr")` is that corpus' folder. Missing, the test is skipped; in CI it fails."""

    def find(name: str) -> Path:
        folder = data_dir / name
        if not folder.is_dir():
            message = f"corpus {name!r} is not in {data_dir}; REGARD_DATA names the folder of corpora"
            if os.environ.get("CI"):
                pytest.fail(message, pytrace=False)
            pytest.skip(message)
        return folder

    return find
