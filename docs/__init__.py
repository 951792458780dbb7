"""The documents, and `docs.generate`, which makes those under `reference/`."""
