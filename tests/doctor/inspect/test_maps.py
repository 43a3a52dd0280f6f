"""A map's cells are those of the dense weights, and drawing it holds no matrix."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.doctor.inspect import maps
from regard.doctor.inspect.maps import Map, Source, draw
from regard.grid import Grid
from regard.mask import Mask, causal, dense, padding, window
from regard.normalize import Entmax, Normalizer, Softmax
from regard.plan import Composition
from regard.position import ALiBi, Rotary
from regard.score import ScaledDot, Score

L, S, H, G = 37, 41, 4, 2
ANY = torch.rand(L, S, generator=torch.Generator().manual_seed(5)) > 0.3
ANY[3] = False


def composition(
    score: Score, mask: Mask | None = None, normalize: Normalizer | None = None, dtype: torch.dtype = torch.float64
) -> Composition:
    drawn = torch.Generator().manual_seed(3)
    q, k = ((3 * torch.randn(2, m, n, 6, generator=drawn, dtype=torch.float64)).to(dtype) for m, n in ((H, L), (G, S)))
    return Composition(q, k, k, score, normalize or Softmax(), mask, Grid.of(2, H, L, S))


CASES: dict[str, tuple[Score, Mask | None, Normalizer | None]] = {
    "plain": (ScaledDot(), None, None),
    "causal": (ScaledDot(), causal(anchor="end"), None),
    "window": (ScaledDot(), window(5, 2, anchor="end"), None),
    "padding, one row empty": (ScaledDot(), padding([0, 29]), None),
    "gaps, one query empty": (ScaledDot(), dense(ANY), None),
    "a sink a head": (ScaledDot(), causal(anchor="end"), Softmax(sink=torch.tensor([0.5, 1.0, -1.0, 2.0]))),
    "temperature": (ScaledDot(), None, Softmax(0.5)),
    "turned": (Rotary(ScaledDot(), anchor="end"), causal(anchor="end"), None),
    "bias": (ScaledDot() + ALiBi(H, anchor="end"), causal(anchor="end"), None),
    "capped": (ScaledDot().capped(2.0), None, None),
    "entmax": (ScaledDot(), causal(anchor="end"), Entmax(1.5)),
}


def cells(w: Tensor, m: Map) -> tuple[Tensor, Tensor]:
    """Share and largest weight of the map's cells, by the definition, one cell at a time."""
    share, largest = torch.zeros_like(m.share, dtype=w.dtype), torch.zeros_like(m.share, dtype=w.dtype)
    for r in range(m.share.shape[0]):
        for c in range(m.share.shape[1]):
            top, left = m.top + r * m.height, m.left + c * m.width
            cell = w[top : min(m.bottom, top + m.height), left : min(m.right, left + m.width)]
            share[r, c], largest[r, c] = cell.sum(-1).mean(), cell.max()
    return share, largest


@pytest.mark.parametrize("band", [1 << 21, 3 * S])
@pytest.mark.parametrize("region", [None, ((5, 31), (7, 40)), ((0, 11), (0, 9)), ((20, 37), (30, 41))])
@pytest.mark.parametrize("name", CASES)
def test_cells_are_those_of_the_dense_weights(
    name: str, region: Any, band: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maps, "_CELLS", band)
    score, mask, normalize = CASES[name]
    c = composition(score, mask, normalize)
    dense_weights = regard.weights(c.q, c.k, score=c.score, normalize=c.normalize, mask=c.mask)
    for b, h in ((0, 0), (1, 3)):
        w = dense_weights[b, h]
        rest = w.clone()
        rest[:, 0] = 0.0
        left = rest.sum(-1, keepdim=True)
        rest = torch.where(left > 0, rest * w.sum(-1, keepdim=True) / torch.where(left > 0, left, 1.0), 0.0)
        for n in (7, 64):
            rows, columns = region or (None, None)
            m = draw(Source(c, b, h), rows, columns, cells=n)
            for plane, wanted in zip(m.planes, (*cells(w, m), *cells(rest, m)), strict=True):
                assert plane.shape == wanted.shape
                assert (plane - wanted).abs().max() < 1e-12


def test_float32_and_half_are_near() -> None:
    wanted = draw(Source(composition(ScaledDot(), causal(anchor="end")), 0, 1), cells=9)
    for dtype, near in ((torch.float32, 1e-6), (torch.bfloat16, 0.2)):
        found = draw(Source(composition(ScaledDot(), causal(anchor="end"), dtype=dtype), 0, 1), cells=9)
        assert found.share.dtype == torch.float32
        assert (found.share - wanted.share).abs().max() < near


def test_a_cell_is_a_pair_where_there_is_room() -> None:
    c = composition(ScaledDot())
    m = draw(Source(c, 1, 2), cells=50)
    assert (m.height, m.width) == (1, 1)
    assert torch.allclose(m.share, regard.weights(c.q, c.k)[1, 2])
    assert torch.equal(m.share, m.largest)


def test_memory_does_not_grow_with_the_square_of_the_length() -> None:
    """Four times the length, sixteen times the matrix; what is held beyond q and k stays under a fixed room."""
    code = (
        "import resource, torch\n"
        "from regard.doctor.inspect.maps import Source, draw\n"
        "from regard.grid import Grid\nfrom regard.plan import Composition\n"
        "import regard\n"
        "torch.set_num_threads(1)\n"
        "def peak(n):\n"
        "    q = torch.randn(1, 1, n, 16)\n"
        "    c = Composition(q, q, q, regard.score.ScaledDot(), regard.normalize.Softmax(),\n"
        "                    regard.mask.causal(anchor='end'), Grid.of(1, 1, n, n))\n"
        "    draw(Source(c))\n"
        "    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024\n"
        "print(peak(1024), peak(4096), peak(16384))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    short, _, long = map(int, done.stdout.split())
    assert long - short < 150, "MiB; the matrix alone would be 1,024"
