"""The article's equations, one place after another, from a model's parameters: what the model is compared with.

Vaswani et al. 2017 (arXiv:1706.03762), sections 3.1 to 3.5; norm "pre" as in Xiong et al. 2020 (arXiv:2002.04745).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor

from regard.translate.models.transformer.model import Model

Parameters = Mapping[str, Tensor]
Rows = list[Tensor]  # a vector of each place


def transformer(model: Model, source: list[int], previous: list[int]) -> Tensor:
    """Logits (T, V) for one sentence."""
    p, config = dict(model.named_parameters()), model.config
    x = [embedded(p["source_embedding.weight"], piece, s, config.width) for s, piece in enumerate(source)]
    y = [embedded(p["target_embedding.weight"], piece, t, config.width) for t, piece in enumerate(previous)]
    norm, count = config.norm, config.heads
    for n in range(config.layers):
        at = f"encoder.{n}"
        x = residual(p, f"{at}.after_own", norm, x, partial(itself, p, f"{at}.own", count))
        x = residual(p, f"{at}.after_feed", norm, x, partial(feed, p, f"{at}.feed"))
    x = last(p, "encoder_norm", norm, x)
    for n in range(config.layers):
        at = f"decoder.{n}"
        y = residual(p, f"{at}.after_own", norm, y, partial(what_is_before, p, f"{at}.own", count))
        y = residual(p, f"{at}.after_cross", norm, y, partial(heads, p, f"{at}.cross", count, x))
        y = residual(p, f"{at}.after_feed", norm, y, partial(feed, p, f"{at}.feed"))
    y = last(p, "decoder_norm", norm, y)
    return torch.stack([p["target_embedding.weight"] @ z for z in y])


def embedded(table: Tensor, piece: int, place: int, d: int) -> Tensor:
    """√d · E x + PE (sections 3.4 and 3.5)."""
    pe = [0.0] * d
    for i in range(d // 2):
        angle = place / 10_000 ** (2 * i / d)
        pe[2 * i], pe[2 * i + 1] = math.sin(angle), math.cos(angle)
    return math.sqrt(d) * table[piece] + torch.tensor(pe).to(table)  # rounded to the default type, as the table is


def residual(p: Parameters, at: str, norm: str, x: Rows, f: Callable[[Rows], Rows]) -> Rows:
    """LN(x + f(x)), or x + f(LN(x))."""
    if norm == "post":
        return [normed(p, f"{at}.norm", a + b) for a, b in zip(x, f(x), strict=True)]
    return [a + b for a, b in zip(x, f([normed(p, f"{at}.norm", a) for a in x]), strict=True)]


def last(p: Parameters, at: str, norm: str, x: Rows) -> Rows:
    return [normed(p, at, a) for a in x] if norm == "pre" else x


def normed(p: Parameters, at: str, x: Tensor) -> Tensor:
    mean = x.sum() / len(x)
    variance = (x - mean).square().sum() / len(x)
    return p[f"{at}.weight"] * (x - mean) / torch.sqrt(variance + 1e-5) + p[f"{at}.bias"]


def feed(p: Parameters, at: str, x: Rows) -> Rows:
    """max(0, x W_1 + b_1) W_2 + b_2 (equation 2)."""
    inner = [torch.clamp(p[f"{at}.0.weight"] @ a + p[f"{at}.0.bias"], min=0) for a in x]
    return [p[f"{at}.2.weight"] @ a + p[f"{at}.2.bias"] for a in inner]


def itself(p: Parameters, at: str, count: int, x: Rows) -> Rows:
    """Every place looks at all."""
    return heads(p, at, count, x, x)


def what_is_before(p: Parameters, at: str, count: int, y: Rows) -> Rows:
    """Every place looks at those up to it."""
    return [heads(p, at, count, y[: t + 1], [y[t]])[0] for t in range(len(y))]


def heads(p: Parameters, at: str, count: int, seen: Rows, asking: Rows) -> Rows:
    """Concat(head_1, …) W^O, each head softmax(q · k / √d_k) v (equation 1, section 3.2.2)."""

    def project(part: str, x: Tensor) -> Tensor:
        return (p[f"{at}.{part}.weight"] @ x + p[f"{at}.{part}.bias"]).view(count, -1)

    out = []
    for a in asking:
        q, found = project("query", a), []
        for h in range(count):
            scores = [float(q[h] @ project("key", b)[h]) / math.sqrt(q.shape[1]) for b in seen]
            total = sum(math.exp(s) for s in scores)
            parts = [math.exp(s) / total * project("value", b)[h] for s, b in zip(scores, seen, strict=True)]
            found.append(torch.stack(parts).sum(0))
        out.append(p[f"{at}.out.weight"] @ torch.cat(found) + p[f"{at}.out.bias"])
    return out
