"""Forms in which values are written and read: canonical JSON, JSON by the letter, YAML."""
