"""What a run knows of itself: rounds, candidates, decisions, spending, results."""
