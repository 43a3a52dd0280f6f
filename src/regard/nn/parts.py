"""How a layer holds the parts it was given: scores and normalisers as modules of its own, masks put together."""

from __future__ import annotations

import copy

from torch import Tensor

from regard import normalize as normalizers
from regard import score as score_functions
from regard.errors import RegardError
from regard.mask import Mask, dense
from regard.normalize import Normalizer
from regard.score import Score


def own_score(score: Score | str) -> Score:
    """The score given, or a fresh one of that name."""
    found = score_functions.named(score)
    return copy.deepcopy(found) if isinstance(score, str) else found


def own_normalizer(normalize: Normalizer | str) -> Normalizer:
    """The normaliser given, or a fresh one of that name: one that is shared would follow another layer's eval()."""
    found = normalizers.named(normalize)
    return copy.deepcopy(found) if isinstance(normalize, str) else found


def as_mask(mask: Mask | Tensor | None) -> Mask | None:
    """A mask as it is, a boolean tensor (True = may look) as ``regard.mask.dense``."""
    if isinstance(mask, Tensor):
        return dense(mask)
    if mask is not None and not isinstance(mask, Mask):
        raise RegardError(f"mask: found {type(mask).__name__}, wanted an object of regard.mask, or None")
    return mask


def both(always: Mask | None, now: Mask | Tensor | None) -> Mask | None:
    """What the layer's own mask and the one of this call allow together."""
    now = as_mask(now)
    if always is None:
        return now
    return always if now is None else always & now
