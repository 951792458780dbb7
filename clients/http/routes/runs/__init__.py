"""Paths of a run: begin, read, watch, steer, mark, compare and replay it."""
