"""Models that are trained to show something: what an experiment is, and a run of it that can stop and go on."""
