"""The commands of `ratchet`, split by subject. Importing them is cheap: what is heavy is imported when a command runs."""
