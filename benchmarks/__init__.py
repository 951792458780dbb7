"""Benchmarks: each is one script that prints a table, then one JSON object per figure, and fails when a target is missed."""
