"""The paper read on its own: Graves et al. 2016, Methods, in plain loops over Python floats, one batch row at a time.

Nothing here is shared with the package. Section names are the paper's.
"""

from __future__ import annotations

import math

Vector = list[float]
Matrix = list[Vector]


class Paper:
    """One memory of N rows of W numbers with R read heads, and its state between steps."""

    def __init__(self, slots: int, width: int, reads: int) -> None:
        self.N, self.W, self.R = slots, width, reads
        self.M = [[0.0] * width for _ in range(slots)]
        self.u = [0.0] * slots
        self.p = [0.0] * slots
        self.L = [[0.0] * slots for _ in range(slots)]
        self.ww = [0.0] * slots
        self.wr = [[0.0] * slots for _ in range(reads)]

    def step(self, xi: Vector) -> Matrix:
        """What the R heads read after one step with the raw interface vector ξ."""
        N, W, R = self.N, self.W, self.R

        # "Interface parameters": the order of ξ, and the range each part is brought into.
        rest = list(xi)

        def take(n: int) -> Vector:
            taken, rest[:] = rest[:n], rest[n:]
            return taken

        read_keys = [take(W) for _ in range(R)]
        read_strengths = [oneplus(x) for x in take(R)]
        write_key = take(W)
        write_strength = oneplus(take(1)[0])
        erase = [sigmoid(x) for x in take(W)]
        write_vector = take(W)
        free = [sigmoid(x) for x in take(R)]
        allocation_gate = sigmoid(take(1)[0])
        write_gate = sigmoid(take(1)[0])
        modes = [softmax(take(3)) for _ in range(R)]
        assert not rest

        # "Dynamic memory allocation": retention ψ, usage u, the free list φ, allocation weighting a.
        for n in range(N):
            psi = 1.0
            for r in range(R):
                psi *= 1.0 - free[r] * self.wr[r][n]
            self.u[n] = (self.u[n] + self.ww[n] - self.u[n] * self.ww[n]) * psi
        phi = sorted(range(N), key=lambda n: self.u[n])
        a = [0.0] * N
        for j in range(N):
            a[phi[j]] = 1.0 - self.u[phi[j]]
            for i in range(j):
                a[phi[j]] *= self.u[phi[i]]

        # "Write weighting".
        c = self.content(write_key, write_strength)
        w = [write_gate * (allocation_gate * a[n] + (1.0 - allocation_gate) * c[n]) for n in range(N)]

        # "Reading and writing to memory": erase and write.
        for n in range(N):
            for k in range(W):
                self.M[n][k] = self.M[n][k] * (1.0 - w[n] * erase[k]) + w[n] * write_vector[k]

        # "Temporal memory linkage": the link matrix from the precedence before it, then the precedence.
        for i in range(N):
            for j in range(N):
                self.L[i][j] = 0.0 if i == j else (1.0 - w[i] - w[j]) * self.L[i][j] + w[i] * self.p[j]
        all_written = sum(w)
        self.p = [(1.0 - all_written) * self.p[n] + w[n] for n in range(N)]

        # "Read weighting": modes are backward, content, forward.
        reads = []
        for r in range(R):
            before = self.wr[r]
            f = [sum(self.L[i][j] * before[j] for j in range(N)) for i in range(N)]
            b = [sum(self.L[j][i] * before[j] for j in range(N)) for i in range(N)]
            c = self.content(read_keys[r], read_strengths[r])
            pi = modes[r]
            self.wr[r] = [pi[0] * b[n] + pi[1] * c[n] + pi[2] * f[n] for n in range(N)]
            reads.append([sum(self.wr[r][n] * self.M[n][k] for n in range(N)) for k in range(W)])
        self.ww = w
        return reads

    def content(self, key: Vector, strength: float) -> Vector:
        """ "Content-based addressing". The paper's cosine has no ε; the package's has 10⁻⁶ in both norms."""
        scores = []
        for row in self.M:
            dot = sum(k * m for k, m in zip(key, row, strict=True))
            norms = (sum(k * k for k in key) + 1e-6) * (sum(m * m for m in row) + 1e-6)
            scores.append(strength * dot / math.sqrt(norms))
        return softmax(scores)


def oneplus(x: float) -> float:
    return 1.0 + math.log(1.0 + math.exp(x))


def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


def softmax(xs: Vector) -> Vector:
    total = sum(math.exp(x) for x in xs)
    return [math.exp(x) / total for x in xs]
