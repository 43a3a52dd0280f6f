"""The triton engine: what it refuses, that its kernels compile for CUDA, and the laws on them in Triton's interpreter.

The interpreter is a switch that Triton reads when it is imported, so the laws run in a process of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import mask, normalize, position, score
from regard.engines.triton import Triton, engine
from tests.engines.composing import composed

ROOT = Path(__file__).resolve().parents[2]
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")


@needs_triton
def test_the_laws_hold_in_the_interpreter() -> None:
    command = [sys.executable, "-m", "pytest", "tests/engines/triton_cases.py", "-q", "-x", "-p", "no:cacheprovider"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


def test_what_it_does_not_run_it_refuses_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = (torch.randn(2, n, 4, 8) for n in (6, 3, 3))
    monkeypatch.setattr(engine, "_interpreted", lambda: True)
    monkeypatch.setattr(engine, "find_spec", lambda name: name)

    def reason(**more: Any) -> str:
        return Triton().refuses(composed(q, k, v, **more))

    assert reason() == ""
    assert reason(scored=score.Additive(8, 8, 3).keyed) == ""
    assert reason(scored=(score.ScaledDot() + position.ALiBi(6)).capped(1.0)) == ""
    assert "the score Learned is only known as a function" in reason(scored=score.Learned.mlp(8, 8, 3))
    assert "the score Learned is only known as a function" in reason(scored=score.Learned.mlp(8, 8, 3).capped(1.0))
    assert "Hardmax: the kernels know softmax and entmax" in reason(normalised=normalize.Hardmax())
    assert "TopK: the kernels know softmax and entmax" in reason(normalised=normalize.TopK(2))
    assert "dropout" in reason(dropout=0.1)
    assert "nothing to read" in Triton().refuses(composed(q, k[:, :, :0], v[:, :, :0]))
    assert "256 wide at most" in Triton().refuses(composed(q, k, torch.randn(2, 3, 4, 257)))

    def mapped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        assert "inside torch.func.vmap" in Triton().refuses(composed(q, k, v))
        return q

    torch.func.vmap(mapped)(q[None], k[None], v[None])
    with monkeypatch.context() as without:
        without.setattr(engine, "find_spec", lambda name: None)
        assert reason() == "triton is not installed"
    monkeypatch.setattr(engine, "_interpreted", lambda: False)
    assert "on cpu: the kernels run on CUDA, or in Triton's interpreter" in reason()


def test_the_cost_counts_the_tiles_that_run_and_what_is_held() -> None:
    q, k, v = (torch.randn(1, n, 640, 64) for n in (4, 2, 2))
    whole, window = (Triton().cost(composed(q, k, v, masked=m)) for m in (None, mask.window(64, 0)))
    assert whole.tiles == (400, 400)
    assert window.tiles == (4 * 19, 400)
    assert whole.flops == 2 * 4 * 640**2 * 128 > 5 * window.flops
    assert whole.held == window.held == 9 * 4 * 640 * 4
    gaps = Triton().cost(composed(q, k, v, masked=mask.strided(64)), exact=True)
    assert gaps.held == whole.held + 640 * 640
    far = Triton().cost(composed(q, k, v, masked=mask.blocks(torch.eye(10, dtype=torch.bool), 64)), exact=True)
    assert far.tiles == (40, 400)


def test_asking_what_it_refuses_imports_nothing_heavy() -> None:
    script = (
        "import sys, torch; before = set(sys.modules); from regard.engines.triton import Triton\n"
        "from tests.engines.composing import composed\n"
        "Triton().refuses(composed(*(torch.randn(1, 1, 3, 4) for _ in range(3))))\n"
        "print([name for name in set(sys.modules) - before if name.split('.')[0] == 'triton'])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@needs_triton
@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
@pytest.mark.parametrize(("tanh", "entmax"), [(False, True), (True, False)])
def test_the_kernels_compile_for_cuda(
    tanh: bool, entmax: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To machine code for compute capability 9.0, which needs no such machine; that they run there it does not say."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    triton, tl = import_module("triton"), import_module("triton.language")
    target = import_module("triton.backends.compiler").GPUTarget("cuda", 90, 32)
    from regard.engines.triton.kernels.backward import backward_keys, backward_rows
    from regard.engines.triton.kernels.forward import forward

    side = 16 if tanh else 32
    steps = ((0, False, 0, 0), (3, True, 0, 2), (1, False, 0, 0), (2, True, 0, 0), (4, False, 0, 0)) if tanh else ()
    constants: dict[str, Any] = {
        "SCORE": int(tanh), "NORMAL": int(entmax), "DENSE": tanh, "STATS": True,
        "I": side, "J": side, "C": 16, "EP": 16, "STEPS": steps,
        "PRECISION": "tf32", "ACC": tl.float32,
    }  # fmt: skip
    numbers = {
        "H",
        "GROUP",
        "L",
        "S",
        "width",
        "E",
        "columns",
        "allowed_b",
        "allowed_h",
        "allowed_i",
        "allowed_j",
        "ROUNDS",
    }
    pointers = {
        "LO": "*i32",
        "HI": "*i32",
        "FIRST": "*i32",
        "LAST": "*i32",
        "AT": "*i32",
        "ALLOWED": "*u8",
        "TILES": "*u8",
    }
    for kernel in (forward, backward_rows, backward_keys):
        names = [p.name for p in kernel.params]
        kinds = {n: "i32" if n in numbers else "fp32" if n == "CLOSE" else pointers.get(n, "*fp32") for n in names}
        kinds |= {n: "constexpr" for n in names if n in constants}
        fixed = {(names.index(n),): x for n, x in constants.items() if n in names}
        source = triton.compiler.ASTSource(kernel, kinds, constexprs=fixed)
        compiled = triton.compile(source, target=target)
        assert compiled.metadata.shared < 99 * 1024
        assert len(compiled.asm["cubin"]) > 1000
