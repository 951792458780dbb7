"""Targets as a spec describes them: one module for each kind."""
