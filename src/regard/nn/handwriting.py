"""The network that writes a text by hand: recurrent layers, a soft window on the text, a pen (Graves 2013)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RegardError
from regard.memory.soft_window import Moved, SoftWindow, WindowState
from regard.nn.mixture import PenMixture
from regard.nn.stepped import PeepholeLSTM, SteppedLSTM, walked

__all__ = ["Followed", "HandState", "HandwritingSynthesis", "Line"]


class HandState(NamedTuple):
    """What is carried from one step to the next."""

    window: WindowState
    """The text, and where the windows are."""
    read: Tensor
    """w, what was read last (B, E)."""
    hidden: Tensor
    """(B, layers, hidden)"""
    cell: Tensor
    """(B, layers, hidden)"""


class Followed(NamedTuple):
    """What a network makes of strokes it is shown."""

    pen: PenMixture
    """Where the pen goes after each of them, axes (B, T)."""
    weights: Tensor
    """φ (B, T, U), which sum to no 1."""
    places: Tensor
    """κ (B, T, K)."""

    @property
    def place(self) -> Tensor:
        """Σ_u φ u / Σ_u φ, the place that is looked at, from 1 on: (B, T); 0 where every weight is 0."""
        return mean_place(self.weights)


class Line(NamedTuple):
    """What was written; rows end where they end."""

    strokes: Tensor
    """(B, T, 3): how far the pen went, across and up, and 1 where a stroke ended there; 0 behind the end."""
    valid: Tensor
    """Booleans (B, T), True at the points a row has."""
    weights: Tensor
    """φ (B, T, U) when each point was drawn; 0 behind the end."""
    ended: Tensor
    """Booleans (B,): whether the windows went past the text, and it wasn't the limit that ended the row."""


