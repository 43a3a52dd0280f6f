"""The laws on an accelerator: sdpa, flex and triton against the definition and the reference in float64."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard import mask, position, score
from regard.engines import Reference, Sdpa
from regard.engines.flex import Flex
from regard.engines.triton import Triton
from regard.mask import Mask
from regard.normalize import Entmax, Sparsemax
from regard.plan import Composition, Wanted
from tests.engines.composing import IN, composed, gradients, lawful
from tests.laws.truth import close, truth

if not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)
if not find_spec("triton"):
    pytest.skip("triton is not installed", allow_module_level=True)

pytestmark = [
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"),  # triton 3.9 announces another default
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),  # the compiler asks for it
]
DEVICE = torch.device("cuda")
ENGINES: dict[str, Any] = {"sdpa": Sdpa(), "flex": Flex(), "triton": Triton()}
BY_KEY: dict[str, Mask] = {name: IN[name] for name in ("some keys", "keys of a row")}
NAMES = {
    "sdpa": frozenset({"entropy", "distance", "peak", "spread"}),
    "flex": frozenset({"distance"}),
    "triton": frozenset({"entropy", "distance", "peak", "spread"}),
}

LAWFUL = [
    *[(engine, "scaled dot", "softmax", m) for engine in ENGINES for m in ("none", "causal to the end", "dense")],
    *[(engine, "euclidean", "tempered", "causal & padding") for engine in ENGINES],
    *[(engine, "general per head", "softmax", "segments") for engine in ENGINES],
    *[(engine, "rotary", "softmax", "window") for engine in ENGINES],
    *[
        (engine, name, "tempered", "where")
        for engine in ("flex", "triton")
        for name in ("alibi", "relative bias", "capped", "capped alibi")
    ],
    ("triton", "relative bias", "entmax 1.5", "causal to the end"),
    *[(engine, "dot", "tempered sink per head", "(causal | dense) & ~segments") for engine in ("flex", "triton")],
    *[("triton", name, "softmax", "strided") for name in ("additive", "concat", "keyed additive")],
    *[("triton", "dot", name, "dense") for name in ("sparsemax", "entmax 1.3", "learnt alpha per head")],
    ("triton", "additive", "entmax 1.5", "padding"),
]


@pytest.fixture(autouse=True)
def _from_scratch() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def there(c: Composition, dtype: torch.dtype = torch.float32) -> Composition:
    """The same composition on the device, with parts of its own."""
    scored, normalised = copy.deepcopy(c.score).to(DEVICE, dtype), copy.deepcopy(c.normalize).to(DEVICE, dtype)
    return composed(c.q.to(DEVICE, dtype), c.k.to(DEVICE, dtype), c.v.to(DEVICE, dtype), scored, normalised, c.mask)


@pytest.mark.parametrize(("engine", "scored", "normalised", "masked"), LAWFUL)
def test_law_1_a_read_and_its_gradients_on_the_device(engine: str, scored: str, normalised: str, masked: str) -> None:
    c, t, run = lawful(scored, normalised, masked), truth(scored, normalised, masked), ENGINES[engine]
    far = there(c)
    assert run.refuses(far) == ""
    # The lse of sdpa is told by a probe there, which loses a few digits.
    tolerance = 2e-3 if engine == "sdpa" else 1e-4
    r = run.read(far, Wanted(NAMES[engine], groups=BY_KEY))
    close(run.attend(far).cpu(), t.output, "attend", 1e-4)
    for name in ("output", "lse", *sorted(NAMES[engine])):
        close(getattr(r, name).cpu(), getattr(t, name), name, tolerance)
    for name in BY_KEY:
        close(r.mass[name].cpu(), t.mass[name], f"mass of {name}", tolerance)
    assert torch.equal(r.seen.cpu(), t.seen)
    names = ["distance"]
    for found, wanted in zip(gradients(run, far, names, BY_KEY), gradients(Reference(), c, names, BY_KEY), strict=True):
        close(found.cpu(), wanted, "gradient", 10 * tolerance)


def additive() -> score.Score:
    part = score.Additive(64, 64, 48)
    for parameter in part.parameters():
        nn.init.normal_(parameter, 0.0, 0.2)
    return part.to(DEVICE)


LONG: dict[str, tuple[str, Callable[[], Composition]]] = {
    "sdpa, causal": ("sdpa", lambda: composed(*long(), masked=mask.causal("end"))),
    "flex, window": ("flex", lambda: composed(*long(), masked=mask.window(100, 0, "end"))),
    "flex, alibi": ("flex", lambda: composed(*long(), (score.ScaledDot() + position.ALiBi(4, "end")).to(DEVICE))),
    "triton, causal": ("triton", lambda: composed(*long(), masked=mask.causal("end"))),
    "triton, gaps": ("triton", lambda: composed(*long(), masked=mask.strided(3, "end"))),
    "triton, entmax": ("triton", lambda: composed(*long(), normalised=Entmax(1.5), masked=mask.causal("end"))),
    "triton, sparsemax": (
        "triton",
        lambda: composed(*long(), normalised=Sparsemax(), masked=mask.window(90, 0, "end")),
    ),
    "triton, additive": ("triton", lambda: composed(*long(), additive(), masked=mask.causal("end"))),
}


def long(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (torch.randn(2, n, m, 64, device=DEVICE).to(dtype) for n, m in ((4, 523), (2, 1031), (2, 1031)))
    return q, k, v


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", LONG)
def test_law_1_over_many_tiles_and_in_half_precision(name: str, dtype: torch.dtype) -> None:
    engine, build = LONG[name]
    c = build()
    c = replace(c, q=c.q.to(dtype), k=c.k.to(dtype), v=c.v.to(dtype))
    exact = there(c, torch.float64)
    tolerance = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}[dtype]
    found, wanted = ENGINES[engine].attend(c), Reference().attend(exact)
    assert found.dtype == dtype
    assert (found - wanted).abs().max() < tolerance
    names: list[str] = []
    for x, y in zip(gradients(ENGINES[engine], c, names, {}), gradients(Reference(), exact, names, {}), strict=True):
        assert (x - y).abs().max() < 10 * tolerance * y.abs().max()


@pytest.mark.parametrize("engine", ENGINES)
def test_law_3_rubbish_in_a_masked_slot_reaches_neither_the_read_nor_a_gradient(engine: str) -> None:
    found = []
    q, k, v = long()
    m = mask.padding([1000, 700])
    for rubbish in (0.0, math.nan):
        k[0, :, 1000:] = v[0, :, 1000:] = k[1, :, 700:] = v[1, :, 700:] = rubbish
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        out = ENGINES[engine].attend(composed(leaves[0], leaves[1], leaves[2], masked=m))
        found.append([out, *torch.autograd.grad(out.square().sum(), leaves)])
    for clean, dirty in zip(*found, strict=True):
        close(dirty.cpu(), clean.cpu(), "read and gradients", 1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_law_4_a_query_that_may_see_nothing_reads_nothing(engine: str) -> None:
    leaves = [x.requires_grad_() for x in long()]
    m = mask.padding([0, 700])
    r = ENGINES[engine].read(composed(leaves[0], leaves[1], leaves[2], masked=m), Wanted(cheap=True))
    assert (r.output[0] == 0).all()
    assert (r.lse[0] == -math.inf).all()
    assert r.entropy is not None
    assert (r.entropy[0] == 0).all()
    for gradient in torch.autograd.grad(r.output.sum() + r.entropy.sum(), leaves):
        assert gradient.isfinite().all()
        assert (gradient[0] == 0).all()


@pytest.mark.parametrize("name", ["flex, window", "triton, causal", "triton, entmax", "triton, additive"])
def test_a_long_read_never_holds_a_number_for_every_pair(name: str) -> None:
    engine, build = LONG[name]
    c = build()
    q = torch.randn(1, 4, 8192, 64, device=DEVICE)
    k, v = (torch.randn(1, 2, 8192, 64, device=DEVICE) for _ in range(2))
    c = composed(q, k, v, c.score, c.normalize, mask.window(200, 0))
    ENGINES[engine].attend(c)  # compiled once
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    ENGINES[engine].attend(c)
    torch.cuda.synchronize()
    extra = torch.cuda.max_memory_allocated() - before
    # FlexAttention derives its block mask from a boolean a pair of one head; a float a pair of each is sixteen of them.
    assert extra < 4 * 8192 * 8192 * 4 // (2 if engine == "flex" else 16)
