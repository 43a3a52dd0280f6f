"""The recorder: every attention call of any model, measured while it runs, in O(L) memory."""

from regard.doctor.watch.heads import Head, Heads
from regard.doctor.watch.recorder import Watch, watch

__all__ = ["Head", "Heads", "Watch", "watch"]
