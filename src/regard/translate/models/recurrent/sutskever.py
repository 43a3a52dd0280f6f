"""The encoder-decoder that hands its state over once (Sutskever, Vinyals & Le 2014, arXiv:1409.3215)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from regard.translate.models.recurrent.config import Sutskever
from regard.translate.models.recurrent.parts import initialise
from regard.translate.models.recurrent.readers import full
from regard.translate.models.recurrent.stacked import Stacked

__all__ = ["Model", "Nothing"]

State = tuple[Tensor, Tensor]  # every layer's h and c (B, L, N, n)


@dataclass(frozen=True)
class Nothing:
    """What is left of a source to look at once its state is handed over: only its ``lengths`` (B,)."""

    lengths: Tensor


class Model(Stacked[Nothing, State]):
    """h_t, the top of the stack, says y_t: p ∝ exp(W_s h_t). It never looks back, and no context is given.

    The article's stack has 4 layers of 1000 and reads the source reversed, ``reverse``. It names Graves (2013) for its
    cell, whose gates see the cell as well (peepholes); these are ``nn.LSTM``'s.
    """

    config: Sutskever

    def __init__(self, config: Sutskever) -> None:
        super().__init__(config, fed=0)
        initialise(self, config.hidden)

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Nothing, State]:
        """Reads ``source`` (B, S) up to ``lengths`` (B,): nothing, and every layer's last h and c (B, 1, N, n)."""
        _, h, c = self.read(source, lengths)
        return Nothing(lengths), (h, c)

    def step(self, state: State, previous: Tensor, memory: Nothing) -> tuple[Tensor, State]:
        """One target position for L beginnings of each sentence: log-probabilities (B, L, V), and the state after."""
        given = self.decoder.inputs(self.embed(previous))
        top, h, c = self.decoder.once(given, None, *state, self.decoder.joined(self.config.embedding))
        return self.vocabulary(self.drop(top)), (h, c)

    def hidden(self, source: Tensor, lengths: Tensor, previous: Tensor) -> Tensor:
        """h (B, T, n) of a given target: one run of the stack."""
        _, (h, c) = self.encode(source, lengths)
        return self.drop(full(self.decoder.go_on(self.embed(previous), h[:, 0], c[:, 0])))

    def align(self, source: Tensor, lengths: Tensor, previous: Tensor) -> Tensor:
        """(B, 0, 0, T, S): nothing is looked at."""
        return self.output.weight.new_zeros(source.shape[0], 0, 0, previous.shape[1], source.shape[1])
