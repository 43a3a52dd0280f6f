"""A translator whose source mask was left out: it trains like the right one, and repeats itself when it is used.

``python -m examples.forgotten_mask`` trains both, counts, and asks the doctor. ``docs/forgotten-mask.md`` tells it.
"""
