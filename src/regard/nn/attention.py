"""One head: a query asks a memory, with as many projections as are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from regard import operator
from regard.errors import RegardError
from regard.mask import Mask
from regard.nn.parts import as_mask, both, own_normalizer, own_score
from regard.normalize import Normalizer
from regard.reading import Reading
from regard.score import Score


class Attention(nn.Module):
    """o = Σ_j w_j W_v m_j with w = normalise_j(score(W_q x, W_k m_j)): a query x (Dq) reads a memory m (S, Dm).

    Args:
        width: Dq, the width of a query.
        memory_width: Dm, the width of the memory; Dq when left out.
        project: which of queries, keys and values are projected: ``"q"``, ``"qk"``, ``"qkv"``, or any part of it, also
            ``""``. What is not projected is used as it is. W_q is (Dm, Dq), W_k and W_v are (Dm, Dm), without bias.
        score: an object of :mod:`regard.score` or its name.
        normalize: an object of :mod:`regard.normalize` or its name.
        mask: an object of :mod:`regard.mask` that always holds; one given with a call holds beside it.

    With ``project="q"`` and the dot score this is the smallest attention that learns: s_j = xᵀ W_qᵀ m_j, the bilinear
    score ("general" of Luong et al. 2015) by another name. A W_k beside it multiplies into the same bilinear form,
    so that it adds parameters but no function; W_v does add one. An empty row reads 0.

    >>> import torch
    >>> tiny = Attention(2, project="q")
    >>> _ = tiny.query.weight.data.copy_(torch.eye(2))
    >>> memory = torch.tensor([[[1.0, 0.1], [0.5, 0.5], [0.0, 1.0], [-0.8, 0.2]]])  # (B, S, Dm)
    >>> tiny(torch.tensor([[1.0, 0.0]]), memory).detach()  # (B, Dq) → (B, Dm)
    tensor([[0.5473, 0.3758]])
    >>> tiny.weights(torch.tensor([[1.0, 0.0]]), memory).detach()  # (B, S)
    tensor([[0.4674, 0.2835, 0.1719, 0.0773]])
    """

    def __init__(
        self,
        width: int,
        memory_width: int | None = None,
        *,
        project: str = "q",
        score: Score | str = "dot",
        normalize: Normalizer | str = "softmax",
        mask: Mask | None = None,
    ) -> None:
        super().__init__()
        if not set(project) <= set("qkv") or len(set(project)) != len(project):
            raise RegardError(
                f'project: found {project!r}, wanted letters among "qkv", each at most once, such as "q", "qk" or "qkv"'
            )
        self.width, self.memory_width = width, width if memory_width is None else memory_width
        self.query = _projection("q" in project, width, self.memory_width)
        self.key = _projection("k" in project, self.memory_width, self.memory_width)
        self.value = _projection("v" in project, self.memory_width, self.memory_width)
        self.score, self.normalize, self.mask = own_score(score), own_normalizer(normalize), as_mask(mask)

    def forward(self, query: Tensor, memory: Tensor, mask: Mask | Tensor | None = None) -> Tensor:
        """The read: query (…, Dq) or (…, L, Dq), memory (…, S, Dm) → (…, Dm) or (…, L, Dm)."""
        q, k, v = self._projected(query, memory)
        o = operator.attend(q, k, v, score=self.score, normalize=self.normalize, mask=both(self.mask, mask))
        return _like(query, memory, o)

    def weights(self, query: Tensor, memory: Tensor, mask: Mask | Tensor | None = None) -> Tensor:
        """What each candidate weighed: (…, S) for one query, (…, L, S) for L. Dense."""
        q, k, _ = self._projected(query, memory)
        w = operator.weights(q, k, score=self.score, normalize=self.normalize, mask=both(self.mask, mask))
        return _like(query, memory, w)

    def read(
        self,
        query: Tensor,
        memory: Tensor,
        mask: Mask | Tensor | None = None,
        *,
        telemetry: bool | str | Iterable[str] = True,
        groups: Mapping[str, Mask | Tensor] | None = None,
    ) -> Reading:
        """The read with what it was like, of one head: output (…, 1, L, Dm), L = 1 for one query."""
        q, k, v = self._projected(query, memory)
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

    def _projected(self, query: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q (…, 1, L, ·), k and v (…, 1, S, Dm): one head."""
        if memory.dim() < 2 or memory.shape[-1] != self.memory_width:
            raise RegardError(f"memory: found {tuple(memory.shape)}, wanted (…, S, Dm) with Dm = {self.memory_width}")
        if query.dim() not in (memory.dim() - 1, memory.dim()) or query.shape[-1] != self.width:
            raise RegardError(
                f"query: found {tuple(query.shape)} for a memory {tuple(memory.shape)}, wanted (…, Dq), one query a "
                f"memory, or (…, L, Dq), with Dq = {self.width}"
            )
        if _one(query, memory):
            query = query.unsqueeze(-2)
        if query.shape[:-2] != memory.shape[:-2]:
            raise RegardError(
                f"query: found leading axes {tuple(query.shape[:-2])}, the memory has {tuple(memory.shape[:-2])}; "
                "wanted the same (B)"
            )
        memory = memory.unsqueeze(-3)
        return _one_dtype(self.query(query.unsqueeze(-3)), self.key(memory), self.value(memory))

    def extra_repr(self) -> str:
        return f"width={self.width}, memory_width={self.memory_width}"


def _projection(wanted: bool, source: int, target: int) -> nn.Module:
    return nn.Linear(source, target, bias=False) if wanted else nn.Identity()


def _one_dtype(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Autocast narrows what goes through a projection and leaves the rest; elsewhere a difference is a mistake."""
    if torch.is_autocast_enabled(q.device.type):
        dtype = torch.get_autocast_dtype(q.device.type)
        return q.to(dtype), k.to(dtype), v.to(dtype)
    return q, k, v


def _one(query: Tensor, memory: Tensor) -> bool:
    return query.dim() == memory.dim() - 1


def _like(query: Tensor, memory: Tensor, result: Tensor) -> Tensor:
    """(…, 1, L, ·) without its head, and without its L when there was one query."""
    result = result.squeeze(-3)
    return result.squeeze(-2) if _one(query, memory) else result
