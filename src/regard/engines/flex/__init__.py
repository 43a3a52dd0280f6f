"""The flex engine: dot products with position biases and caps under softmax and any mask, by FlexAttention."""

from regard.engines.flex.engine import Flex

__all__ = ["Flex"]
