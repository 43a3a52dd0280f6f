"""The sizes of the recurrent translators."""

from __future__ import annotations

from dataclasses import dataclass

from regard.translate.models.sizes import Sizes, choice, flag, whole

__all__ = ["Bahdanau", "Cho", "Luong", "Sutskever"]

_SCORE = "how a match is scored"
_NORMALIZE = "how the decoder weighs: softmax, sparsemax, entmax15 or hardmax"
_EMBEDDING = "width of the embeddings"
_HIDDEN = "width of the recurrent states"
_READOUT = "width of the maxout readout"
_LAYERS = "layers on each side"
_LOOK = "which places a step may look at: global, local-m or local-p"
_REVERSE = "whether the source is read from its last word to its first"
_NORMALIZERS = ("softmax", "sparsemax", "entmax15", "hardmax")


@dataclass(frozen=True, kw_only=True)
class Cho(Sizes):
    """One vector for the whole source. The article's: embeddings of rank m = 100, hidden n = 1000, readout l = 500."""

    embedding: int = whole(256, _EMBEDDING)
    hidden: int = whole(320, _HIDDEN)
    readout: int = whole(256, _READOUT)

    @property
    def parameters(self) -> int:
        """How many numbers a model of these sizes learns."""
        m, n, o = self.embedding, self.hidden, self.readout
        encoder = 3 * n * (m + n) + 6 * n
        handed = 2 * n * n  # V, V'
        return _embeddings(self, m) + encoder + handed + _gated(self, m, n, n, o)


@dataclass(frozen=True, kw_only=True)
class Sutskever(Sizes):
    """A state handed over once. The article's: embedding m = 1000, hidden n = 1000, 4 layers, the source reversed."""

    embedding: int = whole(256, _EMBEDDING)
    hidden: int = whole(320, _HIDDEN)
    layers: int = whole(2, _LAYERS)
    reverse: bool = flag(False, _REVERSE)

    @property
    def parameters(self) -> int:
        """How many numbers a model of these sizes learns."""
        m, n = self.embedding, self.hidden
        return _embeddings(self, m) + 2 * _stack(m, n, self.layers) + n * self.target_vocabulary


@dataclass(frozen=True, kw_only=True)
class Bahdanau(Sizes):
    """The article's: embedding m = 620, hidden n = 1000, alignment 1000, readout l = 500, additive scores, softmax."""

    embedding: int = whole(256, _EMBEDDING)
    hidden: int = whole(320, _HIDDEN)
    alignment: int = whole(256, "width in which states and keys meet, where scores are additive")
    readout: int = whole(256, _READOUT)
    score: str = choice("additive", _SCORE, "additive", "general")
    normalize: str = choice("softmax", _NORMALIZE, *_NORMALIZERS)

    @property
    def parameters(self) -> int:
        """How many numbers a model of these sizes learns."""
        m, n, a, o = self.embedding, self.hidden, self.alignment, self.readout
        encoder = 2 * (3 * n * (m + n) + 6 * n)
        start = n * n
        align = a * (n + 2 * n) + a if self.score == "additive" else n * 2 * n
        return _embeddings(self, m) + encoder + start + align + _gated(self, m, n, 2 * n, o)


@dataclass(frozen=True, kw_only=True)
class Luong(Sizes):
    """The article's: embedding m = 1000, hidden n = 1000, 4 layers, D = 10; best with local-p, general and feeding."""

    embedding: int = whole(256, _EMBEDDING)
    hidden: int = whole(320, _HIDDEN)
    layers: int = whole(2, _LAYERS)
    score: str = choice("general", _SCORE, "dot", "general", "concat")
    look: str = choice("global", _LOOK, "global", "local-m", "local-p")
    reach: int = whole(10, "neighbours on each side that a window shows")
    normalize: str = choice("softmax", _NORMALIZE, *_NORMALIZERS)
    feeding: bool = flag(True, "whether a step is fed what the step before was read out of")
    reverse: bool = flag(False, _REVERSE)

    @property
    def parameters(self) -> int:
        """How many numbers a model of these sizes learns."""
        m, n = self.embedding, self.hidden
        stacks = _stack(m, n, self.layers) + _stack(m + n if self.feeding else m, n, self.layers)
        score = {"dot": 0, "general": n * n, "concat": n * 2 * n + n}[self.score]
        place = n * n + n if self.look == "local-p" else 0  # W_p, v_p
        joined = 2 * n * n  # W_c
        return _embeddings(self, m) + stacks + score + place + joined + n * self.target_vocabulary


def _embeddings(config: Sizes, m: int) -> int:
    return m * (config.source_vocabulary + config.target_vocabulary)


def _gated(config: Sizes, m: int, n: int, context: int, o: int) -> int:
    """A decoder's gated unit that is given a context, its maxout readout, and the output."""
    cell = 3 * n * (m + context + n) + 6 * n
    return cell + 2 * o * (n + m + context) + 2 * o + config.target_vocabulary * o


def _stack(inputs: int, n: int, layers: int) -> int:
    """PyTorch's long short-term memories on each other: four gates, two biases each."""
    return layers * (4 * n * n + 8 * n) + 4 * n * (inputs + (layers - 1) * n)
