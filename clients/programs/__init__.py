"""Runs as part of other people's Temporal programs."""
