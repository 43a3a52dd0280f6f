"""Learning to write by hand: training, what the window did, and a picture of what was written."""
