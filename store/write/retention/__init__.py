"""What is removed, and what is held."""
