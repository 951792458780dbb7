"""Evaluate a shard: its calls, its answers on their way to the store, and the conclusion of a trial."""
