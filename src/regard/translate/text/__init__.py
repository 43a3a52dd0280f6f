"""Parallel text as a model meets it: read, cut into pieces, put into batches."""
