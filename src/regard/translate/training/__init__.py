"""Learning to translate: the run, its settings, what it makes small and what it tells.

Nothing is imported here, so that asking for one part does not pay for the others.
"""
