"""The first call in a fresh process: with kernels compiled before, and with none."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.harness.child import fresh
from benchmarks.harness.row import Goal, Row, at_most
from benchmarks.harness.setting import Setting
from benchmarks.harness.timing import reason

TITLE = "first use in a fresh process, beyond importing torch: kernels cached, not cached, and at a new length"

WARM, COLD, ANEW = at_most(1), at_most(20), at_most(0)
L, OTHER = 131, 331


def rows(setting: Setting) -> Iterator[Row]:
    """In a cache folder of its own: all kernels compiled, all again at another length, then each family alone."""
    with tempfile.TemporaryDirectory() as folder:
        env = dict.fromkeys(("NUMBA_CACHE_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"), folder)
        yield (cold := _timed(setting, "every family, nothing cached", COLD, list(FAMILIES), L, env))
        kernels = _kernels(folder)
        nothing = "" if kernels or cold.problem else f"nothing was cached: engine {setting.engine!r} compiled no kernel"
        yield (
            again := _timed(setting, "every family, cached, a new length", None, list(FAMILIES), OTHER, env, nothing)
        )
        yield Row(
            "kernels compiled for the new length",
            "",
            "kernels",
            float(_kernels(folder) - kernels),
            goal=ANEW,
            judged=setting.judged,
            problem=cold.problem or again.problem,
            note=f"{kernels} are cached",
        )
        for name in FAMILIES:
            yield _timed(setting, f"{name}, cached", WARM, [name], L, env, nothing)


def _timed(
    setting: Setting, work: str, goal: Goal | None, names: list[str], L: int, env: dict[str, str], problem: str = ""
) -> Row:
    seconds = None
    try:
        seconds = float(fresh(setting, first, names, L, env=env))
    except Exception as error:
        problem = reason("regard", error)
    return Row(work, "", "s", seconds, ours=seconds, goal=goal, judged=setting.judged or goal is None, problem=problem)


def _kernels(folder: str) -> int:
    """The compiled kernels in Numba's or Triton's cache: one file each."""
    return sum(1 for ending in ("nbc", "cubin") for _ in Path(folder).rglob(f"*.{ending}"))


def first(setting: Setting, names: list[str], L: int) -> float:
    """Seconds to import regard and run these families once, backward included. Runs in a process of its own."""
    start = time.perf_counter()
    for name in names:
        FAMILIES[name](setting, L)
    return time.perf_counter() - start


def _softmax(setting: Setting, L: int) -> None:
    import regard

    q, k, v = setting.qkv(1, 2, L, 32, grad=True)
    for mask in (None, regard.mask.causal(), regard.mask.window(16, 0)):
        regard.read(q, k, v, mask=mask, engine=setting.engine, telemetry=True).output.sum().backward()


def _entmax(setting: Setting, L: int) -> None:
    import regard

    q, k, v = setting.qkv(1, 2, L, 32, grad=True)
    for normalize in (regard.normalize.Entmax(1.5), regard.normalize.Sparsemax()):
        regard.attend(q, k, v, normalize=normalize, engine=setting.engine).sum().backward()


def _additive(setting: Setting, L: int) -> None:
    import regard

    q, k, v = setting.qkv(1, 2, L, 32, grad=True)
    score = regard.score.Additive(32, 32, 16).to(**setting.place())
    regard.attend(q, k, v, score=score, engine=setting.engine).sum().backward()


def _normaliser(setting: Setting, L: int) -> None:
    import regard

    regard.normalize.Entmax(1.5)(setting.randn(L, L, grad=True)).sum().backward()


FAMILIES: dict[str, Callable[[Setting, int], None]] = {
    "softmax": _softmax,
    "entmax and sparsemax": _entmax,
    "additive": _additive,
    "1.5-entmax alone": _normaliser,
}
