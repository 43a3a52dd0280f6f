"""One sequence of a batch, and how the batch tells its padding from its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from regard.errors import RegardError

#: A mask that is True at tokens, one that is True at padding, how many tokens each row has, or the pad's id.
Told = Literal["real", "hidden", "lengths", "ids"]


class CouldNotRun(RegardError):
    """A variant of the batch that cannot be made, or that the model raised on: what is said of the probe that wanted
    it."""


@dataclass(frozen=True)
class Stream:
    """One sequence of the batch: the names of its tokens, of what tells its padding, and of its positions.

    ``told`` is how ``mask`` tells: by a mask (B, L) or (B, 1, …, L), where "hidden" is ``key_padding_mask``'s True =
    hide, by ``lengths`` (B,), which know padding on the right alone, or by ``ids``, where ``mask`` is ``tokens`` itself
    and the id ``pad`` stands on padding. ``aligned``: outputs stand at these tokens, one for each. ``beside``: in a
    model that reads one sequence and writes another, the tokens of the other one.
    """

    tokens: str
    mask: str | None
    positions: str | None
    told: Told = "real"
    aligned: bool = True
    beside: str | None = None
    pad: int = 0

    @property
    def by_mask(self) -> bool:
        """Whether there is a mask that could be left out, or say anything of any place."""
        return self.told in ("real", "hidden")

    def real(self, tokens: Tensor, given: Tensor | None) -> Tensor:
        """Which places (B, L) hold tokens, by what was given; all where nothing was."""
        B, L = tokens.shape[:2]
        if given is None:
            return torch.ones(B, L, dtype=torch.bool, device=tokens.device)
        if self.told == "lengths":
            return torch.arange(L, device=tokens.device) < given.to(tokens.device).unsqueeze(-1)
        if self.told == "ids":
            return tokens != self.pad
        seen = given.reshape(B, L).bool()
        return ~seen if self.told == "hidden" else seen

    def telling(self, real: Tensor, tokens: Tensor, given: Tensor | None) -> Tensor:
        """What says that these places (B, L) hold tokens and no others do, in the form and dtype of what was given.

        Raises:
            CouldNotRun: it cannot be said in this form.
        """
        if self.told == "lengths":
            lengths = real.sum(-1)
            if not torch.equal(real, torch.arange(real.shape[1], device=real.device) < lengths.unsqueeze(-1)):
                raise CouldNotRun(f"{self.mask} are lengths, which tell padding on the right alone")
            return lengths if given is None else lengths.to(given)
        if self.told == "ids":
            if bool((real & (tokens == self.pad)).any()):
                raise CouldNotRun(f"{self.tokens} has its pad id {self.pad} where a token is wanted")
            return torch.where(real, tokens, self.pad)
        said = ~real if self.told == "hidden" else real
        if given is None:
            return said if self.told == "hidden" else said.long()
        return said.reshape(real.shape[0], *[1] * (given.dim() - 2), real.shape[1]).to(given.dtype)
