"""Graves, Wayne & Danihelka 2014, "Neural Turing Machines", read with plain loops over numbers of Python.

Equation numbers are the paper's. The one thing that is not in it is ε inside the root of equation 6.
"""

from __future__ import annotations

from math import exp, sqrt

EPS = 1e-6

Row = list[float]


def address(memory: list[Row], last: Row, key: Row, strength: float, gate: float, moves: Row, sharpness: float) -> Row:
    """Equations 5 to 9, for one head."""
    slots = len(memory)
    scores = []
    for row in memory:  # 6
        product = sum(k * m for k, m in zip(key, row, strict=True))
        scores.append(product / sqrt((sum(k * k for k in key) + EPS) * (sum(m * m for m in row) + EPS)))
    powers = [exp(strength * score) for score in scores]  # 5
    found = [power / sum(powers) for power in powers]
    mixed = [gate * a + (1 - gate) * b for a, b in zip(found, last, strict=True)]  # 7
    moved = []
    for i in range(slots):  # 8
        total = 0.0
        for j in range(slots):
            for at, share in enumerate(moves):
                if (i - j - (at - len(moves) // 2)) % slots == 0:
                    total += mixed[j] * share
        moved.append(total)
    raised = [w**sharpness for w in moved]  # 9
    return [w / sum(raised) for w in raised]


def write(memory: list[Row], weights: list[Row], erase: list[Row], add: list[Row]) -> list[Row]:
    """Equations 3 and 4: every head erases, then every head adds."""
    after = [list(row) for row in memory]
    for w, e in zip(weights, erase, strict=True):
        after = [[m * (1 - w[i] * e[j]) for j, m in enumerate(row)] for i, row in enumerate(after)]
    for w, a in zip(weights, add, strict=True):
        after = [[m + w[i] * a[j] for j, m in enumerate(row)] for i, row in enumerate(after)]
    return after


def read(memory: list[Row], weights: Row) -> Row:
    """Equation 2."""
    return [sum(w * row[j] for w, row in zip(weights, memory, strict=True)) for j in range(len(memory[0]))]
