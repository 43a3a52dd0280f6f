"""What reads and writes with stacks of long short-term memories; where one ends the other begins."""

from __future__ import annotations

from torch import Tensor, nn

from regard.translate.models.dropout import dropout
from regard.translate.models.encoder_decoder import EncoderDecoder, Memory, State
from regard.translate.models.recurrent.config import Luong, Sutskever
from regard.translate.models.recurrent.encoders import Stack, turned
from regard.translate.models.recurrent.parts import embedding
from regard.translate.models.recurrent.readers import full

__all__ = ["Stacked"]


class Stacked(EncoderDecoder[Memory, State]):
    """p(y_t | y_<t, x) ∝ exp(W_s h), h read out of the top of a stack that began where another ended.

    ::

        h_s, (h, c) = LSTM stack over E_x x                 every layer's last h and c are handed over
        h_t         = LSTM stack over E_y y, from (h, c)

    With ``reverse`` the source is read from its last word to its first; its end mark is still read last, and padding
    never: no more of it is reversed than the sentence is long. States are given back at the places of their words.

    Both stacks are ``nn.LSTM``: two biases a gate, no peepholes. Dropout falls on embeddings, on what goes up from
    layer to layer, and on what is read out, never along time (Zaremba et al. 2014, arXiv:1409.2329). Recurrent matrices
    start orthogonal, others by Glorot's rule, forget gates open, where the articles draw all from one interval.

    A source is never empty: it holds at least its end mark.
    """

    config: Luong | Sutskever
    grain = 1  # a packed LSTM multiplies as many rows as are still read, and how many changes the bits of each

    def __init__(self, config: Luong | Sutskever, fed: int) -> None:
        super().__init__()
        self.config = config
        m, n = config.embedding, config.hidden
        self.source_embedding = embedding(config.source_vocabulary, m)
        self.target_embedding = embedding(config.target_vocabulary, m)
        self.encoder = Stack(m, n, config.layers, config.dropout)
        self.decoder = Stack(m + fed, n, config.layers, config.dropout)
        self.output = nn.Linear(n, config.target_vocabulary, bias=False)  # W_s

    def read(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Top states (B, S, n), and the last h and c of every layer, (B, 1, N, n), of ``source`` (B, S)."""
        if not self.config.reverse:
            tops, h, c = self.encoder.read(self.drop(self.source_embedding(source)), lengths)
        else:
            order = turned(lengths - 1, source.shape[1]).t()  # (B, S); twice is where it was
            tops, h, c = self.encoder.read(self.drop(self.source_embedding(source.gather(1, order))), lengths)
            tops = tops.gather(1, order.unsqueeze(-1).expand_as(tops))
        return full(tops), full(h).unsqueeze(1), full(c).unsqueeze(1)

    def embed(self, previous: Tensor) -> Tensor:
        """E_y y of pieces (…): (…, m)."""
        return self.drop(self.target_embedding(previous))

    def vocabulary(self, hidden: Tensor) -> Tensor:
        """W_s h: (..., n) to (..., V)."""
        scores: Tensor = self.output(hidden)
        return scores

    def drop(self, x: Tensor) -> Tensor:
        """Dropout in training."""
        return dropout(x, self.config.dropout, self.training)
