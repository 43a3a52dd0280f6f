"""Numba's floor: vector arithmetic, the matrix product, the workers, and the rows that normalisers solve.

Nothing here knows of masks or scores; ``normalize`` and ``engines.tiled`` stand on it. It is imported when a kernel is
first needed, because Numba takes half a second to load. What is compiled is kept beside the sources, or in Numba's
cache folder where that cannot be written.
"""
