"""DECIDE: deterministic code. No I/O, no clock and no randomness but the workflow's own."""
