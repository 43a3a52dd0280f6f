"""Learning to use a memory: models trained on the tasks of ``regard.memory.tasks``, and what they then get wrong.

An experiment is a task, a recipe, what chooses the checkpoint, what is asked at the end, and the models (arms) that are
trained on it, the one that must fail among them. One file of ``experiments/`` is one experiment, its name that of the
task; ``arms/`` has the models. ``regard bench memory --task NAME --memory ARM`` trains and reports.
"""
