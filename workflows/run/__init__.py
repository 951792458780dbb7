"""One run: its loop, its state, its trials, and how it begins and ends."""
