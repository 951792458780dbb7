"""How a trial gets its answers: one file for each kind of target."""
