"""PAD: padding that was declared and is read all the same."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from regard.doctor.finding import Finding
from regard.doctor.watch.faults.seen import Seen

#: Below this a share is rounding.
_NOTHING = 1e-5


def padding_findings(seen: Seen) -> Iterator[Finding]:
    if seen.padding is None or "padding" not in seen.m.mass:
        return
    mass = seen.m.mass["padding"]
    real = seen.tokens[:, None, :] & (seen.m.seen > 0) & ~(seen.padding.all(-1))[:, None, None]
    on_padding = torch.where(real, mass, 0.0).nan_to_num(0.0)
    most = float(on_padding.max()) if on_padding.numel() else 0.0
    hides = [fill for fill in seen.call.fills if -1e3 < fill.lowest < 0 or fill.zero_one]
    if most <= _NOTHING or hides or _added_zero_one(seen):
        return  # or told as a mask that doesn't hide
    keys = seen.seen_keys.any(1)
    if not bool((keys & ~seen.padding).any()):
        return  # told as a mask the wrong way round
    share = float(on_padding.sum() / real.expand(on_padding.shape).sum().clamp(min=1))
    code = "PAD004" if seen.crosses else "PAD001"
    said = "no mask hides it" if seen.call.mask is None else "the mask does not hide it"
    yield seen.finding(
        code, f"real tokens give padding {share:.1%} of their weight, up to {most:.1%}; {said}", mass=share, most=most
    )


def _added_zero_one(seen: Seen) -> bool:
    given = seen.call.given
    return given is not None and given.dtype != torch.bool and bool(((given == 0) | (given == 1)).all())
