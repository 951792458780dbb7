"""Start, find, follow and steer runs: what the command line and the HTTP side share."""
