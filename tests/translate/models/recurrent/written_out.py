"""The articles' equations, one number after another, from a model's parameters: what the models are compared with.

Cho et al. 2014 (arXiv:1406.1078, appendix A), Sutskever et al. 2014 (arXiv:1409.3215), Luong et al. 2015
(arXiv:1508.04025, sections 3.1 to 3.3), with PyTorch's cells where ``docs/encoder-decoders.md`` says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.translate.models.encoder_decoder import EncoderDecoder

Parameters = Mapping[str, Tensor]


def lstm(p: Parameters, stack: str, layers: int, x: Tensor, state: list[tuple[Tensor, Tensor]]) -> Tensor:
    """One step of a stack; ``state`` is moved on."""
    for n in range(layers):
        h, c = state[n]
        a = p[f"{stack}.weight_ih_l{n}"] @ x + p[f"{stack}.bias_ih_l{n}"]
        a = a + p[f"{stack}.weight_hh_l{n}"] @ h + p[f"{stack}.bias_hh_l{n}"]
        i, f, g, o = a.chunk(4)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        state[n] = torch.sigmoid(o) * torch.tanh(c), c
        x = state[n][0]
    return x


def stacked(model: EncoderDecoder[Any, Any], source: list[int], previous: list[int]) -> tuple[Tensor, Tensor]:
    """Logits (T, V) and looks (T, S) of Sutskever's and Luong's models for one sentence."""
    p, config = dict(model.named_parameters()), model.config
    layers, n, S = config.layers, config.hidden, len(source)
    state = [(torch.zeros(n).double(), torch.zeros(n).double()) for _ in range(layers)]
    memory = [torch.zeros(0)] * S
    for s in [*range(S - 2, -1, -1), S - 1] if config.reverse else range(S):  # the end mark is read last
        memory[s] = lstm(p, "encoder", layers, p["source_embedding.weight"][source[s]], state)
    logits, looks, fed = [], [], torch.zeros(n).double()
    for t, piece in enumerate(previous):
        x = p["target_embedding.weight"][piece]
        h = lstm(p, "decoder", layers, torch.cat([x, fed]) if getattr(config, "feeding", False) else x, state)
        if "joint.weight" in p:
            a = look(p, config, h, memory, t)
            context = sum(a[s] * memory[s] for s in range(S))
            assert isinstance(context, Tensor)
            h = fed = torch.tanh(p["joint.weight"] @ torch.cat([context, h]))  # equation 5
            looks.append(a)
        logits.append(p["output.weight"] @ h)  # equation 6
    return torch.stack(logits), torch.stack(looks) if looks else torch.zeros(len(previous), 0)


def look(p: Parameters, config: Any, h: Tensor, memory: list[Tensor], t: int) -> Tensor:
    """a_t (S,): equations 7 to 10."""

    def score(m: Tensor) -> float:  # equation 8
        if config.score == "dot":
            return float(h @ m)
        if config.score == "general":
            return float(h @ p["score.weight"] @ m)
        return float(p["score.energy"] @ torch.tanh(p["score.weight"] @ torch.cat([h, m])))

    S, D = len(memory), config.reach
    centre = float(t)
    if config.look == "local-p":  # equation 9
        centre = S * float(torch.sigmoid(p["place.energy"] @ torch.tanh(p["place.project.weight"] @ h)))
    seen = [s for s in range(S) if config.look == "global" or centre - D <= s <= centre + D]
    a = torch.zeros(S).double()
    scores = {s: score(memory[s]) for s in seen}
    for s in seen:
        if config.normalize == "softmax":  # equation 7
            a[s] = math.exp(scores[s]) / sum(math.exp(other) for other in scores.values())
        else:  # sparsemax: max(score − τ, 0) with τ so that they sum to 1 (Martins & Astudillo 2016)
            tau = max((sum(top) - 1) / len(top) for top in tops(list(scores.values())))
            a[s] = max(scores[s] - tau, 0.0)
        if config.look == "local-p":  # equation 10: σ = D/2
            a[s] *= math.exp(-((s - centre) ** 2) / (2 * (D / 2) ** 2))
    return a


def tops(scores: list[float]) -> list[list[float]]:
    """The largest, the two largest, …"""
    ordered = sorted(scores, reverse=True)
    return [ordered[: n + 1] for n in range(len(ordered))]


def cho(model: EncoderDecoder[Any, Any], source: list[int], previous: list[int]) -> Tensor:
    """Logits (T, V) of Cho's model for one sentence: appendix A.1.1 with PyTorch's reset gate, A.1.2 as it stands."""
    p, n = dict(model.named_parameters()), model.config.hidden
    h = torch.zeros(n).double()
    for piece in source:
        x = p["encoder.weight_ih_l0"] @ p["source_embedding.weight"][piece] + p["encoder.bias_ih_l0"]
        u = p["encoder.weight_hh_l0"] @ h + p["encoder.bias_hh_l0"]
        r, z = torch.sigmoid(x[:n] + u[:n]), torch.sigmoid(x[n : 2 * n] + u[n : 2 * n])
        h = z * h + (1 - z) * torch.tanh(x[2 * n :] + r * u[2 * n :])
    c = torch.tanh(p["summary.weight"] @ h)
    s = torch.tanh(p["first.weight"] @ c)
    W_r, W_z, W = p["cell_previous.weight"].split(n)
    U_r, U_z, U = p["cell_state.weight"].split(n)
    C_r, C_z, C = p["cell_context.weight"].split(n)
    b_r, b_z, b = p["cell_previous.bias"].split(n)
    d_r, d_z, d = p["cell_state.bias"].split(n)
    logits = []
    for piece in previous:
        e = p["target_embedding.weight"][piece]
        r = torch.sigmoid(W_r @ e + U_r @ s + C_r @ c + b_r + d_r)
        z = torch.sigmoid(W_z @ e + U_z @ s + C_z @ c + b_z + d_z)
        s = z * s + (1 - z) * torch.tanh(W @ e + b + r * (U @ s + C @ c + d))
        t = p["readout_state.weight"] @ s + p["readout_state.bias"]
        t = t + p["readout_previous.weight"] @ e + p["readout_context.weight"] @ c
        maxout = torch.stack([torch.maximum(t[2 * i], t[2 * i + 1]) for i in range(len(t) // 2)])
        logits.append(p["output.weight"] @ maxout)
    return torch.stack(logits)
