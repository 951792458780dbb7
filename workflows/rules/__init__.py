"""Pure functions: every decision Ratchet takes, by name."""
