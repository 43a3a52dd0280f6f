"""Masks with gaps and scores that no kernel knows, in parts that fit; memory of the order of the inputs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

import regard
from regard import mask, position, score
from regard.engines.tiled import by_reference
from regard.mask import tiles as mask_tiles
from tests.engines.tiled.given import inputs


@pytest.mark.usefixtures("_small_tiles")
def test_a_mask_with_gaps_is_read_by_its_bits_and_a_score_that_no_kernel_knows_in_bands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    q, k, v = inputs(150, 41)
    scored = score.Learned.mlp(11, 11, 3).double()
    cases: list[dict[str, Any]] = [
        {"mask": mask.strided(3, "end") & mask.window(20, 9, "end")},
        {"mask": mask.strided(3, "end"), "score": score.ScaledDot() + position.ALiBi(6, "end")},
        {"mask": mask.causal("end"), "score": scored, "normalize": "sparsemax"},
    ]
    for parts in cases:
        whole = regard.read(q, k, v, engine="reference", groups={"self": mask.window(0, 0, "end")}, **parts)
        monkeypatch.setattr(mask_tiles, "_PAIRS", 3 * 16**2)  # three tiles at a time
        monkeypatch.setattr(by_reference, "HELD", 12 * 41 * 20)
        r = regard.read(q, k, v, engine="tiled", groups={"self": mask.window(0, 0, "end")}, **parts)
        for name in ("output", "lse", "entropy", "peak", "distance", "spread"):
            assert torch.allclose(getattr(r, name), getattr(whole, name), atol=1e-9), name
        assert torch.allclose(r.mass["self"], whole.mass["self"])
        assert r.peak_at is not None
        assert whole.peak_at is not None
        assert torch.equal(r.peak_at, whole.peak_at)
        grads = [
            # the default telemetry measures both, which the type cannot say
            torch.autograd.grad(x.output.sum() + x.entropy.sum() + x.spread.sum(), (q, k, v))  # type: ignore[union-attr]
            for x in (r, whole)
        ]
        for one, other in zip(*grads, strict=True):
            assert torch.allclose(one, other, atol=1e-9)


MEMORY = """
import sys, torch, regard
from regard import mask, score
def status(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) / 1024
def go(L):
    q, k, v = (torch.randn(1, 1, L, 32, requires_grad=True) for _ in range(3))
    part = score.Additive(32, 32, 16)
    for parts in ({}, {"mask": mask.window(256, 0)}, {"normalize": "entmax15", "mask": mask.window(256, 0)},
                  {"score": part, "mask": mask.window(256, 0)}, {"mask": mask.strided(97) & mask.window(600, 0)}):
        regard.read(q, k, v, engine="tiled", **parts).output.sum().backward()
go(600)
open("/proc/self/clear_refs", "w").write("5")
before = status("VmRSS")
go(12000)
print(status("VmHWM") - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the high-water mark where Linux keeps it")
def test_memory_is_of_the_order_of_the_inputs() -> None:
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 150  # MiB; the weights of one head alone would take 549
