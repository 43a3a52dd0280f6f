"""Translators that read and write with recurrent units."""