class HandwritingSynthesis(nn.Module):
    """h¹_t = LSTM([x_t, w_{t−1}], h¹_{t−1}); windows move by a linear map of h¹_t and read w_t;
    hⁿ_t = LSTM([x_t, hⁿ⁻¹_t, w_t], hⁿ_{t−1}); the pen's density is a linear map of all hⁿ_t.

    x_t is where the pen went, and whether it left the paper; the density is that of x_{t+1}. The window that layer 1
    sees is of the step before, that of the other layers of this one. The first input is 0, and so is all that is
    carried: the windows stand before the text.

    Args:
        characters: how many kinds of them there are; a text is integers below it.
        hidden: cells of every layer.
        layers: how many.
        windows: K.
        mixtures: how many Gaussians the density has.
        peepholes: whether gates see the cells, as in the paper; without them it is PyTorch's LSTM, which takes a
            sequence at once in the layers behind the first and trains some times faster.
        pace: how far, in characters a step, windows go before anything is learnt. It is where the bias of κ̂ starts and
            nothing else; by exp(0) = 1 they would be past the text before a letter is drawn.

    The defaults are the sizes of the paper. In half precision windows are kept, and the density computed, in float32.

    Source: Graves 2013, sections 2.1, 4.1 and 5.

    >>> hand = HandwritingSynthesis(characters=5, hidden=7, mixtures=3)
    >>> text = torch.tensor([[0, 4, 2]])
    >>> hand.loss(torch.zeros(1, 11, 3), text).shape, hand.write(text, limit=6).strokes.shape
    (torch.Size([]), torch.Size([1, 6, 3]))
    """

    def __init__(
        self,
        characters: int,
        hidden: int = 400,
        *,
        layers: int = 3,
        windows: int = 10,
        mixtures: int = 20,
        peepholes: bool = True,
        pace: float = 0.05,
    ) -> None:
        super().__init__()
        sizes = {"characters": characters, "hidden": hidden, "layers": layers, "windows": windows, "mixtures": mixtures}
        for name, value in sizes.items():
            if type(value) is not int or value < 1:
                raise RegardError(f"HandwritingSynthesis: {name} is {value!r}, wanted a whole number of at least 1")
        if not 0 < pace < math.inf:
            raise RegardError(f"HandwritingSynthesis: pace is {pace}, wanted characters a step above 0, as 0.05")
        self.memory = SoftWindow(characters, windows)
        layer = PeepholeLSTM if peepholes else SteppedLSTM
        widths = [3 + characters, *[3 + characters + hidden] * (layers - 1)]
        self.layers = nn.ModuleList(layer(width, hidden) for width in widths)
        self.tell = nn.Linear(hidden, 3 * windows)
        self.answer = nn.Linear(layers * hidden, 6 * mixtures + 1)
        with torch.no_grad():
            self.tell.bias[2 * windows :] = math.log(pace)

    def reset(self, text: Tensor, *, valid: Tensor | None = None) -> HandState:
        """The state before the first step, with a text of integers (B, U), where ``valid`` (B, U) has a character."""
        E = self.memory.width
        if text.dim() != 2 or text.dtype not in (torch.int32, torch.int64):
            raise RegardError(
                f"HandwritingSynthesis: text is {tuple(text.shape)} of {text.dtype}, wanted integers (B, U)"
            )
        if valid is not None and valid.shape == text.shape:
            text = text.masked_fill(~valid, 0)
        if text.numel() and not 0 <= int(text.min()) <= int(text.max()) < E:
            raise RegardError(
                f"HandwritingSynthesis: text has {int(text.min())} to {int(text.max())}, wanted 0 to {E - 1}; "
                "padding is told by valid"
            )
        like = self.answer.weight
        window = self.memory.reset(text.shape[0], dtype=like.dtype, device=like.device)
        window = self.memory.write(window, F.one_hot(text.long(), E).to(window.text.dtype), valid=valid)
        none = like.new_zeros(text.shape[0], len(self.layers), self.answer.in_features // len(self.layers))
        return HandState(window, like.new_zeros(text.shape[0], E), none, none)

    def step(self, x: Tensor, state: HandState) -> tuple[PenMixture, HandState]:
        """One step: x_t (B, 3) → the density of x_{t+1}, and the next state."""
        followed, state = self(x.unsqueeze(1), state)
        return PenMixture(*(part[:, 0] for part in followed.pen)), state

    def forward(self, strokes: Tensor, state: HandState, *, valid: Tensor | None = None) -> tuple[Followed, HandState]:
        """All steps of strokes x_t (B, T, 3): what is made of each, and the state after the last.

        Where ``valid`` (B, T) is False a row takes no step: its state stays, and what is made of it says nothing. It is
        slower than without; strokes that end with padding need it only if the state at their end is used.
        """
        self._check(strokes, state, valid)
        strokes = strokes.to(state.read.dtype)
        if valid is not None:  # what stands at no step must not come into gradients either
            strokes = strokes.masked_fill(~valid.unsqueeze(-1), 0)
        layers: list[SteppedLSTM | PeepholeLSTM] = list(self.layers)  # type: ignore[arg-type]  # Module, to mypy
        (first, *others), memory = layers, self.memory
        window, read = state.window, state.read
        hidden = (state.hidden[:, 0], state.cell[:, 0])
        made: list[tuple[Tensor, ...]] = []
        for t, x in enumerate(strokes.unbind(1)):
            before = hidden, window, read
            hidden = first.step(torch.cat([x, read], -1), hidden)
            window = memory.move(window, Moved(*self.tell(hidden[0]).chunk(3, -1)))
            weights = memory.weights(window)
            read = (weights.unsqueeze(1) @ window.text).squeeze(1).to(x.dtype)
            if valid is not None:
                hidden, window, read = _where(valid[:, t], (hidden, window, read), before)
            made.append((hidden[0], read, weights, window.places))
        if not made:
            return self._nothing(strokes, state), state
        below, reads, weights, places = (torch.stack(parts, 1) for parts in zip(*made, strict=True))
        every, last = [below], [hidden]
        for n, layer in enumerate(others, start=1):
            given = torch.cat([strokes, below, reads], -1)
            below, end = walked(layer, given, (state.hidden[:, n], state.cell[:, n]), valid)
            every.append(below)
            last.append(end)
        pen = PenMixture.of(self.answer(torch.cat(every, -1)))
        h, c = (torch.stack(parts, 1) for parts in zip(*last, strict=True))
        return Followed(pen, weights, places), HandState(window, read, h, c)

    def loss(
        self, strokes: Tensor, text: Tensor, *, valid: Tensor | None = None, text_valid: Tensor | None = None
    ) -> Tensor:
        """−log p of strokes (B, T, 3) given their text (B, U), in nats, the mean over the points there are.

        ``valid`` (B, T) and ``text_valid`` (B, U) are False where a row has no point, and no character; rows may be
        padded on the right.
        """
        found: Tensor = -self.log_density(strokes, self.reset(text, valid=text_valid), valid=valid).mean()
        return found

    def log_density(self, strokes: Tensor, state: HandState, *, valid: Tensor | None = None) -> Tensor:
        """log p of every point that there is, in one row (N,): of all steps, or of the ``valid`` ones (B, T)."""
        self._check(strokes, state, valid)
        if valid is not None:
            strokes = strokes.masked_fill(~valid.unsqueeze(-1), 0)
            if bool((valid[:, 1:] & ~valid[:, :-1]).any()):
                raise RegardError("HandwritingSynthesis: valid has points behind padding, wanted padding on the right")
        followed: Followed = self(F.pad(strokes, (0, 0, 1, 0))[:, :-1], state)[0]
        found = followed.pen.log_density(strokes)
        return found.flatten() if valid is None else found[valid]

    @torch.no_grad()
    def write(
        self,
        text: Tensor,
        *,
        valid: Tensor | None = None,
        bias: float = 0.0,
        limit: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Line:
        """Draws points for a text (B, U), each from the density after the last, until the windows are past its end.

        A row ends when φ(t, U + 1) > φ(t, u) for every u ≤ U, or after ``limit`` points (100 a character when left
        out). ``bias`` makes a neater hand: see :meth:`PenMixture.biased`.
        """
        limit = 100 * text.shape[-1] if limit is None else limit
        if limit < 0:
            raise RegardError(f"HandwritingSynthesis: limit is {limit}, wanted a number of points")
        state = self.reset(text, valid=valid)
        going = state.window.lengths > 0
        x, U = state.read.new_zeros(text.shape[0], 3), state.window.text.shape[1]
        strokes: list[Tensor] = []
        there: list[Tensor] = []
        looks: list[Tensor] = []
        while len(strokes) < limit and bool(going.any()):
            pen, state = self.step(x, state)
            going = going & ~self.memory.ended(state.window)
            x = pen.biased(bias).sample(generator).to(x.dtype) * going.unsqueeze(-1)
            strokes.append(x)
            there.append(going)
            looks.append(self.memory.weights(state.window) * going.unsqueeze(-1))
        if there and not bool(there[-1].any()):  # the step at which the last row was seen to be at its end
            strokes, there, looks = strokes[:-1], there[:-1], looks[:-1]
        if not strokes:
            none = x.new_zeros(text.shape[0], 0, 3)
            return Line(none, none[..., 0].bool(), none.new_zeros(text.shape[0], 0, U), ~going)
        return Line(torch.stack(strokes, 1), torch.stack(there, 1), torch.stack(looks, 1), ~going)

    def _nothing(self, strokes: Tensor, state: HandState) -> Followed:
        pen = PenMixture.of(strokes.new_zeros(*strokes.shape[:2], self.answer.out_features))
        B, U = state.window.text.shape[:2]
        return Followed(pen, strokes.new_zeros(B, 0, U), strokes.new_zeros(B, 0, self.memory.windows))

    def _check(self, strokes: Tensor, state: HandState, valid: Tensor | None) -> None:
        if strokes.dim() != 3 or strokes.shape[-1] != 3 or not strokes.is_floating_point():
            raise RegardError(
                f"HandwritingSynthesis: strokes are {tuple(strokes.shape)} of {strokes.dtype}, wanted numbers (B, T, 3)"
            )
        if state.read.shape[0] != strokes.shape[0]:
            raise RegardError(
                f"HandwritingSynthesis: state is for {state.read.shape[0]} rows, strokes are {strokes.shape[0]}; "
                "give the state of these rows"
            )
        if valid is not None and (valid.shape != strokes.shape[:2] or valid.dtype != torch.bool):
            raise RegardError(
                f"HandwritingSynthesis: valid is {tuple(valid.shape)} of {valid.dtype}, wanted booleans "
                f"{tuple(strokes.shape[:2])}, True where there is a step"
            )


def mean_place(weights: Tensor) -> Tensor:
    """Σ_u φ u / Σ_u φ of weights (…, U) at places 1 to U: (…); 0 where every weight is 0."""
    at = torch.arange(1, weights.shape[-1] + 1, dtype=weights.dtype, device=weights.device)
    total = weights.sum(-1)
    return (weights * at).sum(-1) / torch.where(total > 0, total, 1)


Carried = tuple[tuple[Tensor, Tensor], WindowState, Tensor]


def _where(valid: Tensor, after: Carried, before: Carried) -> Carried:
    """The rows that took a step from ``after``, the others as they were."""
    at = valid.unsqueeze(-1)
    (h, c), window, read = after
    (h0, c0), window0, read0 = before
    moved = {name: torch.where(at, getattr(window, name), getattr(window0, name)) for name in WindowState._fields[2:]}
    return (torch.where(at, h, h0), torch.where(at, c, c0)), window._replace(**moved), torch.where(at, read, read0)
