"""What every translator is: it reads a source, says a target piece by piece, and tells where it looked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, Protocol, TypeVar, runtime_checkable

from torch import Tensor, nn

__all__ = ["Branches", "EncoderDecoder", "Looks"]

Memory = TypeVar("Memory")
State = TypeVar("State")


class EncoderDecoder(nn.Module, ABC, Generic[Memory, State]):
    """p(y | x) = Π_i p(y_i | y_<i, x): the five questions that training, searching and looking ask of a model.

    A memory is what the encoder made of a batch of sources: a dataclass of tensors, or tuples of them, whose axes begin
    with B, so that sentences can leave a batch. A state is what the decoder carries from step to step: a tensor, or a
    tuple of tensors, whose axes begin with (B, L) for L beginnings of each target, or what knows how it
    :class:`Branches`. Every beginning reads its sentence's one memory, which is never copied.
    """

    config: Any  # Sizes; each model knows its own

    #: Sentences that are padded to the same multiple of so many pieces may be translated together: what is longer or
    #: shorter beside one leaves its bits alone. With 1 only those of one length may.
    grain: ClassVar[int] = 8

    @abstractmethod
    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Memory, State]:
        """Reads ``source`` (B, S) up to ``lengths`` (B,): the memory, and the state before the first step, L = 1."""

    @abstractmethod
    def step(self, state: State, previous: Tensor, memory: Memory) -> tuple[Tensor, State]:
        """Unnormalised log-probabilities (B, L, V) of the piece after ``previous`` (B, L), and the state then."""

    @abstractmethod
    def hidden(self, source: Tensor, lengths: Tensor, previous: Tensor) -> Tensor:
        """What is read out before each piece of a given target, right-shifted as ``previous`` (B, T): (B, T, width)."""

    @abstractmethod
    def vocabulary(self, hidden: Tensor) -> Tensor:
        """Unnormalised log-probabilities (..., V) of what :meth:`hidden` gave (..., width)."""

    @abstractmethod
    def align(self, source: Tensor, lengths: Tensor, previous: Tensor) -> Tensor:
        """Where the decoder looks before each piece of a given target, by layer and head: (B, N, H, T, S).

        Exactly 0 on padding; a row sums to 1. A model with one look a step has N = H = 1.
        """

    def forward(self, source: Tensor, lengths: Tensor, previous: Tensor) -> Tensor:
        """Unnormalised log-probabilities (B, T, V) of a target whose right-shifted pieces are ``previous`` (B, T)."""
        return self.vocabulary(self.hidden(source, lengths, previous))


@runtime_checkable
class Branches(Protocol):
    """A state that knows what becomes of it when beginnings change places; one of plain tensors is indexed."""

    def spread(self, width: int) -> Branches:
        """So many beginnings (B, L) of what has one, before the first step."""

    def taken(self, parent: Tensor) -> Branches:
        """Beginning l of each target becomes what ``parent`` (B, L) was."""

    def of(self, rows: Tensor) -> Branches:
        """These targets alone."""


@runtime_checkable
class Looks(Protocol):
    """What a model that looks at its source can say beside: where a step looked. One that never looks lacks it."""

    def step_looking(self, state: Any, previous: Tensor, memory: Any) -> tuple[Tensor, Any, Tensor]:
        """What :meth:`EncoderDecoder.step` gives, and the weights of its looks by layer and head: (B, N, H, L, S)."""
