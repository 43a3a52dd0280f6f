"""In a fresh process and at a new length: nothing is imported or compiled that need not be."""

from __future__ import annotations

import subprocess
import sys

import torch

import regard
from regard import mask
from regard.engines.tiled import calls
from tests.engines.tiled.given import inputs


def test_the_compiler_is_not_imported_by_a_read() -> None:
    code = (
        "import sys, torch, regard; q = torch.randn(1, 2, 5, 4, requires_grad=True);"
        "regard.attend(q, q, q, engine='tiled').sum().backward();"
        "print([m for m in ('torch._dynamo', 'sympy', 'triton') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_new_length_compiles_nothing() -> None:
    from regard.engines.tiled import softmax

    for L, S in ((5, 7), (64, 300), (1, 1)):
        q, k, v = inputs(L, S)
        regard.read(q, k, v, mask=mask.causal("end"), engine="tiled", groups={"a": torch.ones(S, dtype=torch.bool)})
        q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
        regard.attend(q, k, v, mask=mask.strided(2, "end"), engine="tiled", dropout=0.1).sum().backward()
    known = {f.__name__: len(f.signatures) for f in (softmax.forward, softmax.backward)}
    assert max(known.values()) <= 2, known  # single and double precision


def test_unaligned_tables_are_taken_apart() -> None:
    assert calls.strides(torch.zeros(2, 3, 5, 7)) == (105, 35, 7)
    assert calls.rows_apart(torch.zeros(1, 1, 7, 5).transpose(2, 3)).is_contiguous()
