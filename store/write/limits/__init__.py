"""What is shared out between workers: budgets and rates."""
