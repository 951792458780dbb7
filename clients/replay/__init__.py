"""Replay: everything that a run decided, decided again by the same rules, from what is recorded of it.

`course` goes through a run with the workflow's own books; what its trials were worth comes from stored outcomes
(`from_outcomes`) or from the means in an exported file (`from_means`). `differing` says where that leads elsewhere.
"""
