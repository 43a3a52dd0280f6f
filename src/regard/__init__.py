"""regard: attention for PyTorch that you can compose, measure and trust.

A name is imported when it is first asked for, so that help, the pytest plugin and anything else that needs no tensor
does not wait for PyTorch.
"""

import typing as _typing

from regard.lazy import lazily as _lazily

if _typing.TYPE_CHECKING:
    from regard import mask, memory, nn, normalize, position, score
    from regard.bridge.huggingface import use
    from regard.doctor.check import check
    from regard.doctor.watch import watch
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
    "check",
    "explain",
    "mask",
    "memory",
    "nn",
    "normalize",
    "position",
    "read",
    "score",
    "scores",
    "use",
    "watch",
    "weights",
]

#: Where each public name lives; what is not named here is a submodule.
_HOMES = {
    "Plan": "plan",
    "Reading": "reading",
    "RegardError": "errors",
    "RegardWarning": "errors",
    "attend": "operator",
    "check": "doctor.check",
    "explain": "operator",
    "read": "operator",
    "scores": "operator",
    "use": "bridge.huggingface",
    "watch": "doctor.watch",
    "weights": "operator",
}

__getattr__, __dir__ = _lazily(__name__, {name: _HOMES.get(name, name) for name in __all__})
