"""The sdpa engine: what lowers to PyTorch's fused kernel runs there, telemetry included."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from regard.engines.fused import Lowered, one_width
from regard.engines.memory import without_hidden
from regard.engines.statistics import measure
from regard.normalize import Softmax
from regard.plan import Composition, Cost, Wanted, pairs, products
from regard.reading import Reading


class Sdpa:
    """Dot-product scores × softmax × boolean masks by ``scaled_dot_product_attention``. O(L + S) memory."""

    name = "sdpa"
    reports = False

    def refuses(self, c: Composition) -> str:
        if c.score.no_dot_form:
            return f"score {type(c.score).__name__}: {c.score.no_dot_form}"
        if type(c.normalize) is not Softmax:
            return f"normalize {type(c.normalize).__name__}: only softmax is fused"
        if c.normalize.sink is not None:
            return "normalize Softmax(sink=…): the fused kernel has no sink"
        if 0 in c.grid.shape:
            return f"(B, H, L, S) = {c.grid.shape} holds nothing to read"
        return ""

    def cost(self, c: Composition, telemetry: bool = False, exact: bool = False) -> Cost:
        causal = c.mask is not None and c.mask.is_causal_flag(c.grid)
        n = pairs(c, causal)
        dense = c.dropout > 0  # the kernel itself falls back to dense weights
        masked = c.mask is not None and not causal
        held = 2 * pairs(c) * c.q.element_size() if dense else _mask_bytes(c) if masked else 0
        seconds = 1.5e-5 + products(c, n) / 2e11 + (n * 4e-9 if dense else n * 1e-9 if masked else 0.0)
        return Cost(products(c, n), held, 3.2 * seconds if telemetry else seconds)

    def attend(self, c: Composition) -> Tensor:
        low, v, _ = _lowered(c)
        q, k, padded = one_width(low.q, low.k, v)
        grouped = False
        if q.shape[1] != k.shape[1]:  # a branch: while compiling, the comparison itself is a symbol
            grouped = True
        out = F.scaled_dot_product_attention(
            q,
            k,
            padded,
            attn_mask=low.mask,
            dropout_p=c.dropout,
            is_causal=low.is_causal,
            scale=low.scale,
            enable_gqa=grouped,
        )
        return out[..., : v.shape[-1]].to(c.q.dtype)

    def read(self, c: Composition, wanted: Wanted) -> Reading:
        low, v, row = _lowered(c)
        found = measure(c, low, v, row, wanted)
        output = self.attend(c) if c.dropout else found.pop("output").to(c.q.dtype)
        return Reading(**(found | {"output": output}), seen=low.seen(c.grid), engine=self.name)


def _lowered(c: Composition) -> tuple[Lowered, Tensor, Tensor | None]:
    """The composition as a fused call: dot form, flags, values, and what a row's scores lost on the way."""
    is_causal, allowed = (False, None) if c.mask is None else c.mask.sdpa_flags(c.grid)
    # The kernel's own flag, where keys outnumber queries, hides the keys past the last query from everyone.
    k, v = without_hidden(c.k, c.v, c.grid.j < c.grid.L if is_causal and c.grid.S > c.grid.L else allowed)
    dot = c.score.as_dot(c.score.queries(c.q, c.grid), c.score.keys(k, c.grid))
    assert isinstance(c.normalize, Softmax)
    scale = dot.scale / c.normalize.temperature
    row = None if dot.row is None else dot.row / c.normalize.temperature
    return Lowered(dot.q, dot.k, scale, is_causal, allowed), v.to(dot.q.dtype), row


def _mask_bytes(c: Composition) -> int:
    """Booleans and the floats they become, over the axes that the mask depends on."""
    assert c.mask is not None
    one = c.mask.allows(c.grid.rows(0, 1))
    return one.shape[0] * one.shape[1] * c.grid.L * c.grid.S * (1 + c.q.element_size())
