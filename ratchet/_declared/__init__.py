"""Experiments and use cases as Python declares them."""
