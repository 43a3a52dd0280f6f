"""The sizes of a Transformer."""

from __future__ import annotations

from dataclasses import dataclass

from regard.errors import RegardError
from regard.translate.models.sizes import Sizes, choice, whole

__all__ = ["Transformer"]


@dataclass(frozen=True, kw_only=True)
class Transformer(Sizes):
    """The article's base model: width D = 512, 8 heads, 6 + 6 layers, feed 2048, dropout 0.1, norm "post"."""

    width: int = whole(256, "width of every layer")
    heads: int = whole(4, "heads of every attention")
    layers: int = whole(3, "layers on each side")
    feed: int = whole(1024, "width inside the feed-forward parts")
    norm: str = choice("post", "normalise after (post, as published) or before (pre)", "post", "pre")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % self.heads or self.width % 2:
            raise RegardError(f"width: found {self.width}, wanted an even number that {self.heads} heads can share")

    @property
    def parameters(self) -> int:
        """How many numbers a model of these sizes learns."""
        d, f = self.width, self.feed
        heads, feed, norm = 4 * d * d + 4 * d, 2 * d * f + f + d, 2 * d
        encoder = heads + feed + 2 * norm
        decoder = 2 * heads + feed + 3 * norm
        last = 2 * norm if self.norm == "pre" else 0
        return d * (self.source_vocabulary + self.target_vocabulary) + self.layers * (encoder + decoder) + last
