"""Replay: everything that a run decided, decided again by the same rules, from what is recorded of it.

`run` goes through a run with the workflow's own state; what its trials were worth comes from stored outcomes
(`trials_from_store`) or from the means in an exported file (`trials_from_file`). `differences` says where that leads elsewhere.
"""
