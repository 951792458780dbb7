"""The organs of releases: the override store, tags, and the one writer of a prompt."""
