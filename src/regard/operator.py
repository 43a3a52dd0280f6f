"""The verbs: attend, read, scores, weights, explain. Check what was given, plan, run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

from regard import mask as masks
from regard import normalize as normalizers
from regard import score as score_functions
from regard.engines import ENGINES, Reference
from regard.engines.memory import report_non_finite
from regard.errors import RegardError, unknown_name
from regard.grid import Grid
from regard.mask import Mask
from regard.normalize import Normalizer
from regard.plan import Composition, Plan, Wanted, choose
from regard.reading import TELEMETRY, Reading
from regard.score import Score

__all__ = ["attend", "explain", "read", "scores", "weights"]


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    score: Score | str = "scaled_dot",
    normalize: Normalizer | str = "softmax",
    mask: Mask | None = None,
    engine: str = "auto",
    dropout: float = 0.0,
) -> Tensor:
    """o_i = Σ_j w_ij v_j with w_i = normalise(score(q_i, k_·)) over the keys that the mask lets query i see.

    Args:
        q: queries (…, H, L, D).
        k: keys (…, G, S, D), H a multiple of G; query head h reads key head h // (H // G).
        v: values (…, G, S, E); E may differ from D.
        score: an object of :mod:`regard.score`, or "dot", "scaled_dot", "cosine", "euclidean".
        normalize: an object of :mod:`regard.normalize`, or "softmax", "sparsemax", "entmax15", "hardmax", "gumbel".
        mask: an object of :mod:`regard.mask`; True = may look. A boolean tensor is wrapped as ``regard.mask.dense``.
        engine: "auto", or a name; an engine asked for by name runs or raises.
        dropout: probability that a weight is dropped. It is applied whenever it is not 0: pass 0 in evaluation.

    Returns:
        The read (…, H, L, E), in the dtype of q. A query that may see nothing reads 0, with gradient 0.

    Raises:
        RegardError: widths, heads, masks or names that do not fit; the message says what was found and wanted.

    Axes are counted from the right: (L, D) is one head of one batch row, (H, L, D) is one batch row, and what stands
    left of H is batch. Source: Bahdanau et al. 2015 for the idea, Vaswani et al. 2017 eq. 1 for the default.

    >>> import torch
    >>> q = torch.tensor([[1.0, 0.0]])
    >>> memory = torch.tensor([[1.0, 0.1], [0.5, 0.5], [0.0, 1.0], [-0.8, 0.2]])
    >>> attend(q, memory, memory, score="dot")
    tensor([[0.5473, 0.3758]])
    """
    if has_torch_function((q, k, v)):  # as torch's own functions: a mode or a subclass may ask to see the call
        parts: dict[str, Any] = {"score": score, "normalize": normalize, "mask": mask}
        parts |= {"engine": engine, "dropout": dropout}
        given: Tensor = handle_torch_function(attend, (q, k, v), q, k, v, **parts)
        return given
    c, lead = composition(q, k, v, score, normalize, mask, dropout)
    chosen = choose(c, ENGINES, engine).engine
    out = chosen.attend(c)
    if not chosen.reports:
        report_non_finite(c, stacklevel=3)
    return out.reshape((*lead, c.grid.L, v.shape[-1]))


def read(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    score: Score | str = "scaled_dot",
    normalize: Normalizer | str = "softmax",
    mask: Mask | None = None,
    engine: str = "auto",
    dropout: float = 0.0,
    telemetry: bool | str | Iterable[str] = True,
    groups: Mapping[str, Mask | Tensor] | None = None,
) -> Reading:
    """The read of :func:`attend` with its log-sum-exp, and what each look was like.

    ``telemetry`` is True (what the engine gets without looking at the scores again: all on ``reference``; entropy,
    bound and distance on ``sdpa``), False, or names among entropy, bound, peak, distance, spread, which every engine
    then measures exactly. ``groups`` names sets of keys whose share of the weight is wanted: a mask (True = in the
    group), or a boolean tensor over the keys, (S,) or (B, S).

    >>> import torch, regard
    >>> q, k, v = torch.zeros(1, 2, 3, 4), torch.ones(1, 2, 5, 4), torch.ones(1, 2, 5, 4)
    >>> r = read(q, k, v, groups={"first": torch.arange(5) < 1}, telemetry="entropy")
    >>> round(r.evenness[0, 0, 0].item(), 3), round(r.mass["first"][0, 0, 0].item(), 3)
    (1.0, 0.2)
    """
    if has_torch_function((q, k, v)):
        parts: dict[str, Any] = {"score": score, "normalize": normalize, "mask": mask}
        parts |= {"engine": engine, "dropout": dropout, "telemetry": telemetry, "groups": groups}
        found: Reading = handle_torch_function(read, (q, k, v), q, k, v, **parts)
        return found
    c, lead = composition(q, k, v, score, normalize, mask, dropout)
    wanted = _wanted(telemetry, groups, c)
    measured = wanted.cheap or bool(wanted.names or wanted.groups)
    chosen = choose(c, ENGINES, engine, measured).engine
    r = chosen.read(c, wanted)
    if not chosen.reports and _strange(r.lse):
        report_non_finite(c, stacklevel=3)
    return r.reshaped(lead)


def scores(q: Tensor, k: Tensor, *, score: Score | str = "scaled_dot", mask: Mask | None = None) -> Tensor:
    """s_ij = score(q_i, k_j), before normalising: (…, H, L, S), −inf where query i may not see key j. Dense.

    >>> import torch
    >>> scores(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.2], [0.5, 0.9]]), score="dot")
    tensor([[1.0000, 0.5000]])
    """
    c, lead = composition(q, k, k, score, "softmax", mask, 0.0)
    return Reference().scores(c).reshape(*lead, c.grid.L, c.grid.S)


def weights(
    q: Tensor,
    k: Tensor,
    *,
    score: Score | str = "scaled_dot",
    normalize: Normalizer | str = "softmax",
    mask: Mask | None = None,
) -> Tensor:
    """w_i = normalise(s_i): (…, H, L, S), ≥ 0, each row summing to 1, or to 0 when it may see nothing. Dense.

    >>> import torch
    >>> weights(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.2], [1.0, 0.9]]), score="dot")
    tensor([[0.5000, 0.5000]])
    """
    c, lead = composition(q, k, k, score, normalize, mask, 0.0)
    return Reference().weights(c).reshape(*lead, c.grid.L, c.grid.S)


def explain(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    score: Score | str = "scaled_dot",
    normalize: Normalizer | str = "softmax",
    mask: Mask | None = None,
    engine: str = "auto",
    dropout: float = 0.0,
) -> Plan:
    """Which engine would run this read, why, why the others would not, and what it costs. Reads nothing.

    The lower bound on time is from the machine's rates of multiplying and copying, measured once when it is printed.

    >>> import torch
    >>> q = torch.randn(1, 2, 3, 4)
    >>> print(explain(q, q, q, normalize="sparsemax"))  # doctest: +ELLIPSIS
    engine   reference: the least time by rough count, ...
    refused  sdpa: normalize Sparsemax: only softmax is fused
    refused  flex: ...
    refused  triton: ...
    cost     ...
    bound    ...
    """
    c, _ = composition(q, k, v, score, normalize, mask, dropout)
    return choose(c, ENGINES, engine).plan(c)


def composition(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    score: Score | str,
    normalize: Normalizer | str,
    mask: Mask | None,
    dropout: float,
) -> tuple[Composition, tuple[int, ...]]:
    """The parts in place, q, k, v as four axes, and the leading axes to give the result back with."""
    score, normalize = score_functions.named(score), normalizers.named(normalize)
    if isinstance(mask, Tensor):
        mask = masks.dense(mask)
    if mask is not None and not isinstance(mask, Mask):
        raise RegardError(f"mask: found {type(mask).__name__}, wanted an object of regard.mask, or None")
    if not 0.0 <= dropout < 1.0:
        raise RegardError(f"dropout: found {dropout}, wanted a probability, 0 ≤ dropout < 1")
    _check_tensors(q, k, v)
    score.check_widths(q.shape[-1], k.shape[-1])
    lead = tuple(q.shape[:-2])
    batch = lead[:-1]
    q, k, v = (_four_axes(name, x, batch) for name, x in (("q", q), ("k", k), ("v", v)))
    B, H, L, _ = q.shape
    G, S = k.shape[1], k.shape[2]
    if H % G:
        raise RegardError(
            f"k: found G = {G} key heads for H = {H} query heads, wanted H a multiple of G; axes are counted from "
            "the right, "
            "so (B, L, D) is read as (H, L, D): add the head axis with unsqueeze(1)"
        )
    c = Composition(q, k, v, score, normalize, mask, Grid.of(B, H, L, S, q.device), dropout)
    return c, lead


def _check_tensors(q: Tensor, k: Tensor, v: Tensor) -> None:
    for name, x, axes in (("q", q, "(…, H, L, D)"), ("k", k, "(…, G, S, D)"), ("v", v, "(…, G, S, E)")):
        if not isinstance(x, Tensor):
            raise RegardError(f"{name}: found {type(x).__name__}, wanted a tensor {axes}")
        if x.dim() < 2 or not x.is_floating_point():
            raise RegardError(
                f"{name}: found {tuple(x.shape)} of {x.dtype}, wanted a floating tensor {axes} with two axes or more"
            )
        if x.dtype != q.dtype or x.device != q.device:
            raise RegardError(
                f"{name}: found {x.dtype} on {x.device}, q is {q.dtype} on {q.device}; wanted the same: {name}.to(q)"
            )
    if k.shape[-2] != v.shape[-2]:
        raise RegardError(
            f"v: found S = {v.shape[-2]} values for S = {k.shape[-2]} keys (k {tuple(k.shape)}, v {tuple(v.shape)}), "
            "wanted one "
            "value a key"
        )
    if k.shape[-3:-2] != v.shape[-3:-2]:
        raise RegardError(f"v: found {tuple(v.shape)}, k is {tuple(k.shape)}; wanted the same G key-value heads")


def _four_axes(name: str, x: Tensor, batch: tuple[int, ...]) -> Tensor:
    """(…, H, L, D) as (B, H, L, D). Leading axes that are missing, or 1, are shared by the whole batch."""
    if x.dim() == 4 and batch == tuple(x.shape[:1]):
        return x
    x = x.reshape((1,) * (3 - x.dim()) + tuple(x.shape))
    own = tuple(x.shape[:-3])
    padded = (1,) * (len(batch) - len(own)) + own
    if len(padded) != len(batch) or any(n not in (1, wanted) for n, wanted in zip(padded, batch, strict=True)):
        raise RegardError(
            f"{name}: found leading axes {own}, q has {batch}; wanted the same, 1, or none (left of H everything is "
            "batch)"
        )
    x = x.reshape(*padded, *x.shape[-3:])
    return x.expand(*batch, *x.shape[-3:]).reshape(math.prod(batch), *x.shape[-3:])


def _strange(lse: Tensor) -> bool:
    """Whether q or k may hold what is no number: then Λ is none either, and it is the cheaper to look at."""
    if torch.compiler.is_compiling() or lse.device.type != "cpu":
        return False
    try:
        return not bool((lse.detach() < torch.inf).all())
    except RuntimeError:  # a tensor without data, or with many at once
        return False


def _wanted(
    telemetry: bool | str | Iterable[str], groups: Mapping[str, Mask | Tensor] | None, c: Composition
) -> Wanted:
    members = {name: _group(name, group, c) for name, group in (groups or {}).items()}
    if isinstance(telemetry, bool):
        return Wanted(cheap=telemetry, groups=members)
    names = frozenset([telemetry] if isinstance(telemetry, str) else telemetry)
    known = TELEMETRY - {"mass"}
    for name in sorted(names - known):
        raise unknown_name("telemetry", name, known)
    return Wanted(names=names, groups=members)


def _group(name: str, group: Mask | Tensor, c: Composition) -> Mask:
    if isinstance(group, Mask):
        return group
    if (
        isinstance(group, Tensor)
        and group.dtype == torch.bool
        and group.dim() in (1, 2)
        and group.shape[-1] == c.grid.S
    ):
        return masks.dense(group[..., None, None, :])
    found = f"{tuple(group.shape)} of {group.dtype}" if isinstance(group, Tensor) else type(group).__name__
    raise RegardError(
        f"groups[{name!r}]: found {found}, wanted a mask, or booleans over the keys (S,) or (B, S), S = {c.grid.S}"
    )
