"""AXS: softmax over the wrong axis, heads paired, split or merged wrong, tokens where heads should be."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from regard.doctor.finding import Finding
from regard.doctor.watch.eager import WrongAxis
from regard.doctor.watch.faults.seen import Seen
from regard.doctor.watch.trail import Read


def wrong_axis(wrong: WrongAxis) -> Finding:
    place = wrong.weights.place
    message = (
        f"the softmax runs over an axis of {wrong.length} places, and the values are summed over one of {wrong.wanted}"
    )
    dim = wrong.weights.dim
    return Finding("AXS001", message, place.path, place.source, {"softmax_dim": dim})


def axis_findings(seen: Seen) -> Iterator[Finding]:
    """What the shape of the queries says of how the last axis of their projection was cut into heads."""
    call = seen.call
    tag, shape = call.of_q, call.asked
    if tag is None or shape is None or not tag.split or len(tag.frame) != 2:
        return
    (B, T), D = tag.frame, shape[-1]
    heads = tag.width // D
    if heads < 2 or T < 2:
        return
    axis = call.query_axis
    if len(shape) == 4 and tag.tokens is not None and axis != 4 + tag.tokens and shape[axis] == heads:
        message = f"queries are {tuple(shape)}, of {T} tokens and {heads} heads, and axis {axis} is read as the tokens'"
        yield seen.finding("AXS004", message)
        return
    if tag.moved or len(shape) not in (3, 4):
        return
    viewed = shape[1:3] == (heads, T) if len(shape) == 4 else shape[:2] == (B * heads, T)
    if viewed and tag.tokens is None:
        yield seen.finding("AXS003", f"a projection {(B, T, tag.width)} is viewed as {tuple(shape)} as it is")


def head_order(seen: Seen) -> Iterator[Finding]:
    """Keys with a head for each query head are compared with each other: groups in turn, or one after the other."""
    if seen.call.expanded is None:
        return
    for name, x in zip(("keys", "values"), seen.call.expanded, strict=True):
        G = _tiled(x)
        if G:
            H = x.shape[1]
            yield seen.finding(
                "AXS002",
                f"{G} heads of {name} are repeated as a whole: query head h of {H} reads h % {G}, not h // {H // G}",
                query_heads=H,
                key_heads=G,
            )
            return


def _tiled(x: Tensor) -> int:
    """G where head h equals head h % G and not its neighbour; 0 where heads don't repeat so."""
    H = x.shape[1]
    few = x[:1, :, :: max(1, x.shape[2] // 8)]
    for G in range(2, H // 2 + 1):
        if H % G or torch.equal(few[:, 0], few[:, 1]) or not torch.equal(few[:, 0], few[:, G]):
            continue
        if torch.equal(x, x[:, :G].repeat(1, H // G, 1, 1)):
            return G
    return 0


def merged(tag: Read, given: Tensor, weight: Tensor | None) -> Iterator[Finding]:
    """What the projection of the heads' outputs says: they were merged as they lay, or one of them is unused."""
    B, H, L, _ = tag.call.shape
    E, place = tag.call.v.shape[-1], tag.call.place
    if not tag.merged or H < 2 or not tag.call.heads:
        return
    if not tag.moved:
        if L > 1:
            message = f"outputs (B, H, L, E) = {(B, H, L, E)} are viewed as {tuple(given.shape)} as they are"
            yield Finding("AXS003", message, place.path, place.source)
        return
    if weight is None or weight.shape[-1] != H * E:
        return
    norms = weight.detach().reshape(-1, H, E).abs().amax((0, 2))
    dead = [h for h in range(H) if float(norms[h]) == 0.0]
    if dead and len(dead) < H:
        message = f"the output projection has only zeros for head {', '.join(map(str, dead))}"
        yield Finding("HED001", message, place.path, place.source, {"heads": ", ".join(map(str, dead))})
