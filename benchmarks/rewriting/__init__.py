"""Sequences that are rewritten: what each encoder-decoder of the package learns of it in minutes, beside the one that
must fall behind. ``regard bench transduction`` trains and reports.
"""
