"""Time and memory against length, to 131,072: what `--plot` draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from benchmarks.harness.curve import Series, curve, exponent
from benchmarks.harness.peers import band, local_window, sdpa
from benchmarks.harness.row import Point, Row, at_most
from benchmarks.harness.setting import Setting

TITLE = "time and memory against length, one head, D=64: window(256, 256) to 131,072, and causal to 8,192"

D, REACH = 64, 256
MIB, LINEAR = at_most(500), at_most(1.1)


def rows(setting: Setting) -> Iterator[Row | Point]:
    longest = setting.size(131_072, quick=1024)
    lengths = tuple(longest >> shift for shift in range(6, -1, -1)) if not setting.quick else (512, 1024)
    dense = tuple(n for n in lengths if n <= 8192)
    work = f"window({REACH}, {REACH})"
    series = [
        Series("regard", window, lengths),
        Series("local-attention", local, lengths),
        Series("SDPA with the mask", masked, dense),
    ]
    mine: list[Point] = []
    for each in curve(setting, work, series, small=1024):
        if isinstance(each, Point) and each.series == "regard":
            mine.append(each)
        yield each
    last = next((p for p in mine if p.length == longest), None)
    mib = None if last is None else last.mib
    yield Row(
        f"{work}, L={longest:,}, extra memory",
        "",
        "MiB",
        mib,
        ours=mib,
        amount="MiB",
        goal=MIB,
        judged=setting.judged,
        problem="" if mib is not None else "not measured; the line above says why",
    )
    yield exponent(setting, f"{work}: time", mine, "seconds", goal=LINEAR)
    yield exponent(setting, f"{work}: memory", mine, "mib", goal=LINEAR)
    short = (128, 256) if setting.quick else (512, 1024, 2048, 4096, 8192)
    series = [Series("regard", causal, short), Series("SDPA", fused, short), Series("eager weights", eager, short)]
    yield from curve(setting, "causal, telemetry on", series, small=512)


def window(setting: Setting, L: int) -> Callable[[], object]:
    import regard

    q, k, v = setting.qkv(1, 1, L, D)
    mask = regard.mask.window(REACH, REACH)
    return lambda: regard.attend(q, k, v, mask=mask, engine=setting.engine)


def local(setting: Setting, L: int) -> Callable[[], object]:
    return local_window(*setting.qkv(1, 1, L, D), REACH, REACH)


def masked(setting: Setting, L: int) -> Callable[[], object]:
    return sdpa(*setting.qkv(1, 1, L, D), mask=band(L, REACH, REACH, setting.device))


def causal(setting: Setting, L: int) -> Callable[[], object]:
    import regard

    q, k, v = setting.qkv(1, 1, L, D)
    mask = regard.mask.causal()
    return lambda: regard.read(q, k, v, mask=mask, engine=setting.engine, telemetry=True).output


def fused(setting: Setting, L: int) -> Callable[[], object]:
    return sdpa(*setting.qkv(1, 1, L, D), causal=True)


def eager(setting: Setting, L: int) -> Callable[[], object]:
    q, k, v = setting.qkv(1, 1, L, D)
    hidden = ~band(L, L, 0, setting.device)
    return lambda: (q @ k.mT * D**-0.5).masked_fill(hidden, -torch.inf).softmax(-1) @ v
