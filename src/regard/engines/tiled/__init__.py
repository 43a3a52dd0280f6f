"""The tiled engine: every composition on the CPU, forward, backward and telemetry, in O(L + S) memory.

``recipe`` writes a score down for the kernels, ``bands`` says what each query may see, ``ops`` and ``threshold_ops``
are the operators, ``softmax``, ``threshold``, ``scores`` and ``sight`` the kernels behind them. What no kernel knows (a
learned score, a normaliser of the user's own) runs the reference a band of queries at a time.
"""

from __future__ import annotations

from regard.engines.tiled.engine import Tiled

__all__ = ["Tiled"]
