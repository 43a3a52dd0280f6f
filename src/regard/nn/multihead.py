"""Many heads: self, cross, causal, grouped, talking, by the parts that are passed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor, nn
from torch.nn import functional as F

from regard import operator
from regard.engines.memory import without_hidden
from regard.errors import RegardError
from regard.grid import Grid
from regard.mask import Mask
from regard.nn.parts import as_mask, both, own_normalizer, own_score
from regard.nn.talking import TalkingHeads
from regard.normalize import Normalizer
from regard.reading import Reading
from regard.score import Score


class MultiHead(nn.Module):
    """W_o [o_1; …; o_H] with o_h = attend(W_q^h x, W_k^g m, W_v^g m), g = h // (H // G) (Vaswani et al. 2017).

    Args:
        width: D of the model, of x and of the output; a multiple of ``heads``. One head's queries are D / H wide.
        heads: H.
        kv_heads: G, key-value heads; H when left out, 1 is multi-query attention. H must be a multiple of G.
        memory_width: width of the memory; D when left out.
        value_width: E, the width of one head's values; D / H when left out.
        bias: whether the four projections have one.
        score: an object or its name: ``Rotary(ScaledDot())``, ``ScaledDot() + ALiBi(heads)``, …
        normalize: an object or its name.
        mask: a mask that always holds, such as ``causal()``; one given with a call holds beside it.
        talking: ``TalkingHeads(heads)``, or None.
        dropout: probability that a weight is dropped while training; nothing is dropped in ``eval()``.

    Without a memory x reads itself. With G = H and plain widths it has 4·D² + 4·D parameters. An empty row reads 0
    from every head (the output is then the bias of W_o).

    >>> import torch
    >>> from regard import mask, position, score
    >>> layer = MultiHead(12, heads=6, kv_heads=2, score=position.Rotary(score.ScaledDot()), mask=mask.causal())
    >>> x = torch.randn(2, 5, 12)  # (B, L, D)
    >>> layer(x, mask=mask.padding([5, 3])).shape
    torch.Size([2, 5, 12])
    >>> layer.read(x).entropy.shape  # (B, H, L)
    torch.Size([2, 6, 5])
    """

    def __init__(
        self,
        width: int,
        heads: int,
        kv_heads: int | None = None,
        *,
        memory_width: int | None = None,
        value_width: int | None = None,
        bias: bool = True,
        score: Score | str = "scaled_dot",
        normalize: Normalizer | str = "softmax",
        mask: Mask | None = None,
        talking: TalkingHeads | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        _check_built(width, heads, kv_heads, talking, dropout)
        self.width, self.heads, self.kv_heads = width, heads, kv_heads
        self.memory_width = width if memory_width is None else memory_width
        head_width = width // heads
        value_width = head_width if value_width is None else value_width
        self.query = nn.Linear(width, heads * head_width, bias=bias)
        self.key = nn.Linear(self.memory_width, kv_heads * head_width, bias=bias)
        self.value = nn.Linear(self.memory_width, kv_heads * value_width, bias=bias)
        self.out = nn.Linear(heads * value_width, width, bias=bias)
        self.score, self.normalize, self.mask = own_score(score), own_normalizer(normalize), as_mask(mask)
        self.talking, self.dropout = talking, dropout

    def forward(self, x: Tensor, memory: Tensor | None = None, mask: Mask | Tensor | None = None) -> Tensor:
        """x (…, L, D) reads memory (…, S, Dm), or itself → (…, L, D)."""
        o = self.look(*self._projected(x, memory), mask)
        y: Tensor = self.out(o.transpose(-3, -2).flatten(-2))  # (…, H, L, E) → (…, L, H·E) → (…, L, D)
        return y

    def look(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | Tensor | None = None) -> Tensor:
        """What each head reads, (…, H, L, E), before W_o, of what :meth:`queries` and :meth:`pairs` gave.

        So a memory is projected once, however often it is looked at.
        """
        allowed = both(self.mask, mask)
        if self.talking is None:
            dropout = self.dropout if self.training else 0.0
            return operator.attend(q, k, v, score=self.score, normalize=self.normalize, mask=allowed, dropout=dropout)
        w, v = self._talked(self.talking, q, k, v, allowed)
        w = F.dropout(w, self.dropout, self.training)
        return (w @ v.repeat_interleave(self.heads // self.kv_heads, dim=-3).to(w.dtype)).to(q.dtype)

    def distributions(self, q: Tensor, k: Tensor, mask: Mask | Tensor | None = None) -> Tensor:
        """What each head gave each key of what :meth:`queries` and :meth:`pairs` gave, (…, H, L, S). Dense.

        Rows sum to 1 (a declared sink: to at most 1). Of talking heads these are the weights before P_w mixes them.
        """
        allowed = both(self.mask, mask)
        if self.talking is None:
            return operator.weights(q, k, score=self.score, normalize=self.normalize, mask=allowed)
        return self._talked(self.talking, q, k, k, allowed, mixed=False)[0]

    def weights(self, x: Tensor, memory: Tensor | None = None, mask: Mask | Tensor | None = None) -> Tensor:
        """What each head gave each key, (…, H, L, S). Dense. Rows of talking heads need not be distributions."""
        q, k, _ = self._projected(x, memory)
        allowed = both(self.mask, mask)
        if self.talking is not None:
            return self._talked(self.talking, q, k, k, allowed)[0]
        return operator.weights(q, k, score=self.score, normalize=self.normalize, mask=allowed)

    def read(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Mask | Tensor | None = None,
        *,
        telemetry: bool | str | Iterable[str] = True,
        groups: Mapping[str, Mask | Tensor] | None = None,
    ) -> Reading:
        """The read of every head, (…, H, L, E), before W_o and without dropout, with what it was like."""
        if self.talking is not None:
            raise RegardError(
                "read: the rows of talking heads are no distributions, so they have no entropy, peak or mass; "
                "weights(x) gives them, and talking=None makes heads that can be read"
            )
        q, k, v = self._projected(x, memory)
        return operator.read(
            q,
            k,
            v,
            score=self.score,
            normalize=self.normalize,
            mask=both(self.mask, mask),
            telemetry=telemetry,
            groups=groups,
        )

    def _projected(self, x: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """q (…, H, L, D/H), k (…, G, S, D/H), v (…, G, S, E)."""
        memory = x if memory is None else memory
        for name, found, axes, wanted in (
            ("x", x, "(…, L, D) with D", self.width),
            ("memory", memory, "(…, S, Dm) with Dm", self.memory_width),
        ):
            if found.dim() < 2 or found.shape[-1] != wanted:
                raise RegardError(f"{name}: found {tuple(found.shape)}, wanted {axes} = {wanted}")
        if x.shape[:-2] != memory.shape[:-2]:
            raise RegardError(
                f"memory: found leading axes {tuple(memory.shape[:-2])}, x has {tuple(x.shape[:-2])}; wanted the same "
                "(B); a memory that all rows share is memory.expand(B, -1, -1)"
            )
        return self.queries(x), *self.pairs(memory)

    def queries(self, x: Tensor) -> Tensor:
        """W_q x by head: (…, L, D) to (…, H, L, D/H)."""
        q: Tensor = self.query(x).unflatten(-1, (self.heads, -1))
        return q.transpose(-3, -2)

    def pairs(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """W_k m and W_v m by head: (…, S, Dm) to (…, G, S, D/H) and (…, G, S, E)."""
        k, v = (each.unflatten(-1, (self.kv_heads, -1)) for each in (self.key(memory), self.value(memory)))
        return k.transpose(-3, -2), v.transpose(-3, -2)

    def _talked(
        self, talking: TalkingHeads, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, mixed: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Weights (…, H, L, S), and the values that they may be laid on: what no head sees is emptied."""
        lead, values = q.shape[:-3], v.shape
        q, k, v = (each.reshape(lead.numel(), *each.shape[-3:]) for each in (q, k, v))  # left of H all is batch
        allowed = None
        if mask is not None:
            allowed = mask.allows(Grid.of(q.shape[0], q.shape[1], q.shape[2], k.shape[2], q.device))
            k, v = without_hidden(k, v, allowed.any(1, keepdim=True))
        talk = talking if mixed else talking.distributions
        w: Tensor = talk(operator.scores(q, k, score=self.score), self.normalize, allowed)
        return w.reshape(*lead, *w.shape[1:]), v.reshape(values)

    def extra_repr(self) -> str:
        return f"width={self.width}, heads={self.heads}, kv_heads={self.kv_heads}, dropout={self.dropout}"


def _check_built(width: int, heads: int, kv_heads: int, talking: TalkingHeads | None, dropout: float) -> None:
    if heads < 1 or width % heads:
        raise RegardError(f"width: found D = {width} for H = {heads} heads, wanted D a multiple of H")
    if kv_heads < 1 or heads % kv_heads:
        raise RegardError(f"kv_heads: found G = {kv_heads} for H = {heads} heads, wanted H a multiple of G")
    if talking is not None and talking.heads != heads:
        raise RegardError(
            f"talking: built for H = {talking.heads} heads, the layer has H = {heads}; wanted TalkingHeads({heads})"
        )
    if not 0.0 <= dropout < 1.0:
        raise RegardError(f"dropout: found {dropout}, wanted a probability, 0 ≤ dropout < 1")
