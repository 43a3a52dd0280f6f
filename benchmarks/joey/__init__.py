"""The translator beside JoeyNMT: one architecture, one vocabulary, as many updates, on one machine.

``course`` says what both learn from and at which rate, ``config`` how JoeyNMT is told so, ``weights`` what our weights
are called there, ``peer`` keeps it at work in a Python of its own, in which ``driver`` runs; ``quality`` trains both
and scores them, ``speed`` races them. ``benchmarks/joeynmt.py`` is the command.
"""
