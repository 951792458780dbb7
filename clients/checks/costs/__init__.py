"""What a run may cost, before it is started: expected, and at worst."""
