"""Answers: those that are there, those that are missing, and the turns, replies and batches that they come from."""
