"""Rules about scores: from answers to the numbers of a trial."""
