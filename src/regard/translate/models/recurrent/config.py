"""The sizes of the recurrent translators."""

from __future__ import annotations

from dataclasses import dataclass

from regard.translate.models.sizes import Sizes, whole

__all__ = ["Bahdanau"]


@dataclass(frozen=True, kw_only=True)
class Bahdanau(Sizes):
    """The article's: embedding m = 620, hidden n = 1000, alignment 1000, readout l = 500."""

    embedding: int = whole(256, "width of the embeddings")
    hidden: int = whole(320, "width of the recurrent states")
    alignment: int = whole(256, "width in which states and keys meet")
    readout: int = whole(256, "width of the maxout readout")

    @property
    def parameters(self) -> int:
        """How many numbers a model of these sizes learns."""
        m, n, a, o = self.embedding, self.hidden, self.alignment, self.readout
        embeddings = m * (self.source_vocabulary + self.target_vocabulary)
        encoder = 2 * (3 * n * (m + n) + 6 * n)
        start = n * n
        align = a * (n + 2 * n) + a
        cell = 3 * n * (m + 2 * n + n) + 6 * n
        read_out = 2 * o * (n + m + 2 * n) + 2 * o + self.target_vocabulary * o
        return embeddings + encoder + start + align + cell + read_out
