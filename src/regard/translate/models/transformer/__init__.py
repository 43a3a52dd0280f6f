"""Translators that are attention and nothing else."""
