"""What a run begins with: what its directory holds, the model that it is given, or nothing but its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.translate import checkpoint
from regard.translate.text.corpus import Corpus
from regard.translate.text.vocabulary import Vocabulary
from regard.translate.training.claim import check_joint, check_sizes, same_run
from regard.translate.training.lessons import vocabularies
from regard.translate.training.settings import Settings

__all__ = ["Begun", "begun"]


@dataclass(frozen=True)
class Begun:
    """The models of the two vocabularies; ``state``, which a run goes on from, or else ``weights`` that are given."""

    source: bytes
    target: bytes
    state: dict[str, Any] | None
    weights: dict[str, Tensor] | None

    @property
    def vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        """Those of source and target."""
        return Vocabulary(self.source), Vocabulary(self.target)


def begun(out: Path, identity: Mapping[str, Any], corpus: Corpus, settings: Settings, start: Path | None) -> Begun:
    """Looks into ``out``, which is this run's or nobody's, then at ``start``.

    Raises:
        RegardError: another run's, or files that are missing, cut or unfit.
    """
    same_run(out, identity, settings)
    state, weights = checkpoint.load_state(out), None
    if state is not None:
        source, target = checkpoint.load_vocabularies(out, checkpoint.load_config(out))
    elif start is not None:
        first, source, target = checkpoint.load_model(start)
        check_sizes(first, settings)
        check_joint(source, target, settings)
        weights = dict(first.state_dict())
    else:
        source, target = vocabularies(corpus, settings)
    return Begun(source.model, target.model, state, weights)
