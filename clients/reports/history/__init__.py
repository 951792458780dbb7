"""The exported history of a run: its format, written and read."""
