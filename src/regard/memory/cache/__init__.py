"""Caches: memories that keep every pair they are given, or the last of them, or the first and the last."""

from __future__ import annotations

from regard.memory.cache.base import Cache
from regard.memory.cache.contiguous import CacheState, KVCache, StaticCache
from regard.memory.cache.paged import PagedCache, PagedState
from regard.memory.cache.sink import SinkCache, SinkState
from regard.memory.cache.sliding import SlidingCache
from regard.memory.cache.stores import AsGiven, EightBit, Store

__all__ = [
    "AsGiven",
    "Cache",
    "CacheState",
    "EightBit",
    "KVCache",
    "PagedCache",
    "PagedState",
    "SinkCache",
    "SinkState",
    "SlidingCache",
    "StaticCache",
    "Store",
]
