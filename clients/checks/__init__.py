"""What `ratchet check` finds before money is spent."""
