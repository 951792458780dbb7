"""Samples that a provider answers in batches: what is sent, how it is found again, and what is made of its results."""
