"""regard: attention for PyTorch that you can compose, measure and trust."""

from regard import mask, nn, normalize, position, score
from regard.errors import RegardError, RegardWarning
from regard.operator import attend, explain, read, scores, weights
from regard.plan import Plan
from regard.reading import Reading

__version__ = "0.1.0"

__all__ = [
    "Plan",
    "Reading",
    "RegardError",
    "RegardWarning",
    "attend",
    "explain",
    "mask",
    "nn",
    "normalize",
    "position",
    "read",
    "score",
    "scores",
    "weights",
]
