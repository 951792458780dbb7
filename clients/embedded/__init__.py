"""The real servers on one machine: Temporal and PostgreSQL, supervised, shared by everybody who uses the directory."""
