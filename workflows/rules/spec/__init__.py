"""Rules about specs: what can be wrong with one although each of its fields is well-formed."""
