"""Models that are trained: each takes what a task shows and gives a logit for everything an answer can be."""
