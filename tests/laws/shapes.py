"""Law 9: every axis has its own prime (H is the one multiple it must be), so that a swapped axis cannot pass."""

from __future__ import annotations

B, G, L, S, D, E, A = 2, 3, 5, 7, 11, 13, 17
H = 2 * G
EVEN = 14  # the width of rotary queries and keys, which turn in pairs
END = S - L  # where query 0 stands when the last query is the last key
