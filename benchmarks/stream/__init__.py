"""A small language model of bytes, trained on real text, that reads a stream far longer than it was trained on."""
