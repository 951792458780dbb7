"""Numbered SQL migrations, applied in order on start."""
