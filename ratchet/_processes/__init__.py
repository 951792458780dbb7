"""Processes of ours: how they begin others, and how they end."""
