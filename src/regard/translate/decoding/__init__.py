"""What a trained model says: searched for, or led through a given text."""
