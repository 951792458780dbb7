"""What `ratchet init` writes."""
