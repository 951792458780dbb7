"""Samples as they were measured, compared and sliced."""
