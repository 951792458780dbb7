"""Rules about decisions: verdicts, the best candidate, budgets, and when to stop."""
