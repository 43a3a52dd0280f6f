"""Links to look at: each pair of sentences as a matrix, weights for shade, the links of several models as marks."""

from regard.align.page.page import MOST, document

__all__ = ["MOST", "document"]
