"""What recurrent translators share beside encoders and readers: how they start, and how they drop."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.score import Additive
from regard.translate.text.vocabulary import PAD

__all__ = ["drop", "embedding", "initialise", "opened"]

_OWN = ("score.", "place.")  # as their own classes start them


def embedding(vocabulary: int, width: int) -> nn.Embedding:
    """A vector for each piece; padding's stays 0."""
    return nn.Embedding(vocabulary, width, padding_idx=PAD)


@torch.no_grad()
def initialise(model: nn.Module, hidden: int, quiet: bool = False) -> None:
    """Embeddings N(0, 1); recurrent matrices orthogonal and what is given to a gate by Glorot's rule, gate by gate, of
    ``hidden`` rows each; other matrices by Glorot's rule; biases 0, but for a long short-term memory's forget gate,
    which starts open at 1 (Gers et al. 2000).

    Embeddings of length 1, N(0, 1/m), which a Transformer multiplies by √m, leave every gate nearly shut to the words
    here, and each layer of a stack more so than the one below it. ``quiet`` starts so all the same, and gates by one
    bound together: a model that finds its words by looking came to point at them from there, and less from loud ones
    (docs/encoder-decoders.md).
    """
    for name, parameter in model.named_parameters():
        if name.startswith(_OWN):
            continue
        if parameter.ndim == 1:
            parameter.zero_()
            if "bias_ih" in name and isinstance(model.get_submodule(name.rpartition(".")[0]), nn.LSTM):
                parameter[hidden : 2 * hidden] = 1.0
        elif "embedding" in name:
            nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5 if quiet else 1.0)
            parameter[PAD].zero_()
        elif "weight_hh" in name or name == "cell_state.weight":
            for gate in parameter.split(hidden):
                nn.init.orthogonal_(gate)
        elif not quiet and ("weight_ih" in name or name.startswith("cell_")):
            for gate in parameter.split(hidden):
                nn.init.xavier_uniform_(gate)
        else:
            nn.init.xavier_uniform_(parameter)


@torch.no_grad()
def opened(score: Additive) -> None:
    """W and U by Glorot's rule, v ~ N(0, 1/A). From the published start, where v is 0 and the others nearly so, a small
    model that learnt to reorder words in 2,000 updates did not come to point at them; from here it does
    (docs/encoder-decoders.md)."""
    nn.init.xavier_uniform_(score.query.weight)
    nn.init.xavier_uniform_(score.key.weight)
    nn.init.normal_(score.energy, std=score.energy.numel() ** -0.5)


def drop(x: Tensor, batch: int, p: float) -> Tensor:
    """Sets features of ``x`` to 0, the same ones all along a sentence (Gal & Ghahramani 2016); the rest grows.

    ``x`` is (…, F); its axis ``batch`` counts sentences.
    """
    if p == 0.0:
        return x
    shape = [1] * x.dim()
    shape[batch], shape[-1] = x.shape[batch], x.shape[-1]
    keep = torch.empty(shape, dtype=x.dtype, device=x.device).bernoulli_(1.0 - p)
    return x * keep.div_(1.0 - p)
