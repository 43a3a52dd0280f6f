"""The tiled engine: every composition on the CPU, forward, backward and telemetry, in O(L + S) memory.

``recipe`` writes a score down for the kernels; ``passes`` runs the operators in ``ops`` and ``threshold_ops`` over
it, and ``readings`` makes readings of what they found. ``softmax``, ``threshold``, ``scores``, ``sight`` and ``loops``
are the kernels behind them. What no kernel knows (a learned score, a normaliser of the user's own) runs
``by_reference``.
"""

from __future__ import annotations

from regard.engines.tiled.engine import Tiled

__all__ = ["Tiled"]
