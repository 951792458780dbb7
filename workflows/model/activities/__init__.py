"""What crosses the border to activities: their inputs and outputs."""
