"""A query that asks for nothing in particular."""

import math

import torch

import regard


def nothing_in_particular() -> dict[str, list[float]]:
    """Equal scores give the plain average and the largest entropy there is, log n. It is a read, but not a choice.

    Evenness, entropy as a share of log n, can be compared between rows that see different numbers of keys.
    """
    memory = torch.tensor([[1.0, 0.1], [0.5, 0.5], [0.0, 1.0], [-0.8, 0.2]])
    found: dict[str, list[float]] = {}
    for name, query in (("nothing", [[0.0, 0.0]]), ("something", [[1.0, 0.0]]), ("one thing", [[20.0, 0.0]])):
        r = regard.read(torch.tensor(query), memory, memory, score="dot", telemetry="entropy")
        assert r.entropy is not None
        found[f"{name}: read"] = r.output[0].tolist()
        found[f"{name}: entropy, evenness"] = [r.entropy.item(), r.evenness.item()]
    found["plain average"] = memory.mean(0).tolist()
    found["log 4"] = [math.log(4)]
    return found
