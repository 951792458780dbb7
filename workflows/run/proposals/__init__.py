"""From an optimizer, or a person, to candidates that may be tried."""
