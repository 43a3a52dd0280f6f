"""Soft alignment: links from where attention looked, and from how alike two sentences' vectors are.

:mod:`~regard.align.soft.attention` takes weights as tensors, of any model; :mod:`~regard.align.soft.encoder` takes a
local Hugging Face encoder and asks :func:`regard.weights` which words of two sentences look at each other.
"""
