"""ASK: everything that only talks to Temporal and reads the store."""
