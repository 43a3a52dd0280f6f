"""The sizes of a Transformer."""

from __future__ import annotations

from dataclasses import dataclass

from regard.errors import RegardError
from regard.translate.models.sizes import Sizes, choice, flag, whole

__all__ = ["Transformer"]


@dataclass(frozen=True, kw_only=True)
class Transformer(Sizes):
    """The article's base model: width D = 512, 8 heads, 6 + 6 layers, feed 2048, dropout 0.1, all else as it stands.

    ``normalize`` is the decoder's, where a look at few words is wanted (Correia et al. 2019); the encoder's is softmax.
    ``score`` is everybody's. A ``linear`` encoder has no score (Katharopoulos et al. 2020), and its heads don't talk.
    """

    width: int = whole(256, "width of every layer")
    heads: int = whole(4, "heads of every attention")
    layers: int = whole(3, "layers on each side")
    feed: int = whole(1024, "width inside the feed-forward parts")
    norm: str = choice("post", "normalise after (post, as published) or before (pre)", "post", "pre")
    positions: str = choice("sinusoidal", "what tells places apart", "sinusoidal", "none")
    score: str = choice("scaled_dot", "how a match is scored", "scaled_dot", "dot", "cosine", "euclidean")
    normalize: str = choice("softmax", "how the decoder weighs", "softmax", "sparsemax", "entmax15", "hardmax")
    talking: bool = flag(False, "whether heads hear each other before and after they weigh")
    encoder: str = choice("all", "what an encoder layer looks at and how", "all", "window", "linear")
    shared: bool = flag(False, "whether source, target and output have one embedding; wants a joint vocabulary")
    reach: int = whole(8, "neighbours on each side that an encoder's window shows", least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % self.heads or self.width % 2:
            raise RegardError(f"width: found {self.width}, wanted an even number that {self.heads} heads can share")
        if self.shared and self.source_vocabulary != self.target_vocabulary:
            raise RegardError(
                f"shared: found vocabularies of {self.source_vocabulary} and {self.target_vocabulary} pieces, "
                "wanted one for both sides; make it joint, or share nothing"
            )

    @property
    def parameters(self) -> int:
        """How many numbers a model of these sizes learns."""
        d, f = self.width, self.feed
        heads, feed, norm = 4 * d * d + 4 * d, 2 * d * f + f + d, 2 * d
        encoder = heads + feed + 2 * norm
        decoder = 2 * heads + feed + 3 * norm
        talking = 2 * self.heads**2 * (2 + (self.encoder != "linear")) if self.talking else 0
        last = 2 * norm if self.norm == "pre" else 0
        layers = self.layers * (encoder + decoder + talking)
        embeddings = self.target_vocabulary if self.shared else self.source_vocabulary + self.target_vocabulary
        return d * embeddings + layers + last
